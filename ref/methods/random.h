/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of random as its open (ref/methods/random.c) has resolved
 * them, for it and its CUDA twin. Defaults and sources stand in its table of
 * parameters; an enum has the values of the parameter named beside it.
 */
#ifndef KV_REF_METHODS_RANDOM_H
#define KV_REF_METHODS_RANDOM_H

enum { DROP, PREFILL }; /* variant */

typedef struct params {
  int budget, recent; /* entries that stay; of these the last ones, always */
  int seed;           /* of the draw */
  int variant;        /* of the enum above */
} params;

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of h2o as its open (ref/methods/h2o.c) has resolved them, for
 * it and its CUDA twin. Defaults and sources stand in its table of parameters;
 * an enum has the values of the parameter named beside it.
 */
#ifndef KV_REF_METHODS_H2O_H
#define KV_REF_METHODS_H2O_H

enum { DROP, MASKED, PREFILL }; /* variant */
enum { NONE, SEEN };            /* scale */

typedef struct params {
  int budget, recent; /* entries that stay; of these the last ones, always */
  int variant, scale; /* of the enums above */
  int group;          /* a kv_group_rule */
} params;

#endif

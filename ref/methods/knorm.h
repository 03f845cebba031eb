/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of knorm as its open (ref/methods/knorm.c) has resolved them,
 * for it and its CUDA twin. Defaults and sources stand in its table of
 * parameters; an enum has the values of the parameter named beside it.
 */
#ifndef KV_REF_METHODS_KNORM_H
#define KV_REF_METHODS_KNORM_H

enum { PREFILL, DROP }; /* variant */

typedef struct params {
  int budget;  /* entries of a lane that stay */
  int skip;    /* first layers, which stay dense */
  int variant; /* of the enum above */
} params;

#endif

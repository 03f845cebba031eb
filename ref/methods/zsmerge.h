/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of zsmerge as its open (ref/methods/zsmerge.c) has resolved
 * them, for it and its CUDA twin. Defaults and sources stand in its table of
 * parameters; an enum has the values of the parameter named beside it.
 */
#ifndef KV_REF_METHODS_ZSMERGE_H
#define KV_REF_METHODS_ZSMERGE_H

enum { PAPER, CODE };              /* variant */
enum { DOT, L2 };                  /* metric */
enum { PLAIN, RESIDUAL, CLASSES }; /* of entries, variant=paper */

typedef struct params {
  int budget; /* entries of a lane that stay: the three below */
  int residual, context, proximity; /* merged; kept by score; newest tokens */
  int variant, metric;              /* of the enums above */
  int merged;                       /* a kv_means */
  float decay;                      /* 0 .. 1 a row: what is left of a score */
  float merge_bias;                 /* a logit gets this times ln(weight) */
} params;

#endif

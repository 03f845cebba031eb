/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of topk as its open (ref/methods/topk.c) has resolved them,
 * for it and its CUDA twin. Defaults and sources stand in its table of
 * parameters.
 */
#ifndef KV_REF_METHODS_TOPK_H
#define KV_REF_METHODS_TOPK_H

#include "ref/parts/scorers.h"

typedef struct params {
  int budget;         /* entries of a lane that stay at most */
  kv_score_options s; /* the scorer and its options */
  float threshold;    /* entries that score less go; NaN: none do */
} params;

#endif

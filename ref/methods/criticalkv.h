/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of criticalkv, shared with its CUDA twin (ref/lane/params.h).
 */
#ifndef KV_REF_METHODS_CRITICALKV_H
#define KV_REF_METHODS_CRITICALKV_H

#include "ref/lane/params.h"
#include "ref/parts/scorers.h"

#define PARAMS(P)                                                              \
  P(BUDGET, "tokens left after a compression; must be given")                  \
  P(REAL, first, "0.5", 0, 1,                                                  \
    "share of the budget chosen by score alone; 0.5 as in the paper and "      \
    "kvpress")                                                                 \
  P(REAL, epsilon, "0.0001", 0, 1,                                             \
    "added to a score before it is multiplied by the value's size; 0.0001 as " \
    "in kvpress")                                                              \
  P(PART, kv_score_options s,                                                  \
    KV_SCORE_PARAMS(params, s, "snapkv", .later = false))                      \
  P(PART, float threshold, KV_THRESHOLD_PARAM(params, threshold))              \
  P(ROW, KV_WINDOW_PARAMS(params, s.w, 0))                                     \
  P(ROW, KV_SINKS_PARAM(params, s))                                            \
  P(ROW, KV_FORM_PARAMS(params, s))
KV_PARAMS(PARAMS);

/* How many of the `room` candidates that stay are chosen by score alone. */
KV_FN int first_stage(const params *o, int room) {
  int k = (int)kv_mul((float)o->budget, o->first) - (o->budget - room);
  return k > 0 ? k : 0;
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of topk, shared with its CUDA twin (ref/lane/params.h).
 */
#ifndef KV_REF_METHODS_TOPK_H
#define KV_REF_METHODS_TOPK_H

#include "ref/lane/params.h"
#include "ref/parts/scorers.h"

#define PARAMS(P)                                                              \
  P(INT, budget, NULL, 1, 1 << 30, "tokens",                                   \
    "most tokens left after a compression; must be given unless threshold "    \
    "is, which then decides alone",                                            \
    .knob = KV_KNOB_RESOLVED)                                                  \
  P(PART, kv_score_options s,                                                  \
    KV_SCORE_PARAMS(params, s, "file", .later = false))                        \
  P(PART, float threshold, KV_THRESHOLD_PARAM(params, threshold))              \
  P(ROW, KV_WINDOW_PARAMS(params, s.w, 0))                                     \
  P(ROW, KV_SINKS_PARAM(params, s))                                            \
  P(ROW, KV_FORM_PARAMS(params, s))
KV_PARAMS(PARAMS);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of adakv, shared with its CUDA twin (ref/lane/params.h).
 */
#ifndef KV_REF_METHODS_ADAKV_H
#define KV_REF_METHODS_ADAKV_H

#include "ref/lane/params.h"
#include "ref/parts/grow.h"
#include "ref/parts/scorers.h"

enum { INTERPOLATE, MINIMUM }; /* safeguard */
enum { NO, YES };              /* normalise */

#define PARAMS(P)                                                              \
  P(BUDGET, "mean tokens per lane, window included; must be given")            \
  P(PART, kv_score_options s, KV_WINDOW_PARAMS(params, s.w, 0))                \
  P(REAL, alpha, "0.2", 0, 1,                                                  \
    "share of the budget that each head gets regardless of scores; 0.2 as in " \
    "the authors' command line")                                               \
  P(CHOICE, safeguard, "interpolate", "interpolate|minimum",                   \
    "how alpha is used: interpolate as in the authors' code, minimum as in "   \
    "kvpress")                                                                 \
  P(CHOICE, normalise, "no", "no|yes",                                         \
    "weigh heads by how concentrated their scores are; no as in the authors' " \
    "code, yes as in KVCache-Factory")                                         \
  P(INT, skip, "0", 0, 1 << 20, "layers",                                      \
    "lowest layers with equal shares; 0 as in the authors' code")              \
  P(ROW, KV_SCORE_PARAMS(params, s, "snapkv", .later = false))                 \
  P(PART, float threshold, KV_THRESHOLD_PARAM(params, threshold))              \
  P(PART, kv_grow_options g, KV_GROW_STEPS_PARAMS(params, g))
KV_PARAMS(PARAMS);

#endif

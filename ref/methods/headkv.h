/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of headkv, shared with its CUDA twin (ref/lane/params.h).
 */
#ifndef KV_REF_METHODS_HEADKV_H
#define KV_REF_METHODS_HEADKV_H

#include "ref/ground/arith.h"
#include "ref/lane/params.h"
#include "ref/parts/grow.h"
#include "ref/parts/scorers.h"

#define PARAMS(P)                                                              \
  P(BUDGET, "mean tokens per head, window included; must be given")            \
  P(PART, kv_score_options s, KV_WINDOW_PARAMS(params, s.w, 0))                \
  P(REAL, beta, "1.5", 1, 1 << 20,                                             \
    "heads compete for 1 / beta of the budget; 1.5 as in the authors' "        \
    "command line")                                                            \
  P(PART, kv_file file,                                                        \
    KV_FILE_PARAM("table", params, file, KV_FILE_OPTIONAL, &kind,              \
                  "importance of heads: safetensors, scores [layers, query "   \
                  "heads]; default: all alike, which is SnapKV"))              \
  P(PART, kv_grow_options g, KV_GROW_PARAMS(params, g))                        \
  P(ROW, KV_SCORE_PARAMS(params, s, "snapkv", .later = true))                  \
  P(PART, float threshold, KV_THRESHOLD_PARAM(params, threshold))              \
  P(ONLY, int named) /* is there a file? */                                    \
  P(ONLY, int least) /* entries by score that every head gets */               \
  P(ONLY, float sum) /* sum of all scores of the file, if there is one */      \
  P(ONLY,                                                                      \
    float pool) /* entries that the scores distribute over the whole model */  \
  P(ONLY, int ends) /* entries that always stay */
KV_PARAMS(PARAMS);

/* Tensors of a layer, indexes of at->asset. */
enum { IMPORTANCE, SCORES };

/* Entries that one query head keeps by score: its share of the pool. */
KV_FN int kv_headkv_cap(const params *o, float score) {
  float share = kv_div(score, o->sum);
  float cap = kv_rint(kv_add(kv_mul(share, o->pool), (float)o->least));
  return cap < 0x1p30f ? (int)cap : 1 << 30;
}

/* Entries that a lane of a layer keeps by score: the mean over its query heads
 * or, without a file, the budget minus the ends. All, if `seen`, the most
 * tokens that it can have held, is below the budget. scores: of the file,
 * [layers][query heads], or NULL. */
KV_FN int kv_headkv_past(const params *o, const kv_shape *s,
                         const float *scores, int layer, int lane, int seen) {
  int group = s->n_heads / s->n_kv_heads;
  int64_t caps = 0;
  if (o->s.w.group == KV_GROUP_QUERY_HEAD) group = 1;
  if (seen < o->budget) return seen;
  if (!o->named) return o->budget - o->ends;
  scores += layer * s->n_heads + lane * group;
  for (int h = 0; h < group; h++) caps += kv_headkv_cap(o, scores[h]);
  return (int)kv_rint(kv_div((float)caps, (float)group));
}

#endif

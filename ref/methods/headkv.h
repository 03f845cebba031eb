/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of headkv as its open (ref/methods/headkv.c) has resolved
 * them, for it and its CUDA twin. Defaults and sources stand in its table of
 * parameters.
 */
#ifndef KV_REF_METHODS_HEADKV_H
#define KV_REF_METHODS_HEADKV_H

#include "ref/ground/arith.h"
#include "ref/parts/grow.h"
#include "ref/parts/scorers.h"

typedef struct params {
  kv_file file;       /* heads' importance, scores [layers][query heads] */
  int budget;         /* entries of a head on average, window included */
  kv_score_options s; /* the scorer and its options; of snapkv's votes s.w */
  float threshold;    /* entries that score less go; NaN: none do */
  float beta;         /* heads compete for 1 / beta of the budget */
  int named;          /* is there a file? */
  int least;          /* entries by score that every head gets */
  float sum;          /* of all scores of the file, where there is one */
  float pool;        /* entries that the scores share out, of the whole model */
  int ends;          /* entries that always stay */
  kv_grow_options g; /* of snapkv's votes; of others sinks alone */
} params;

/* Tensors of a layer, indexes of at->asset. */
enum { IMPORTANCE, SCORES };

/* Entries that one query head keeps by score: its share of the pool. */
KV_FN int kv_headkv_cap(const params *o, float score) {
  float share = kv_div(score, o->sum);
  float cap = kv_rint(kv_add(kv_mul(share, o->pool), (float)o->least));
  return cap < 0x1p30f ? (int)cap : 1 << 30;
}

/* Entries that a lane of a layer keeps by score: the mean over the query heads
 * that share it, without a file what the budget leaves beside the ends; all
 * while it can have held `seen` tokens, fewer than the budget. scores: of the
 * file, [layers][query heads]; NULL without one. */
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

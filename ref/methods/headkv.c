/* SPDX-License-Identifier: Apache-2.0
 *
 * HeadKV: SnapKV's choice, with a separate budget for each head, by how much
 * that head was measured to retrieve and to reason.
 *
 *   score[l][h] >= 0 for each query head of each layer, from a file; S: the sum
 *     of all, in binary64, in their order, rounded once
 *   base = budget - w;  each = floor(base / beta) in binary64, beta being the
 *     binary32 that was parsed
 *   cap[l][h] = rint(RN(RN(RN(score[l][h] / S) * (each * L * H))
 *                    + (base - each)))
 *   after the prompt, P >= budget: keep the best cap[l][h] entries by SnapKV's
 *   score and the last w; a lane of several query heads has the mean of their
 *   caps, rounded to the nearest, ties to even; then lanes grow
 *
 * grow, every, sinks, recent and voters are snapkv's (METHODS.md, Compression
 * again), with w = sinks + recent and past = the cap. The file of table=NAME
 * holds `scores` [layers, query heads], F32, F16 or BF16. Without a file all
 * heads are alike, and the method keeps what SnapKV keeps. A score below 0,
 * scores that are all 0 and a table of another shape refuse the cell. score=
 * replaces SnapKV's votes by any other scorer, once after the prompt. The
 * entries it protects replace the window, and threshold drops entries that
 * score less (METHODS.md, Scorers). lagkv has cross=yes. Within a sliding
 * window (windowed=compress) budget is the layer's own, and the pool is
 * computed as if every layer had it.
 *
 * Fu et al. 2024, Not All Heads Matter: A Head-Level KV Cache Compression
 * Method with Integrated Retrieval and Reasoning (HeadKV). The paper's 1 / beta
 * is the share that heads compete for. The rule is that of the authors' code
 * (commit 0862a09), except:
 * - The code's sums and shares are binary64 throughout. Its floor is Python's,
 *   which is one lower if base / beta is whole but beta's binary64 is above it.
 * - In the code every query head has a cache (group=query_head). One cache per
 *   KV head, with the mean of its heads' caps, is KVCache-Factory's.
 *   KVCache-Factory also adds the window on top: its C is budget - w.
 * - The authors can raise scores to a power first (`temp`, always 1 in their
 *   scripts): a table may hold powers. Their files are JSON, a list of scores
 *   for each head in the order of layers and heads; the means of the lists are
 *   the table.
 * - The authors' scripts try beta from 1.005 to 10. 1.5 is the default of their
 *   command line, and of this method.
 *
 * Family: drop. Acts: after the prompt; again with grow=no. Needs: what the
 * scorer needs; a score for each head (a file); lanes of unequal length. Bound:
 * cap + w + t - P. Bytes: B R on average. Gather: `kernel` neighbours. Reduce:
 * probability, summed over the window, largest of neighbours. Sample: top-k by
 * its head's budget, and the window. Cost: as snapkv.
 */
#include "ref/methods/headkv.h"

static const kv_tensor_ask tensors[] = {{.name = "scores",
                                         .type = KV_T_F32,
                                         .rank = 2,
                                         .dim = {KV_DIM_LAYERS, KV_DIM_HEADS}},
                                        {.name = NULL}};
static const kv_asset_kind kind = {NULL, tensors};

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static kv_rc sum_scores(const kv_shape *s, params *o, kv_err *e) {
  const kv_tensor *t = o->file.asset->tensor;
  const float *score = t->data;
  double sum = 0;
  for (int i = 0; i < t->count; i++) {
    sum += (double)score[i];
    if (!(score[i] >= 0))
      return kv_fail(e, KV_REFUSED,
                     "%s: the score of query head %d of layer %d is %g; it "
                     "must be 0 or more",
                     o->file.asset->path, i % s->n_heads, i / s->n_heads,
                     (double)score[i]);
  }
  o->sum = (float)sum;
  if (o->sum > 0 && kv_finite(o->sum)) return KV_OK;
  return kv_fail(
      e, KV_REFUSED,
      "%s: the scores add up to %g; the sum must be finite and above 0",
      o->file.asset->path, sum);
}

/* Does it grow by snapkv's votes, instead of using a scorer's scores once? */
static bool votes(const params *o) { return o->s.score == KV_SCORE_snapkv; }

static kv_rc open_scorer(const kv_shape *shape, params *o, kv_needs *needs,
                         kv_err *e) {
  const kv_grow_options *g = &o->g;
  if (g->grow != KV_GROW_YES || g->every || g->recent || g->voters)
    return kv_fail(e, KV_REFUSED,
                   "headkv: grow, every, recent and voters only apply with "
                   "score=snapkv; leave them out or set it");
  o->s.sinks = g->sinks;
  o->s.cross = KV_CROSS_YES;
  o->s.tensor = SCORES;
  kv_rc rc = kv_score_open(shape, "headkv", o->budget, &o->s, needs, e);
  o->ends = o->budget - kv_score_past(&o->s, shape->prompt_len, o->budget);
  needs->lengths = kv_score_lengths(&o->s, o->threshold);
  return rc;
}

static kv_rc open_votes(const kv_shape *shape, params *o, kv_needs *needs,
                        kv_err *e) {
  if (o->threshold == o->threshold)
    return kv_fail(e, KV_REFUSED,
                   "headkv: threshold only applies with score=file and other "
                   "scorers, not with votes; leave it out");
  kv_rc rc = kv_score_unread("headkv", &o->s, e);
  if (!rc)
    rc = kv_open_grow(shape, "headkv", o->budget, false, &o->s.w, &o->g, needs,
                      e);
  o->ends = kv_grow_ends(&o->g, &o->s.w);
  needs->lengths = true;
  return rc;
}

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  kv_rc rc = votes(o) ? open_votes(shape, o, needs, e)
                      : open_scorer(shape, o, needs, e);
  if (rc) return rc;
  int base = o->budget - o->ends;
  int each = (int)((double)base / (double)o->beta);
  o->named = o->file.asset != NULL;
  o->least = base - each;
  o->pool = (float)((int64_t)each * shape->n_layers * shape->n_heads);
  return o->named ? sum_scores(shape, o, e) : KV_OK;
}

static int past(const kv_at *at, const kv_lane *lane) {
  const params *o = at->params;
  const float *scores = o->named ? at->asset[IMPORTANCE].data : NULL;
  int seen = kv_grow_within(at->step, lane->data->window);
  return kv_headkv_past(o, at->shape, scores, at->layer, lane->lane, seen);
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const params *o = at->params;
  if (votes(o))
    kv_grow_observe(at, lane, rows, &o->s.w, &o->g, past(at, lane));
  else
    kv_score_observe(at, lane, rows, &o->s);
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  if (votes(o)) {
    kv_grow_compress(at, lane, &o->s.w, &o->g, past(at, lane));
    return;
  }
  kv_score_keep(at, lane, past(at, lane), o->threshold, &o->s);
  kv_score_forget(at, lane, &o->s);
}

const kv_method kv_method_headkv = {
    KV_METHOD_OF(table, params, open),
    .revision = 2,
    .name = "headkv",
    .title = "SnapKV with a separate budget for each head",
    .paper = "Fu et al. 2024, Not All Heads Matter: A Head-Level KV Cache "
             "Compression Method with Integrated Retrieval and Reasoning, "
             "arXiv:2410.19258",
    .spreads = true,
    .observe = observe,
    .compress_lane = compress_lane,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * ChunkKV: keeps or drops whole chunks of neighbours, so that text that belongs
 * together stays together. All lanes of a layer keep the same chunks.
 *
 *   score[h][j] of a scorer (snapkv: the votes of the last queries)
 *   total[j] = the scores of the layer's lanes, a chain from the first lane on
 *   the candidates are cut into chunks of c, the last one shorter; a chunk's
 *   value is the chain of its totals from +0, divided by their number
 *   n > budget: the best `kept` chunks stay in all lanes (ties: the earlier),
 *   and so do the entries that the scorer protects; room = budget less those
 *   count=budget: c = min(chunk, room); kept = room div c
 *   count=share:  kept = max(1, chunks * room div candidates)
 *
 *   threshold=X: chunks worth less than RN(X * lanes) go
 *
 * score= names any scorer (ref/parts/scorers.h); lagkv has cross=yes. window,
 * kernel, pooling and group are snapkv's; for other scorers window is as in
 * adakv. METHODS.md, Scorers, has sinks, form, every and reindex.
 *
 * Liu et al. 2025, ChunkKV: Semantic-Preserving KV Cache Compression for
 * Efficient Long-Context LLM Inference. Differences; the default is the first:
 * - count: the paper counts the chunks of the budget. kvpress takes a share of
 *   all chunks, so a lane may hold up to a chunk more than the budget, or less.
 * - chunk: 10 in the paper, 20 in kvpress.
 * - In the paper layers may reuse the choice of other layers to save time; not
 *   offered.
 *
 * Family: drop. Acts: after the prompt. Needs: what the scorer needs. Bound:
 * min(P, B) + t - P, with count=share up to a chunk more; other forms:
 * METHODS.md, Scorers. Bytes: B R. Gather: a chunk of tokens. Reduce: sum over
 * the chunk, given to all of it. Sample: top-k of chunks. Cost: the scorer's,
 * and O(n) a lane and compression.
 */
#include "ref/methods/chunkkv.h"
#include <string.h>

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  o->s.cross = KV_CROSS_YES;
  return kv_score_open(shape, "chunkkv", o->budget, &o->s, needs, e);
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const params *o = at->params;
  kv_score_observe(at, lane, rows, &o->s);
}

/* Sums the lanes' scores. All lanes keep the same entries, so they have one
 * length, also after a later prompt (--turns). */
static float *totals(const kv_at *at, const params *o, kv_lane *const *lane,
                     int lanes, int first, int n) {
  float *total = kv_score(at, lane[0], &o->s, first, n);
  for (int l = 1; l < lanes; l++) {
    size_t used = at->work->used;
    const float *score = kv_score(at, lane[l], &o->s, first, n);
    for (int i = 0; i < n; i++) total[i] = kv_add(total[i], score[i]);
    at->work->used = used;
  }
  return total;
}

static float mean_of(const float *total, int first, int end) {
  float sum = 0;
  for (int i = first; i < end; i++) sum = kv_add(sum, total[i]);
  return kv_div(sum, (float)(end - first));
}

static int end_of(const chunks *c, int k, int n) {
  return (k + 1) * c->length < n ? (k + 1) * c->length : n;
}

/* least: the smallest value of a chunk that stays; NaN: any. */
static void choose(const kv_at *at, const chunks *c, const float *total, int n,
                   float least, bool *keep) {
  float *mean = KV_TAKE(at->work, float, c->number);
  bool *in = KV_TAKE(at->work, bool, c->number);
  for (int k = 0; k < c->number; k++)
    mean[k] = mean_of(total, k * c->length, end_of(c, k, n));
  kv_top(mean, c->number, c->kept, in);
  for (int k = 0; k < c->number; k++) in[k] &= kv_score_stays(mean[k], least);
  for (int i = 0; i < n; i++) keep[i] = in[i / c->length];
}

static void compress_layer(const kv_at *at, kv_lane *const *lane, int lanes) {
  const params *o = at->params;
  int first, entries = lane[0]->n, n = kv_score_span(&o->s, entries, &first);
  if (kv_score_compresses(&o->s, at->shape, at->step) && n > 0 &&
      kv_score_over(entries, o->budget, o->threshold)) {
    chunks c = chunks_of(o, n, o->budget - (entries - n));
    float least = kv_mul(o->threshold, (float)lanes);
    bool *keep = KV_TAKE(at->work, bool, entries);
    memset(keep, true, (size_t)entries);
    choose(at, &c, totals(at, o, lane, lanes, first, n), n, least,
           keep + first);
    for (int l = 0; l < lanes; l++) kv_keep_mask(lane[l], keep);
  }
  for (int l = 0; l < lanes; l++) kv_score_forget(at, lane[l], &o->s);
}

const kv_method kv_method_chunkkv = {
    KV_METHOD_OF(table, params, open),
    .revision = 3,
    .name = "chunkkv",
    .title = "whole chunks of neighbours, the same in all lanes of a layer",
    .paper = "Liu et al. 2025, ChunkKV: Semantic-Preserving KV Cache "
             "Compression for Efficient Long-Context LLM Inference, "
             "arXiv:2502.00299",
    .observe = observe,
    .compress_layer = compress_layer,
};

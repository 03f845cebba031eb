/* SPDX-License-Identifier: Apache-2.0
 *
 * Top-k: keeps the best entries of each lane, by the scores of a file or of any
 * scorer.
 *
 *   score(j) of a scorer (file: the file's number for the token)
 *   n > budget: keep the protected entries and the best others, `budget` in
 *   all (ties: the older)
 *   threshold=X: of the others that stay, those with score(j) < X go, too;
 *   threshold without a budget: exactly those of the others go
 *
 * score=file reads the file that scores= names. ref/parts/scorers.c has its
 * form; kvreplay.scores writes it, and kvreplay.kvpress writes it from a press.
 * window and sinks are the numbers of last and first entries that always stay.
 * Their defaults are 0, with exceptions. With score=snapkv and h2o they are
 * adakv's; h2o's share is of the budget, so with a threshold alone it is 0.
 * With lagkv and expected `sinks` is min(4, B - 1). kernel, pooling and group
 * are snapkv's; METHODS.md, Scorers, has form, every and reindex. Few files
 * have scores for generated tokens: form=decode and form=both require a file
 * that covers them.
 *
 * A threshold makes lanes of different lengths. It is the rule of KVzap and of
 * kvpress's DMSPress, which masks entries that score less and protects a
 * sliding window of 128 tokens: threshold=X:window=128.
 *
 * No paper: the scorer is the method.
 *
 * Family: drop. Acts: after the prompt. Needs: what the scorer needs; a file of
 * scores. Bound: min(P, B) + t - P; with threshold alone t; other forms:
 * METHODS.md, Scorers. Bytes: B R. Gather: as the scorer. Reduce: as the
 * scorer. Sample: top-k, or a threshold. Cost: the scorer's, and O(n) a lane
 * and compression.
 */
#include "ref/methods/topk.h"

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  bool by_threshold = o->threshold == o->threshold;
  o->s.cross = KV_CROSS_YES;
  if (o->budget == KV_UNSET && by_threshold) {
    o->budget = shape->n_tokens;
    if (o->s.score == KV_SCORE_h2o && o->s.w.window == KV_UNSET)
      o->s.w.window = 0; /* not half of a budget that was not given */
  }
  kv_rc rc = kv_score_open(shape, "topk", o->budget, &o->s, needs, e);
  needs->lengths = kv_score_lengths(&o->s, o->threshold);
  return rc;
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const params *o = at->params;
  kv_score_observe(at, lane, rows, &o->s);
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  kv_score_compress(at, lane, o->budget, o->threshold, &o->s);
}

const kv_method kv_method_topk = {
    KV_METHOD_OF(table, params, open),
    .revision = 1,
    .name = "topk",
    .title = "the best by the scores of a file, or of any scorer",
    .paper = "none: the scorer is the method",
    .observe = observe,
    .compress_lane = compress_lane,
};

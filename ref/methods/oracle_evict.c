/* SPDX-License-Identifier: Apache-2.0
 *
 * Oracle eviction: keeps the tokens that future decode steps attend most.
 *
 *   after the prompt and after every step, while n > budget:
 *     score[j] = sum of p[row][j] over the decode rows that follow and over the
 *                lane's query heads, p being the exact attention over the whole
 *                cache
 *     keep the `budget` entries of largest score, the newest one competing like
 *     any other (ties: the lower entry)
 *
 * No paper: methods that drop tokens for good are compared with it at equal
 * entries. It knows the future queries, which no method does. Like every method
 * that drops, it never takes a token back. Sums are integers (arithmetic 4)
 * before they are scores, so the order of rows and heads does not matter.
 *
 * It is a baseline, not a bound. It is greedy: a token that goes later counts
 * now with all of its mass. So another choice may retain a little more in
 * total. A choice by the next row alone may retain more of that row. Mass is
 * not output error either, because values differ in length and direction. All
 * lanes have the same budget here; methods that share one among lanes or layers
 * (adakv, headkv, leankv, pyramidkv) may retain more with as many entries.
 * group=query_head has a lane for each query head, for comparison with methods
 * that do.
 *
 * A step attends budget + 1 tokens. It needs a trace: a session, where tokens
 * come one by one, refuses it. Questions that enter as prompts (--turns) are no
 * decode rows. The future attention is data of the engine and is not charged.
 *
 * Family: baseline. Acts: every step. Needs: probabilities of future decode
 * queries. Bound: min(t, B). Bytes: B R. Gather: the token. Reduce: probability
 * from all future decode queries. Sample: top-k. Cost: the logits of a dense
 * replay twice; O(n) a lane and step.
 */
#include "ref/methods/oracle_evict.h"
#include "ref/parts/parts.h"

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  const params *o = p;
  kv_rc rc = kv_open_budget("oracle-evict", o->budget, e);
  if (rc) return rc;
  needs->every = 1;
  needs->future = needs->slides = true;
  needs->lanes = o->group == QUERY ? QUERY_HEAD : KV_HEAD;
  return kv_open_sums("oracle-evict", shape->n_tokens - shape->prompt_len,
                      o->group == QUERY ? 1 : kv_group(shape), 1, e);
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  int n = lane->n;
  if (n <= o->budget) return;
  int64_t *sum = KV_TAKE(at->work, int64_t, n);
  float *score = KV_TAKE(at->work, float, n);
  for (int i = 0; i < n; i++) sum[i] = lane->future[lane->id[i]];
  kv_scores(sum, n, score);
  kv_keep_top_recent(at, lane, score, o->budget, 0);
}

const kv_method kv_method_oracle_evict = {
    KV_METHOD_OF(table, params, open),
    .revision = 1,
    .name = "oracle-evict",
    .title = "what future decode steps attend: the baseline for evictions",
    .paper = "none: a baseline",
    .compress_lane = compress_lane,
};

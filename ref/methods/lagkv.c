/* SPDX-License-Identifier: Apache-2.0
 *
 * LagKV: tokens that stand out against those that followed them. No query is
 * looked at.
 *
 *   the first `sinks` entries stay; the others are cut into partitions of
 *   `lag`; the last full one and what is behind it stay
 *   of each other partition, K and V apart: every element is put between the
 *   least and the largest of its channel in the next partition; the deviation
 *   of a token's elements, through a softmax over the partition, is its share
 *   score(j) = mean of the shares of K and V
 *   cross=no: how many of its partition the entry beats; cross=yes: as it is
 *   n > budget: of those the best stay until `budget` are held
 *
 * To the bit: ref/parts/score_lag.c. form, every and reindex are those of all
 * scorers (METHODS.md, Scorers).
 *
 * Liang et al. 2025, LagKV: Lag-Relative Information of the KV Cache Tells
 * Which Tokens Are Important. Where code and paper differ, the default is the
 * first:
 * - cross: the paper keeps as many of each partition, and so do ranks, which
 *   kvpress takes too and divides by the lag (which of equal ranks stays at the
 *   cut differs); cross=yes is its cross_scoring.
 * - sinks: 4 in kvpress, of which less is taken here where the budget is less.
 * - lag: 128 in kvpress and in the paper; here less where the budget does not
 *   hold the sinks and what always stays, up to 2 lag - 1 tokens, which kvpress
 *   may cut; a lag that was asked for is refused there.
 * - range 0: a channel that does not change in the next partition divides by
 *   zero there; it counts as 0 here.
 * - short: under sinks + 2 lag tokens kvpress keeps the sinks and the last
 *   tokens; such a lane is within the budget here.
 *
 * Family: drop. Acts: after the prompt. Needs: keys and values. Bound: min(P,
 * B) + t - P; other forms: METHODS.md, Scorers. Bytes: B R. Gather: `lag`
 * tokens against the lag behind them. Reduce: spread of k and v in that range,
 * as shares. Sample: top-k of each. Cost: O(n (d + lag)) a lane and
 * compression.
 */
#include "ref/methods/lagkv.h"

static const kv_param table[] = {
    KV_BUDGET_PARAM(params, "tokens left after a compression; must be given"),
    KV_INT_PARAM("lag", params, s.lag, NULL, 1, 1 << 22, "tokens",
                 "entries of a partition; default min(128, (budget - sinks + "
                 "1) div 2), 128 as in the paper"),
    KV_CHOICE_PARAM("cross", params, s.cross, "no", "no|yes",
                    "rank across partitions? no: within each, as in the paper"),
    KV_SINKS_PARAM(params, s),
    KV_FORM_PARAMS(params, s),
    {.name = NULL}};

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  o->s.score = KV_SCORE_lagkv;
  needs->lengths = true;
  return kv_score_open(shape, "lagkv", o->budget, &o->s, needs, e);
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  kv_score_compress(at, lane, o->budget, KV_NO_THRESHOLD, &o->s);
}

const kv_method kv_method_lagkv = {
    KV_METHOD_OF(table, params, open),
    .revision = 2,
    .name = "lagkv",
    .title = "tokens that stand out against those that followed",
    .paper = "Liang et al. 2025, LagKV: Lag-Relative Information of the KV "
             "Cache Tells Which Tokens Are Important, arXiv:2504.04704",
    .compress_lane = compress_lane,
};

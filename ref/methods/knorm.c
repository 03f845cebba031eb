/* SPDX-License-Identifier: Apache-2.0
 *
 * KNorm: tokens whose keys are short are attended to most, so they stay.
 *
 *   score(j) = -|k_j|^2, by one chain of fused multiply-adds over the elements
 *              as stored (arithmetic 5)
 *   variant=prefill: once after the prompt, in layers l >= skip, n > budget:
 *     keep the `budget` entries with the largest score (equal: the older)
 *   variant=drop: the same after the prompt and after every step
 *
 * Devoto et al. 2024, A Simple and Effective L2 Norm-Based Strategy for KV
 * Cache Compression. It looks at no query and protects neither the first tokens
 * nor the last. A rotation keeps norms, so that it is the same before and after
 * RoPE but for rounding. The square is ranked, which orders as the norm does,
 * but where a square root would round two into one. Where code and paper
 * differ, the default is the first:
 * - skip: the authors' code and KVCache-Factory leave layers 0 and 1 dense, as
 *   the paper does for models whose first layers do not follow the rule;
 *   kvpress leaves none (skip=0).
 * - variant: the paper compresses a prompt, as do kvpress and KVCache-Factory
 *   (prefill); its language modelling evicts whenever the cache is full (drop).
 * - order: KVCache-Factory stores what it keeps by ascending norm; here entries
 *   keep the order of tokens, which changes no attention.
 *
 * Family: drop. Acts: after the prompt. Needs: keys. Bound: min(P, B) + t - P,
 * with drop min(t, B); t in layers before skip. Bytes: B R. Gather: the token.
 * Reduce: minus the norm of k. Sample: top-k. Cost: O(n d) a lane and
 * compression.
 */
#include "ref/methods/knorm.h"
#include "ref/parts/scorers.h"

static const kv_param table[] = {
    KV_BUDGET_PARAM(params, "tokens left after a compression; must be given"),
    KV_INT_PARAM("skip", params, skip, "2", 0, 1 << 16, "layers",
                 "first layers that stay dense; 2 as in the authors' code, 0 "
                 "in kvpress"),
    KV_CHOICE_PARAM("variant", params, variant, "prefill", "prefill|drop",
                    "prefill: once after the prompt; drop: after every step, "
                    "as in the paper's language modelling"),
    {.name = NULL}};

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  const params *o = p;
  (void)shape;
  needs->every = o->variant == DROP;
  needs->lengths = needs->slides = true;
  return kv_open_budget("knorm", o->budget, e);
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  if (at->layer < o->skip || lane->n <= o->budget) return;
  float *score = KV_TAKE(at->work, float, lane->n);
  kv_scorer_knorm.score(at, lane, NULL, 0, lane->n, score);
  kv_keep_top(at, lane, score, 0, lane->n, o->budget);
}

const kv_method kv_method_knorm = {
    KV_METHOD_OF(table, params, open),
    .revision = 1,
    .name = "knorm",
    .title = "tokens with the shortest keys",
    .paper = "Devoto et al. 2024, A Simple and Effective L2 Norm-Based "
             "Strategy for KV Cache Compression, arXiv:2406.11430",
    .compress_lane = compress_lane,
};

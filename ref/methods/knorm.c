/* SPDX-License-Identifier: Apache-2.0
 *
 * KNorm: keeps tokens with short keys, because they receive the most attention.
 *
 *   score(j) = -|k_j|^2, by one chain of fused multiply-adds over the elements
 *              as stored (arithmetic 5)
 *   variant=prefill: once after the prompt, in layers l >= skip, n > budget:
 *     keep the `budget` entries with the largest score (ties: the older)
 *   variant=drop: the same after the prompt and after every step
 *
 * Devoto et al. 2024, A Simple and Effective L2 Norm-Based Strategy for KV
 * Cache Compression. It looks at no query and protects neither the first tokens
 * nor the last. A rotation keeps norms, so scores before and after RoPE differ
 * only by rounding. Ranking squares equals ranking norms, except that a square
 * root could round two values into one. Differences; the default is the first:
 * - skip: the authors' code and KVCache-Factory leave layers 0 and 1 dense. So
 *   does the paper for models with first layers that do not follow the rule.
 *   kvpress leaves none (skip=0).
 * - variant: the paper, kvpress and KVCache-Factory compress a prompt
 *   (prefill). The authors' language modelling evicts whenever the cache is
 *   full (drop).
 * - order: KVCache-Factory stores entries by ascending norm; here they keep the
 *   order of tokens, which changes no attention.
 *
 * Family: drop. Acts: after the prompt. Needs: keys. Bound: min(P, B) + t - P,
 * with drop min(t, B); t in layers before skip. Bytes: B R. Gather: the token.
 * Reduce: minus the norm of k. Sample: top-k. Cost: O(n d) a lane and
 * compression.
 */
#include "ref/ground/arith.h"
#include "ref/parts/scorers.h"

static kv_rc open(const kv_shape *shape, const char *method, int budget,
                  kv_score_options *o, kv_needs *needs, kv_err *e) {
  (void)method, (void)budget, (void)e;
  if (o->w.window == KV_UNSET) o->w.window = 0;
  needs->work += 32 * (size_t)shape->d;
  return KV_OK;
}

static void score(const kv_at *at, const kv_lane *lane,
                  const kv_score_options *o, int first, int n, float *out) {
  int d = at->shape->d;
  float *key = KV_TAKE(at->work, float, d);
  (void)o;
  for (int i = 0; i < n; i++) {
    kv_lane_key(lane, first + i, key);
    out[i] = -kv_dot(key, key, d);
  }
}

const kv_scorer kv_scorer_knorm = {
    .name = "knorm", .open = open, .score = score, .lengths = true};

static const kv_param table[] = {
    KV_BUDGET_PARAM(kv_scored,
                    "tokens left after a compression; must be given"),
    KV_INT_PARAM("skip", kv_scored, skip, "2", 0, 1 << 16, "layers",
                 "first layers that stay dense; 2 as in the authors' code, 0 "
                 "in kvpress"),
    KV_CHOICE_PARAM("variant", kv_scored, drop, "prefill", "prefill|drop",
                    "prefill: once after the prompt; drop: after every step, "
                    "as in the paper's language modelling"),
    {.name = NULL}};

KV_SCORER_METHOD(
    knorm, table, .revision = 1, .title = "tokens with the shortest keys",
    .paper = "Devoto et al. 2024, A Simple and Effective L2 Norm-Based "
             "Strategy for KV Cache Compression, arXiv:2406.11430");

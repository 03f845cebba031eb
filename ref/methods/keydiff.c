/* SPDX-License-Identifier: Apache-2.0
 *
 * KeyDiff: keeps tokens whose keys are unlike the average key. Keys that
 * resemble each other are redundant, and queries tend to attend distinct ones.
 *
 *   anchor   = mean over the lane's entries of k / |k|
 *   score(j) = -cos(k_j, anchor)
 *   the prompt enters in blocks of `block` tokens (0: at once), or in chunks if
 *     a specification's prefill names them; after each,
 *   n > budget: keep the `budget` entries with the largest score (ties: the
 *     older); the anchor covers what is stored and the block
 *
 * To the bit: ref/methods/keydiff.c. METHODS.md, Scorers, has sinks, last,
 * form, every and reindex.
 *
 * Park et al. 2025, KeyDiff: Key Similarity-Based KV Cache Eviction for
 * Long-Context LLM Inference. It looks at no query and protects neither the
 * first tokens nor the last. Keys are used as stored, after RoPE. Differences;
 * the default is the first:
 * - block: the paper processes a prompt in blocks, 128 here. kvpress's press
 *   scores the whole prompt once (block=0). Its block press begins with the
 *   first `budget` tokens and adds blocks to them: the same decisions if the
 *   budget is a multiple of the block.
 * - form: kvpress compresses after the prompt, its decoding press every 512
 *   decode steps.
 *
 * Family: drop. Acts: every 128 tokens of the prompt. Needs: keys. Bound:
 * min(P, B) + t - P; other forms: METHODS.md, Scorers. Bytes: B R. Gather: the
 * token. Reduce: minus the cosine of k with the mean of all keys. Sample:
 * top-k. Cost: O(n d) a lane and compression.
 */
#include "ref/ground/arith.h"
#include "ref/parts/scorers.h"

/* To the bit, over all n entries of the lane, candidates or not:
 *   norm[i]   = sqrt(dot(k_i, k_i)), the chain of arithmetic 5
 *   anchor[x] = RN32(sum over i of RN(RN(k_i[x] / max(norm[i], 1e-12)) * 2^40))
 *               * 2^-40 / n: one int64 sum, one rounding, one division
 *   score[i]  = 0 - dot(k_i, anchor) / max(norm[i] * |anchor|, 1e-8)
 * with |anchor| as norm. The constants are those of the libraries behind
 * kvpress; they matter only for keys of length 0.
 */

static kv_rc open(const kv_shape *shape, const char *method, int budget,
                  kv_score_options *o, kv_needs *needs, kv_err *e) {
  (void)method, (void)budget, (void)e;
  if (o->w.window == KV_UNSET) o->w.window = 0;
  needs->work += 32 * (size_t)shape->d;
  return KV_OK;
}

static float norm_of(const float *x, int d) { return kv_sqrt(kv_dot(x, x, d)); }

/* Norms of all keys; the average of their directions into anchor. */
static void average(const kv_lane *lane, int d, float *key, int64_t *sum,
                    float *norm, float *anchor) {
  for (int x = 0; x < d; x++) sum[x] = 0;
  for (int i = 0; i < lane->n; i++) {
    kv_lane_key(lane, i, key);
    norm[i] = norm_of(key, d);
    float by = kv_max(norm[i], 1e-12f);
    for (int x = 0; x < d; x++) sum[x] += kv_fix(kv_div(key[x], by));
  }
  for (int x = 0; x < d; x++)
    anchor[x] = kv_div(kv_unfix(sum[x]), (float)lane->n);
}

static void score(const kv_at *at, const kv_lane *lane,
                  const kv_score_options *o, int first, int n, float *out) {
  int d = at->shape->d;
  float *key = KV_TAKE(at->work, float, d);
  float *anchor = KV_TAKE(at->work, float, d);
  float *norm = KV_TAKE(at->work, float, lane->n);
  int64_t *sum = KV_TAKE(at->work, int64_t, d);
  (void)o;
  average(lane, d, key, sum, norm, anchor);
  float length = norm_of(anchor, d);
  for (int i = 0; i < n; i++) {
    float both = kv_max(kv_mul(norm[first + i], length), 1e-8f);
    kv_lane_key(lane, first + i, key);
    out[i] = kv_sub(0.0f, kv_div(kv_dot(key, anchor, d), both));
  }
}

const kv_scorer kv_scorer_keydiff = {
    .name = "keydiff", .open = open, .score = score};

static const kv_param table[] = {
    KV_BUDGET_PARAM(kv_scored,
                    "tokens left after a compression; must be given"),
    KV_INT_PARAM(
        "block", kv_scored, block, NULL, 0, 1 << 30, "tokens",
        "prompt tokens between compressions; 0: all at once, as in kvpress's "
        "press; default 128 as in the paper, 0 with form=decode"),
    KV_SINKS_PARAM(kv_scored, s),
    KV_LAST_PARAM(kv_scored, s),
    KV_FORM_PARAMS(kv_scored, s),
    {.name = NULL}};

KV_SCORER_METHOD(
    keydiff, table, .revision = 2,
    .title = "tokens whose keys are unlike the average key",
    .paper = "Park et al. 2025, KeyDiff: Key Similarity-Based KV Cache "
             "Eviction for Long-Context LLM Inference, arXiv:2504.15364");

/* SPDX-License-Identifier: Apache-2.0
 *
 * TOVA: drops the tokens that the last query attends least; all heads of a
 * layer share one choice.
 *
 *   variant=drop, after the prompt and after every step, while n > budget:
 *     score[j] = sum over the layer's query heads of p[last query][j]
 *     protect_newest=no:  keep the best `budget` of all n entries
 *     protect_newest=yes: keep the newest and the best budget - 1 of the rest
 *   variant=prefill: once after the prompt, by its last query; then lanes grow
 *
 * Oren et al. 2024, Transformers are Multi-State RNNs. Paper and authors' code
 * agree, and the default follows them. Scores are the mean over all query
 * heads, which ranks as the sum. Nothing is protected, not even the newest
 * token. kvpress cuts the prompt once and gives the newest token the top score:
 * variant=prefill:protect_newest=yes.
 *
 * Scores do not outlive the step, so they are no column: the lane's state holds
 * them from observe to the compression of the same step. A step attends budget
 * + 1 tokens.
 *
 * Family: drop. Acts: every step. Needs: probabilities of the newest query.
 * Bound: min(t, B). Bytes: B R. Gather: the token. Reduce: probability from the
 * newest query. Sample: top-k. Cost: O(n) a lane and step.
 */
#include "ref/methods/tova.h"
#include "ref/parts/parts.h"
#include <string.h>

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  const params *o = p;
  kv_rc rc = kv_open_budget("tova", o->budget, e);
  if (rc) return rc;
  bool every_step = o->variant == DROP;
  needs->every = every_step;
  needs->prompt_rows = 1;
  needs->decode_rows = every_step;
  needs->want = KV_SUM;
  needs->lane_state = (size_t)shape->n_tokens * sizeof(int64_t);
  needs->slides = true;
  needs->slid = 1;
  return kv_open_sums("tova", 1, shape->n_heads, 1, e);
}

/* One row: the sums are its probabilities. */
static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  int64_t *sum = kv_own(at, lane);
  memset(sum, 0, (size_t)rows->entries * sizeof *sum);
  for (int h = 0; h < rows->heads; h++)
    for (int i = 0; i < rows->entries; i++)
      sum[i] += rows->sum[(size_t)h * rows->stride + (size_t)i];
}

static void compress_layer(const kv_at *at, kv_lane *const *lane, int lanes) {
  const params *o = at->params;
  int n = lane[0]->n, newest = o->protect_newest == YES;
  if (n <= o->budget) return;
  int64_t *sum = KV_TAKE(at->work, int64_t, n);
  float *score = KV_TAKE(at->work, float, n);
  bool *keep = KV_TAKE(at->work, bool, n);
  memset(sum, 0, (size_t)n * sizeof *sum);
  for (int l = 0; l < lanes; l++) {
    const int64_t *own = kv_own(at, lane[l]);
    for (int i = 0; i < n; i++) sum[i] += own[i];
  }
  kv_scores(sum, n, score);
  kv_top(score, n - newest, o->budget - newest, keep);
  if (newest) keep[n - 1] = true;
  for (int l = 0; l < lanes; l++) kv_keep_mask(lane[l], keep);
}

const kv_method kv_method_tova = {
    KV_METHOD_OF(table, params, open),
    .revision = 1,
    .name = "tova",
    .title = "what the last query attends, one choice for the layer",
    .paper = "Oren et al. 2024, Transformers are Multi-State RNNs, "
             "arXiv:2401.06104",
    .observe = observe,
    .compress_layer = compress_layer,
};

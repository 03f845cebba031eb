/* SPDX-License-Identifier: Apache-2.0
 *
 * CriticalKV: chooses the first part of the budget by score, and the rest by
 * effect on the output: score times the size of the value.
 *
 *   score[j] of a scorer (snapkv: the votes of the last queries)
 *   n > budget: of the candidates the best k by score stay,
 *     k = trunc(RN(budget * first)) less what the scorer protects, at least 0
 *   of the others the best by RN(RN(score[j] + epsilon) * a[j]) stay, `budget`
 *   in all; a[j] = |v_j|_1, one chain of additions of |v[x]| from +0; a number
 *   that is not finite counts as the least
 *
 *   threshold=X: of these, entries with score[j] < X go
 *
 * score= and its parameters are chunkkv's. expected runs without value norms,
 * because this method weighs by value, as kvpress advises.
 *
 * Feng et al. 2025, Identify Critical KV Cache in LLM Inference from an Output
 * Perturbation Perspective. Paper and kvpress weigh by the 1-norm of W_o v,
 * averaged over the group's heads. W_o is the rows of the output projection
 * that the head's values meet. A trace holds no weights, so the value itself is
 * used, as if W_o kept 1-norms and weighed all directions of a head's values
 * alike. Votes are sums here and means in kvpress. So its epsilon is 1e-4 times
 * window rows, query heads of a KV head and, with pooling=avg, the kernel.
 * Scores below 0 (scorers by keys) are weighed in the same way, so among them
 * the larger value goes first.
 *
 * Family: drop. Acts: after the prompt. Needs: what the scorer needs; values.
 * Bound: min(P, B) + t - P; other forms: METHODS.md, Scorers. Bytes: B R.
 * Gather: the token. Reduce: the score, then the score times the norm of v.
 * Sample: top-k twice. Cost: the scorer's, and O(n d) a lane and compression.
 */
#include "ref/methods/criticalkv.h"
#include <string.h>

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  o->s.cross = KV_CROSS_YES;
  o->s.vnorm = KV_TERM_NO;
  kv_rc rc = kv_score_open(shape, "criticalkv", o->budget, &o->s, needs, e);
  needs->work += sizeof(float) * (size_t)shape->d_v;
  return rc;
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const params *o = at->params;
  kv_score_observe(at, lane, rows, &o->s);
}

static float size_of(const float *v, int d) {
  float sum = 0;
  for (int x = 0; x < d; x++) sum = kv_add(sum, v[x] < 0 ? -v[x] : v[x]);
  return sum;
}

/* Entries that stay by score outrank all others. */
static void weigh(const kv_at *at, const kv_lane *lane, int first, int n,
                  const bool *in, float *score) {
  const params *o = at->params;
  int d = at->shape->d_v;
  float *v = KV_TAKE(at->work, float, d);
  for (int i = 0; i < n; i++) {
    kv_lane_value(lane, first + i, v);
    float by = kv_mul(kv_add(score[i], o->epsilon), size_of(v, d));
    score[i] = in[i] ? kv_float(0x7f7fffffu) : kv_score_finite(by);
  }
}

static void choose(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  int first, n = kv_score_span(&o->s, lane->n, &first);
  int room = o->budget - (lane->n - n);
  if (n <= 0) return;
  bool *keep = KV_TAKE(at->work, bool, lane->n);
  memset(keep, true, (size_t)lane->n);
  bool *stays = KV_TAKE(at->work, bool, n);
  float *score = kv_score(at, lane, &o->s, first, n);
  for (int i = 0; i < n; i++) stays[i] = kv_score_stays(score[i], o->threshold);
  kv_top(score, n, first_stage(o, room), keep + first);
  weigh(at, lane, first, n, keep + first, score);
  kv_top(score, n, room, keep + first);
  for (int i = 0; i < n; i++) keep[first + i] &= stays[i];
  kv_keep_mask(lane, keep);
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  if (kv_score_compresses(&o->s, at->shape, at->step) &&
      kv_score_over(lane->n, o->budget, o->threshold))
    choose(at, lane);
  kv_score_forget(at, lane, &o->s);
}

const kv_method kv_method_criticalkv = {
    KV_METHOD_OF(table, params, open),
    .revision = 3,
    .name = "criticalkv",
    .title = "half by score, half by score times the size of the value",
    .paper = "Feng et al. 2025, Identify Critical KV Cache in LLM Inference "
             "from an Output Perturbation Perspective, arXiv:2502.03805",
    .observe = observe,
    .compress_lane = compress_lane,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * Expected Attention: tokens that queries to come will look at, if those are
 * drawn as the prompt's were.
 *
 *   of every query head, from its rows as before their rotation, but for those
 *   of the first `sinks` tokens: mean m and covariance C (divided by the rows)
 *   R = mean of the rotations at the next `future` positions
 *   s(j)     = (R m) . k_j * scale + k_j' (R C R') k_j * scale^2 / 2
 *   p        = softmax of s over the candidates, those that may go
 *   score(j) = (mean over the group's heads of p(j) + epsilon) * |v_j|
 *              (vnorm=no: the mean alone)
 *   n > budget: the sinks stay, and the best others
 *
 * To the bit: ref/parts/score_expected.c. The queries are turned back by the
 * recorded frequencies, so a trace without them, or without query rows of the
 * whole prompt, is refused. last, form, every and reindex (with form=prefill)
 * are those of all scorers (METHODS.md, Scorers).
 *
 * Devoto et al. 2025, Expected Attention: KV Cache Compression by Estimating
 * Attention from Future Queries Distribution. The paper's code is a press of
 * kvpress, which the defaults follow: future 512, sinks 4 (here less where the
 * budget is), covariance and value norms on, epsilon 0; others set 0.02. What
 * is not as there:
 * - It averages the rotations at positions counted from 0; here they are those
 *   behind the newest token.
 * - Its scale is 1 / sqrt(d), here the trace's.
 * - While decoding it has the last 256 hidden states, less the first 4 of them;
 *   here the rows since the last compression.
 *
 * Family: drop. Acts: after the prompt. Needs: queries before rotation. Bound:
 * min(P, B) + t - P; other forms: METHODS.md, Scorers. Bytes: B R. Gather: the
 * token. Reduce: expected P under the queries' distribution, times the norm of
 * v. Sample: top-k. Cost: O(n d d) a query head and compression, and as much
 * for the rows.
 */
#include "ref/methods/expected.h"

static const kv_param table[] = {
    KV_BUDGET_PARAM(params, "tokens left after a compression; must be given"),
    KV_INT_PARAM("future", params, s.future, "512", 1, 1 << 16, "tokens",
                 "next positions that are averaged; 512 as in kvpress"),
    KV_CHOICE_PARAM("covariance", params, s.covariance, "yes", "yes|no",
                    "how queries vary counts; yes as in kvpress"),
    KV_CHOICE_PARAM("vnorm", params, s.vnorm, "yes", "yes|no",
                    "weigh by the length of the value; yes as in kvpress"),
    KV_REAL_PARAM("epsilon", params, s.epsilon, "0", 0, 1,
                  "added before that; 0 as in kvpress"),
    KV_SINKS_PARAM(params, s),
    KV_LAST_PARAM(params, s),
    KV_FORM_PARAMS(params, s),
    {.name = NULL}};

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  o->s.score = KV_SCORE_expected;
  kv_rc rc = kv_score_open(shape, "expected", o->budget, &o->s, needs, e);
  needs->lengths = o->s.w.window > 0;
  return rc;
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const params *o = at->params;
  kv_score_observe(at, lane, rows, &o->s);
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  kv_score_compress(at, lane, o->budget, KV_NO_THRESHOLD, &o->s);
}

const kv_method kv_method_expected = {
    KV_METHOD_OF(table, params, open),
    .revision = 2,
    .name = "expected",
    .title = "tokens that queries to come are expected to look at",
    .paper = "Devoto et al. 2025, Expected Attention: KV Cache Compression by "
             "Estimating Attention from Future Queries Distribution, "
             "arXiv:2510.00636",
    .observe = observe,
    .compress_lane = compress_lane,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * Temperatures of rows of a lane. Contract: ref/parts/calibrate.h. Cost: O(n) a
 * step of a search.
 */
#include "ref/parts/calibrate.h"
#include "ref/kernels/kernels.h"

/* Sum of RN(e * u * 2^40), u = -less / t: what falls off a row's exponents. An
 * e of 0 adds nothing, however far its u is. */
static int64_t fallen(int n, const float *less, float t, const float *e) {
  int64_t sum = 0;
  for (int j = 0; j < n; j++)
    if (e[j] > 0) sum += kv_fix(kv_mul(e[j], kv_div(-less[j], t)));
  return sum;
}

/* The slope is (sum over the k of p (u - the mean of u)) / t. */
static kv_prefix look(const kv_at *at, kv_scores_less row, int rule, float t,
                      float *e) {
  bool slopes = rule == KV_CALIBRATE_GRADIENT;
  int64_t first = at->kernels->exp_over(row.first, t, row.k, e);
  int64_t near = slopes ? fallen(row.k, row.first, t, e) : 0;
  float all = kv_unfix(at->kernels->exp_over(row.less, t, row.n, e));
  kv_prefix p = {kv_div(kv_unfix(first), all), 0};
  if (!slopes) return p;
  int64_t both = fallen(row.n, row.less, t, e);
  p.slope = kv_prefix_slope(kv_div(kv_unfix(near), all),
                            kv_div(kv_unfix(both), all), p.mass, t);
  return p;
}

static bool all_equal(kv_scores_less row) {
  int j = 0;
  while (j < row.n && !(row.less[j] < 0)) j++;
  return j == row.n;
}

kv_search kv_calibrate(const kv_at *at, kv_scores_less row, float want,
                       int rule, float *e) {
  kv_search s = kv_search_begin(rule);
  s.met = rule == KV_CALIBRATE_NONE || row.k >= row.n || all_equal(row);
  if (s.met) s.t = 1.0f;
  while (!s.met && kv_search_next(&s, look(at, row, rule, s.t, e), want)) {
  }
  return s;
}

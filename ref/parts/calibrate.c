/* SPDX-License-Identifier: Apache-2.0
 *
 * Temperatures of rows of a lane. Contract: ref/parts/calibrate.h. Cost: O(n) a
 * step of a search.
 */
#include "ref/parts/calibrate.h"
#include "ref/kernels/kernels.h"

/* The slope is (sum over the k of p (u - the mean of u)) / t. */
static kv_prefix look(const kv_at *at, kv_scores_less row, int rule, float t) {
  bool slopes = rule == KV_CALIBRATE_GRADIENT;
  int64_t near, both;
  int64_t first =
      at->kernels->exp_mass(row.first, t, row.k, slopes ? &near : NULL);
  int64_t whole =
      at->kernels->exp_mass(row.less, t, row.n, slopes ? &both : NULL);
  float all = kv_unfix(whole);
  kv_prefix p = {kv_div(kv_unfix(first), all), 0};
  if (!slopes) return p;
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
                       int rule) {
  kv_search s = kv_search_begin(rule);
  s.met = rule == KV_CALIBRATE_NONE || row.k >= row.n || all_equal(row);
  if (s.met) s.t = 1.0f;
  while (!s.met && kv_search_next(&s, look(at, row, rule, s.t), want)) {
  }
  return s;
}

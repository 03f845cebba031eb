/* SPDX-License-Identifier: Apache-2.0
 *
 * Temperatures of sorted rows. Contract: ref/parts/calibrate.h. Cost: O(n) a
 * step of a search.
 */
#include "ref/parts/calibrate.h"
#include "ref/kernels/kernels.h"

int64_t kv_sorted_exp(const kv_at *at, kv_sorted row, float t, float *e) {
  for (int j = 0; j < row.n; j++) e[j] = kv_div(row.less[j], t);
  return at->kernels->exp_sum(e, 0, row.n, e);
}

int kv_sorted_prefix(int n, const float *e, int64_t all, int32_t p20,
                     int64_t *mass) {
  int64_t target = kv_share_of(all, p20), sum = kv_fix(e[0]);
  int k = 1;
  for (; k < n && sum < target; k++) sum += kv_fix(e[k]);
  *mass = sum;
  return k;
}

/* Sum of RN(e * u * 2^40), u = -less / t: what falls off a row's exponents. An
 * e of 0 adds nothing, however far its u is. */
static int64_t fallen(kv_sorted row, int first, int end, float t,
                      const float *e) {
  int64_t sum = 0;
  for (int j = first; j < end; j++)
    if (e[j] > 0) sum += kv_fix(kv_mul(e[j], kv_div(-row.less[j], t)));
  return sum;
}

/* The slope is (sum over the first k of p (u - the mean of u)) / t. */
static kv_prefix look(const kv_at *at, kv_sorted row, int k, int rule, float t,
                      float *e) {
  float all = kv_unfix(kv_sorted_exp(at, row, t, e));
  int64_t first = 0;
  for (int j = 0; j < k; j++) first += kv_fix(e[j]);
  kv_prefix p = {kv_div(kv_unfix(first), all), 0};
  if (rule != KV_CALIBRATE_GRADIENT) return p;
  int64_t near = fallen(row, 0, k, t, e);
  int64_t both = near + fallen(row, k, row.n, t, e);
  p.slope = kv_prefix_slope(kv_div(kv_unfix(near), all),
                            kv_div(kv_unfix(both), all), p.mass, t);
  return p;
}

float kv_calibrate(const kv_at *at, kv_sorted row, int k, float want, int rule,
                   float *e, bool *met) {
  kv_search s = kv_search_begin(rule);
  bool sure =
      rule == KV_CALIBRATE_NONE || k >= row.n || !(row.less[row.n - 1] < 0);
  if (sure) s.t = 1.0f;
  while (!sure && kv_search_next(&s, look(at, row, k, rule, s.t, e), want)) {
  }
  if (met) *met = sure || s.met;
  return s.t;
}

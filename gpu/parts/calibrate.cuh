/* SPDX-License-Identifier: Apache-2.0
 *
 * Temperatures at which the first k entries of a row of scores hold a given
 * share of its probability, as in ref/parts/votes.h, for the polls of
 * gpu/parts/votes.cuh. All threads of the block call every function together
 * with the same arguments and get the same answer; each ends with a barrier. A
 * row less [n] is of scores less the largest one, the k whose mass is looked at
 * first; e [n] is room for exponentials, of which thread t writes and reads
 * e[t], e[t + KV_BLOCK], .. unless said otherwise. t: a temperature. Masses are
 * sums of RN(e * 2^40).
 */
#ifndef KV_GPU_CALIBRATE_CUH
#define KV_GPU_CALIBRATE_CUH

#include "gpu/parts/parts.cuh"

extern "C" {
#include "ref/parts/votes.h"
}

/* e[j] = e^(less[j] / t); returns the mass of all. */
KV_DEVICE int64_t kv_gpu_exp_over(int n, const float *less, float t, float *e) {
  int64_t mass = 0;
  for (int j = kv_thread(); j < n; j += KV_BLOCK) {
    e[j] = kv_expm(kv_div(less[j], t));
    mass += kv_fix(e[j]);
  }
  return kv_block_sum(mass);
}

/* The mass of the first k. */
KV_DEVICE int64_t kv_gpu_first_mass(int k, const float *e) {
  int64_t mass = 0;
  for (int j = kv_thread(); j < k; j += KV_BLOCK) mass += kv_fix(e[j]);
  return kv_block_sum(mass);
}

/* The length of the shortest prefix, at least 1, of a row that is sorted by
 * falling score, whose mass reaches the share p20 * 2^-20 of `all`. A thread
 * has neighbouring entries here, so that one thread knows where the sum passes
 * the target. */
KV_DEVICE int kv_gpu_sorted_prefix(int n, const float *e, int64_t all,
                                   int32_t p20) {
  int each = (n + KV_BLOCK - 1) / KV_BLOCK, first = kv_thread() * each;
  int end = first + each < n ? first + each : n;
  int64_t target = kv_share_of(all, p20), own = 0, total;
  uint32_t past = 0; /* entries beyond the prefix's last, from the other end */
  __syncthreads();
  for (int j = first; j < end; j++) own += kv_fix(e[j]);
  int64_t sum = kv_block_before(own, &total);
  for (int j = first; j < end && past == 0; j++) {
    sum += kv_fix(e[j]);
    if (sum >= target) past = (uint32_t)(n - j);
  }
  past = kv_block_max(past);
  return past ? n - (int)past + 1 : n;
}

/* The sum of RN(e * u * 2^40) over entries first..end-1, u = -less / t. */
KV_DEVICE int64_t kv_gpu_fallen(const float *less, int first, int end, float t,
                                const float *e) {
  int64_t sum = 0;
  for (int j = first + kv_thread(); j < end; j += KV_BLOCK)
    if (e[j] > 0) sum += kv_fix(kv_mul(e[j], kv_div(-less[j], t)));
  return kv_block_sum(sum);
}

/* What the first k hold at temperature t, and by rule KV_CALIBRATE_GRADIENT how
 * fast that changes. */
KV_DEVICE kv_prefix kv_gpu_look(int n, const float *less, int k, int rule,
                                float t, float *e) {
  float all = kv_unfix(kv_gpu_exp_over(n, less, t, e));
  kv_prefix p = {kv_div(kv_unfix(kv_gpu_first_mass(k, e)), all), 0};
  if (rule != KV_CALIBRATE_GRADIENT) return p;
  int64_t near = kv_gpu_fallen(less, 0, k, t, e);
  int64_t both = near + kv_gpu_fallen(less, k, n, t, e);
  p.slope = kv_prefix_slope(kv_div(kv_unfix(near), all),
                            kv_div(kv_unfix(both), all), p.mass, t);
  return p;
}

/* The temperature at which the first k hold the share `want`, by a rule
 * KV_CALIBRATE_x; 1 where k is all of the row, all scores are equal or the rule
 * is KV_CALIBRATE_NONE. */
KV_DEVICE float kv_gpu_calibrate(int n, const float *less, int k, float want,
                                 int rule, float *e) {
  kv_search s = kv_search_begin(rule);
  bool falls = false; /* bits are asked: nvcc makes min.f32 of floats' < */
  for (int j = kv_thread(); j < n; j += KV_BLOCK)
    falls |= kv_key(less[j]) < kv_key(-0.0f);
  bool more = kv_block_any(falls) && rule != KV_CALIBRATE_NONE && k < n;
  if (!more) s.t = 1.0f;
  while (more)
    more = kv_search_next(&s, kv_gpu_look(n, less, k, rule, s.t, e), want);
  return s.t;
}

#endif

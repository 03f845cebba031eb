/* SPDX-License-Identifier: Apache-2.0
 *
 * The scorer lagkv, LagKV's: the twin of that in ref/methods/lagkv.c, called
 * through gpu/parts/scorers.cuh. Partitions of `lag` entries go one after
 * another, each normalised by the bounds of the next one; a thread has a
 * channel's bounds, then an entry's deviation, to itself. All threads of the
 * block call functions with `lane` together, which end with a barrier; the
 * others are one thread's.
 */
#ifndef KV_GPU_SCORE_LAG_CUH
#define KV_GPU_SCORE_LAG_CUH

#include "gpu/parts/parts_keys.cuh"

extern "C" {
#include "ref/parts/scorers.h"
}

/* kv_gpu_key_row or kv_gpu_value_row: which side is looked at. */
typedef kv_gpu_row kv_gpu_row_of(const kv_gpu_layer &, const kv_gpu_lane *,
                                 int);

/* lo, hi [width]: the least and largest of each element of the rows of entries
 * [first, first + lag). */
template <kv_gpu_row_of row>
KV_DEVICE void kv_lag_bounds(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                             int width, int first, int lag, float *lo,
                             float *hi) {
  for (int x = kv_thread(); x < width; x += KV_BLOCK) {
    float low = kv_gpu_element(row(l, lane, first), x), high = low;
    for (int i = 1; i < lag; i++) {
      float y = kv_gpu_element(row(l, lane, first + i), x);
      low = kv_min(low, y);
      high = kv_max(high, y);
    }
    lo[x] = low;
    hi[x] = high;
  }
  __syncthreads();
}

/* Where x lies between its element's bounds, 0 to 1; 0 where they are equal. */
KV_DEVICE float kv_lag_relative(float x, float lo, float hi) {
  float range = kv_sub(hi, lo);
  return range > 0 ? kv_div(kv_sub(x, lo), range) : 0.0f;
}

/* The standard deviation of these numbers over the elements of a row. */
KV_DEVICE float kv_lag_deviation(const kv_gpu_row &row, int width,
                                 const float *lo, const float *hi) {
  float mean = 0, acc = 0;
  for (int x = 0; x < width; x++)
    mean = kv_add(mean, kv_lag_relative(kv_gpu_element(row, x), lo[x], hi[x]));
  mean = kv_div(mean, (float)width);
  for (int x = 0; x < width; x++) {
    float u = kv_lag_relative(kv_gpu_element(row, x), lo[x], hi[x]);
    float t = kv_sub(u, mean);
    acc = kv_fma(t, t, acc);
  }
  return kv_sqrt(kv_div(acc, (float)(width > 1 ? width - 1 : 1)));
}

/* p [lag]: the deviations of entries first.., by the bounds of the `lag`
 * entries behind them, as probabilities; lo, hi [width]: scratch. */
template <kv_gpu_row_of row>
KV_DEVICE void kv_lag_shares(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                             int width, int first, int lag, float *lo,
                             float *hi, float *p) {
  kv_lag_bounds<row>(l, lane, width, first + lag, lag, lo, hi);
  for (int i = kv_thread(); i < lag; i += KV_BLOCK)
    p[i] = kv_score_finite(
        kv_lag_deviation(row(l, lane, first + i), width, lo, hi));
  kv_gpu_probabilities(lag, p);
}

/* How many of the partition's scores are behind score[i]. */
KV_DEVICE float kv_lag_rank(const float *score, int lag, int i) {
  int behind = 0;
  for (int j = 0; j < lag; j++) {
    uint32_t a = kv_key(score[j]), b = kv_key(score[i]);
    behind += a < b || (a == b && j > i);
  }
  return (float)behind;
}

/* The mean of both sides' probabilities (cross=yes), or its rank in the
 * partition; n is a multiple of o->lag. */
KV_DEVICE void kv_gpu_score_lagkv(kv_gpu_at &at, const kv_gpu_lane *lane,
                                  const kv_score_options *o, int first, int n,
                                  float *out) {
  const kv_gpu_layer &l = *at.layer;
  int d = l.shape.d, d_v = l.shape.d_v, lag = o->lag, wide = d > d_v ? d : d_v;
  float *lo = KV_GPU_TAKE(at, float, wide), *hi = KV_GPU_TAKE(at, float, wide);
  float *p = KV_GPU_TAKE(at, float, lag), *sum = KV_GPU_TAKE(at, float, lag);
  for (int a = 0; a < n; a += lag) {
    kv_lag_shares<kv_gpu_key_row>(l, lane, d, first + a, lag, lo, hi, sum);
    kv_lag_shares<kv_gpu_value_row>(l, lane, d_v, first + a, lag, lo, hi, p);
    for (int i = kv_thread(); i < lag; i += KV_BLOCK)
      sum[i] = kv_mul(kv_add(sum[i], p[i]), 0.5f);
    __syncthreads();
    for (int i = kv_thread(); i < lag; i += KV_BLOCK)
      out[a + i] = o->cross == KV_CROSS_YES ? sum[i] : kv_lag_rank(sum, lag, i);
    __syncthreads();
  }
}

#endif

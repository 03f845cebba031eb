/* SPDX-License-Identifier: Apache-2.0
 *
 * The scorers knorm and keydiff, by keys alone: the twins of those in
 * ref/methods/knorm.c and keydiff.c, called through gpu/parts/scorers.cuh,
 * which says how a scorer is called. A thread has an entry's chain to itself,
 * and in the average key a channel of some entries, whose sums are integers.
 */
#ifndef KV_GPU_SCORE_KEYS_CUH
#define KV_GPU_SCORE_KEYS_CUH

#include "gpu/parts/parts_keys.cuh"

extern "C" {
#include "ref/parts/scorers.h"
}

/* Of a scorer that looks at no row. */
#define KV_GPU_BLIND(x)                                                        \
  KV_DEVICE void kv_gpu_observe_##x(kv_gpu_at &, kv_gpu_lane *,                \
                                    const kv_gpu_rows &,                       \
                                    const kv_score_options *) {}

KV_GPU_BLIND(knorm)
KV_GPU_BLIND(keydiff)
KV_GPU_BLIND(lagkv)

/* Less the squared length of the key. */
KV_DEVICE void kv_gpu_score_knorm(kv_gpu_at &at, const kv_gpu_lane *lane,
                                  const kv_score_options *, int first, int n,
                                  float *out) {
  const kv_gpu_layer &l = *at.layer;
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    out[i] = -kv_gpu_square(kv_gpu_key_row(l, lane, first + i), l.shape.d);
  __syncthreads();
}

/* part[p][x] = the sum over entries p, p + parts, .. of element x of their keys
 * divided by their lengths norm [lane->n], in fixed point. */
KV_DEVICE void kv_average_parts(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                                int parts, const float *norm, int64_t *part) {
  int d = l.shape.d;
  for (int c = kv_thread(); c < parts * d; c += KV_BLOCK) {
    int64_t sum = 0;
    for (int i = c / d; i < lane->n; i += parts)
      sum += kv_fix(
          kv_div(kv_gpu_key(l, lane, i, c % d), kv_max(norm[i], 1e-12f)));
    part[c] = sum;
  }
  __syncthreads();
}

/* norm [lane->n]: the keys' lengths; anchor [d]: the mean of the keys divided
 * by them. */
KV_DEVICE void kv_average_key(kv_gpu_at &at, const kv_gpu_lane *lane,
                              float *norm, float *anchor) {
  const kv_gpu_layer &l = *at.layer;
  int d = l.shape.d, parts = d < KV_BLOCK ? KV_BLOCK / d : 1;
  int64_t *part = KV_GPU_TAKE(at, int64_t, parts * d);
  for (int i = kv_thread(); i < lane->n; i += KV_BLOCK)
    norm[i] = kv_sqrt(kv_gpu_square(kv_gpu_key_row(l, lane, i), d));
  __syncthreads();
  kv_average_parts(l, lane, parts, norm, part);
  for (int x = kv_thread(); x < d; x += KV_BLOCK) {
    int64_t sum = 0;
    for (int p = 0; p < parts; p++) sum += part[p * d + x];
    anchor[x] = kv_div(kv_unfix(sum), (float)lane->n);
  }
  __syncthreads();
}

/* Less the cosine of the key with the mean direction of all keys of the lane.
 */
KV_DEVICE void kv_gpu_score_keydiff(kv_gpu_at &at, const kv_gpu_lane *lane,
                                    const kv_score_options *, int first, int n,
                                    float *out) {
  const kv_gpu_layer &l = *at.layer;
  int d = l.shape.d;
  float *norm = KV_GPU_TAKE(at, float, lane->n);
  float *anchor = KV_GPU_TAKE(at, float, d);
  kv_average_key(at, lane, norm, anchor);
  float length = kv_sqrt(kv_gpu_dot(anchor, anchor, d));
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    float both = kv_max(kv_mul(norm[first + i], length), 1e-8f);
    float dot = kv_gpu_row_dot(kv_gpu_key_row(l, lane, first + i), anchor, d);
    out[i] = kv_sub(0.0f, kv_div(dot, both));
  }
  __syncthreads();
}

#endif

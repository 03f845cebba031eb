/* SPDX-License-Identifier: Apache-2.0
 *
 * What scorers compute of rows by one thread: the chains of arithmetic 5. No
 * function has a barrier.
 */
#ifndef KV_GPU_SCORE_ROWS_CUH
#define KV_GPU_SCORE_ROWS_CUH

#include "gpu/lane/entry.cuh"
#include "gpu/lane/verbs.cuh"
#include "gpu/parts/parts_score.cuh"

#ifdef __cplusplus
extern "C" {
#endif
#include "ref/parts/scorers.h"
#ifdef __cplusplus
}
#endif

/* |row|^2. */
KV_DEVICE float kv_gpu_square(const kv_gpu_row &row, int d) {
  float acc = 0;
  for (int x = 0; x < d; x++) {
    float k = kv_gpu_element(row, x);
    acc = kv_fma(k, k, acc);
  }
  return acc;
}

KV_DEVICE float kv_gpu_row_dot(const kv_gpu_row &row, const float *b, int d) {
  float acc = 0;
  for (int x = 0; x < d; x++) acc = kv_fma(kv_gpu_element(row, x), b[x], acc);
  return acc;
}

KV_DEVICE float kv_gpu_dot(const float *a, const float *b, int d) {
  float acc = 0;
  for (int x = 0; x < d; x++) acc = kv_fma(a[x], b[x], acc);
  return acc;
}

/* s[0..n) become their probabilities (arithmetic 4); by all threads. */
KV_DEVICE void kv_gpu_shares(float *s, int n) {
  __syncthreads();
  float top = kv_gpu_largest(s, n);
  int64_t mass = 0;
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    s[i] = kv_expm(kv_sub(s[i], top));
    mass += kv_fix(s[i]);
  }
  float share = kv_div(1.0f, kv_unfix(kv_block_sum(mass)));
  for (int i = kv_thread(); i < n; i += KV_BLOCK) s[i] = kv_mul(s[i], share);
  __syncthreads();
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Dot products of rows, and logits and probabilities that a method makes
 * itself, as in ref/parts/parts.h. Each chain is computed by one thread.
 */
#ifndef KV_GPU_PARTS_KEYS_CUH
#define KV_GPU_PARTS_KEYS_CUH

#include "gpu/lane/entry.cuh"
#include "gpu/parts/parts.cuh"
#include "ref/ground/softcap.h"

/* Chains of fma over d elements, x ascending, by any one thread: of two rows of
 * floats; of a stored row and b [d]; of a stored row with itself. */
KV_DEVICE float kv_gpu_dot(const float *a, const float *b, int d) {
  float acc = 0;
  for (int x = 0; x < d; x++) acc = kv_fma(a[x], b[x], acc);
  return acc;
}
KV_DEVICE float kv_gpu_row_dot(const kv_gpu_row &row, const float *b, int d) {
  float acc = 0;
  for (int x = 0; x < d; x++) acc = kv_fma(kv_gpu_element(row, x), b[x], acc);
  return acc;
}
KV_DEVICE float kv_gpu_square(const kv_gpu_row &row, int d) {
  float acc = 0;
  for (int x = 0; x < d; x++) {
    float k = kv_gpu_element(row, x);
    acc = kv_fma(k, k, acc);
  }
  return acc;
}

/* The logit q . key * scale under the cap (0: none), without bias; q [d]. By
 * any one thread. */
KV_DEVICE float kv_gpu_key_logit(const kv_gpu_row &key, int d, const float *q,
                                 float scale, float cap) {
  return kv_logit(kv_gpu_row_dot(key, q, d), scale, cap);
}

/* s[i] = that logit of q [d] and entry first + i, i < n. By all threads of the
 * block together; ends with a barrier. */
KV_DEVICE void kv_gpu_key_logits(const kv_gpu_at &at, const kv_gpu_lane *lane,
                                 const float *q, int first, int n, float scale,
                                 float cap, float *s) {
  const kv_gpu_layer &l = *at.layer;
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    s[i] = kv_gpu_key_logit(kv_gpu_key_row(l, lane, first + i), l.shape.d, q,
                            scale, cap);
  __syncthreads();
}

/* s[0..n), n >= 1 logits, become their probabilities among themselves. By all
 * threads of the block together. Only thread t reads s[t], s[t + KV_BLOCK], ..,
 * so a caller that wrote them by the same threads needs no barrier before; ends
 * with a barrier. */
KV_DEVICE void kv_gpu_probabilities(int n, float *s) {
  float most = kv_gpu_largest(s, n);
  int64_t mass = 0;
  __syncthreads();
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    s[i] = kv_expm(kv_sub(s[i], most));
    mass += kv_fix(s[i]);
  }
  float each = kv_div(1.0f, kv_unfix(kv_block_sum(mass)));
  for (int i = kv_thread(); i < n; i += KV_BLOCK) s[i] = kv_mul(s[i], each);
  __syncthreads();
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Logits that a method makes itself, as in ref/parts/parts.h. A thread has an
 * entry's chain to itself.
 */
#ifndef KV_GPU_PARTS_KEYS_CUH
#define KV_GPU_PARTS_KEYS_CUH

#include "gpu/lane/entry.cuh"
#include "gpu/parts/parts.cuh"

/* q . key, times `scale` (arithmetic 1), without bias. */
KV_DEVICE float kv_gpu_key_logit(const kv_gpu_row &key, int d, const float *q,
                                 float scale) {
  float acc = 0;
  for (int x = 0; x < d; x++) acc = kv_fma(q[x], kv_gpu_element(key, x), acc);
  return kv_add(kv_mul(acc, scale), 0.0f);
}

/* Logits of entries first..first+n-1 into s[0..n). */
KV_DEVICE void kv_gpu_key_logits(const kv_gpu_at &at, const kv_gpu_lane *lane,
                                 const float *q, int first, int n, float scale,
                                 float *s) {
  const kv_gpu_layer &l = *at.layer;
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    s[i] = kv_gpu_key_logit(kv_gpu_key_row(l, lane, first + i), l.shape.d, q,
                            scale);
  __syncthreads();
}

/* n >= 1 logits become their probabilities among themselves. */
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * KNorm: twin of ref/methods/knorm.c. The budget entries with the shortest
 * keys stay. A thread has an entry's chain to itself.
 * Cost: O(n d) a lane and settling.
 */
#include "gpu/lane/entry.cuh"
#include "gpu/lane/verbs.cuh"
#include "gpu/parts/parts.cuh"
#include "ref/methods/knorm.h"

static __device__ float square(const kv_gpu_row &key, int d) {
  float acc = 0;
  for (int x = 0; x < d; x++) {
    float k = kv_gpu_element(key, x);
    acc = kv_fma(k, k, acc);
  }
  return acc;
}

static __device__ void settle_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  const kv_gpu_layer &l = *at.layer;
  int n = lane->n;
  if (l.layer < o->skip || n <= o->budget) return;
  float *score = KV_GPU_TAKE(at, float, n);
  uint8_t *keep = KV_GPU_TAKE(at, uint8_t, n);
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    score[i] = -square(kv_gpu_key_row(l, lane, i), l.shape.d);
  __syncthreads();
  kv_gpu_top(at, score, n, o->budget, keep);
  kv_gpu_keep_mask(at, lane, keep);
}

KV_GPU_METHOD(knorm, .settle_lane = kv_on_settle_lane<settle_lane>);

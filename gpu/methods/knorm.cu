/* SPDX-License-Identifier: Apache-2.0
 *
 * KNorm: twin of ref/methods/knorm.c. The budget entries with the shortest
 * keys stay. A thread has an entry's chain to itself.
 * Cost: O(n d) a lane and compression.
 */
#include "gpu/parts/score_keys.cuh"
#include "ref/methods/knorm.h"

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  int n = lane->n;
  if (at.layer->layer < o->skip || n <= o->budget) return;
  float *score = KV_GPU_TAKE(at, float, n);
  uint8_t *keep = KV_GPU_TAKE(at, uint8_t, n);
  kv_gpu_score_knorm(at, lane, nullptr, 0, n, score);
  kv_gpu_top(at, score, n, o->budget, keep);
  kv_gpu_keep_mask(at, lane, keep);
}

KV_GPU_METHOD(knorm, .compress_lane = kv_on_compress_lane<compress_lane>);

/* SPDX-License-Identifier: Apache-2.0
 *
 * Random: twin of ref/methods/random.c. The last `recent` entries stay and,
 * of those before, the budget - recent with the largest hash.
 * Cost: O(n) a lane and step.
 */
#include "gpu/lane/verbs.cuh"
#include "gpu/parts/parts.cuh"
#include "ref/ground/formula.h"
#include "ref/methods/random.h"

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  int n = lane->n, past = n - o->recent;
  if (n <= o->budget) return;
  uint64_t *hash = KV_GPU_TAKE(at, uint64_t, past);
  uint8_t *keep = KV_GPU_TAKE(at, uint8_t, n);
  uint64_t seed = kv_mix((uint64_t)o->seed + (uint64_t)at.layer->layer);
  seed = kv_mix(seed + (uint64_t)lane->lane);
  for (int i = kv_thread(); i < past; i += KV_BLOCK)
    hash[i] = kv_mix(seed + lane->id[i]);
  for (int i = past + kv_thread(); i < n; i += KV_BLOCK) keep[i] = 1;
  __syncthreads();
  kv_gpu_top_hash(at, hash, past, o->budget - o->recent, keep);
  kv_gpu_keep_mask(at, lane, keep);
}

KV_GPU_METHOD(random, .compress_lane = kv_on_compress_lane<compress_lane>);

/* SPDX-License-Identifier: Apache-2.0
 *
 * Oracle eviction: twin of ref/methods/oracle_evict.c. The `budget` entries
 * stay that later decode rows weigh most; the host provides each token's sum
 * over these rows (gpu/shared/lane.h). Cost: O(n) a lane and step.
 */
#include "gpu/parts/parts.cuh"
#include "ref/methods/oracle_evict.h"

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  int n = lane->n;
  if (n <= o->budget) return;
  float *score = KV_GPU_TAKE(at, float, n);
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    score[i] = kv_unfix(lane->future[lane->id[i]]);
  __syncthreads();
  kv_gpu_keep_top_recent(at, lane, score, n, o->budget);
}

KV_GPU_METHOD(oracle_evict,
              .compress_lane = kv_on_compress_lane<compress_lane>);

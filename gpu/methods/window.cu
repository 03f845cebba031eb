/* SPDX-License-Identifier: Apache-2.0
 *
 * Sliding window: twin of ref/methods/window.c. The last `budget` entries
 * stay. Cost: O(n) a lane and step.
 */
#include "gpu/parts/parts.cuh"
#include "ref/methods/window.h"

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  kv_gpu_keep_ends(at, lane, 0, o->budget);
}

KV_GPU_METHOD(window, .compress_lane = kv_on_compress_lane<compress_lane>);

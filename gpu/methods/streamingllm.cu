/* SPDX-License-Identifier: Apache-2.0
 *
 * StreamingLLM: twin of ref/methods/streamingllm.c. The first `sink` and the
 * last `recent` entries stay; with needs.reindex they are attended at their
 * places in the lane. Cost: O(n) a lane and step.
 */
#include "gpu/parts/parts.cuh"
#include "ref/methods/streamingllm.h"

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  kv_gpu_keep_ends(at, lane, o->sink, o->recent);
}

KV_GPU_METHOD(streamingllm,
              .compress_lane = kv_on_compress_lane<compress_lane>);

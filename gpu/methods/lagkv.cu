/* SPDX-License-Identifier: Apache-2.0
 *
 * LagKV on a device: the twin of ref/methods/lagkv.c.
 */
#include "gpu/parts/scorers.cuh"
#include "ref/methods/lagkv.h"

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  kv_gpu_score_compress<KV_SCORE_lagkv>(at, lane, o->budget, KV_NO_THRESHOLD,
                                        &o->s);
}

KV_GPU_METHOD(lagkv, .compress_lane = kv_on_compress_lane<compress_lane>);

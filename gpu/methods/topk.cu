/* SPDX-License-Identifier: Apache-2.0
 *
 * Top-k on a device: the twin of ref/methods/topk.c.
 *
 * Allowed local: kv_run_compress<compress_lane>,
 *   a hook's kv_gpu_at
 */
#include "gpu/parts/scorers.cuh"
#include "ref/methods/topk.h"

static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *lane,
                               const kv_gpu_rows &rows) {
  const params *o = (const params *)at.params;
  kv_gpu_score_observe(at, lane, rows, &o->s);
}

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  kv_gpu_score_compress(at, lane, o->budget, o->threshold, &o->s);
}

KV_GPU_METHOD(topk, .observe = kv_on_observe_entries<observe>,
              .compress_lane = kv_on_compress_lane<compress_lane>);

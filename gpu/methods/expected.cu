/* SPDX-License-Identifier: Apache-2.0
 *
 * Expected Attention on a device: the twin of ref/methods/expected.c.
 */
#include "gpu/parts/scorers.cuh"
#include "ref/methods/expected.h"

static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *lane,
                               const kv_gpu_rows &rows) {
  const params *o = (const params *)at.params;
  kv_gpu_score_observe(at, lane, rows, &o->s);
}

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  kv_gpu_score_compress<KV_SCORE_expected>(at, lane, o->budget, KV_NO_THRESHOLD,
                                           &o->s);
}

KV_GPU_METHOD(expected, .observe = kv_on_observe_entries<observe>,
              .compress_lane = kv_on_compress_lane<compress_lane>);

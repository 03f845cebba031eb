/* SPDX-License-Identifier: Apache-2.0
 *
 * The twins of all methods that are a scorer (KV_SCORER_METHOD of
 * ref/parts/scorers.h): each has kernels with its own scorer alone.
 */
#include "gpu/parts/scorers.cuh"

static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *lane,
                               const kv_gpu_rows &rows) {
  const kv_scored *o = (const kv_scored *)at.params;
  kv_gpu_score_observe(at, lane, rows, &o->s);
}

template <int SCORE>
static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const kv_scored *o = (const kv_scored *)at.params;
  if (at.layer->layer >= o->skip)
    kv_gpu_score_compress<SCORE>(at, lane, o->budget, KV_NO_THRESHOLD, &o->s);
}

#define KV_GPU_SCORED(x)                                                       \
  KV_GPU_HOOKS(                                                                \
      x, sizeof(kv_scored), .observe = kv_on_observe_entries<observe>,         \
      .compress_lane = kv_on_compress_lane<compress_lane<KV_SCORE_##x>>);
KV_SCORED(KV_GPU_SCORED)

/* SPDX-License-Identifier: Apache-2.0
 *
 * The twin of the method of tests/made/rest.h.
 */
#include "gpu/lane/entry.cuh"
#include "gpu/lane/method.cuh"
#include "gpu/parts/parts.cuh"
#include "tests/made/rest.h"

static __device__ bool chunk(kv_gpu_at &at, const kv_gpu_lane *lane,
                             const kv_gpu_query &q, float *m, float *sum,
                             float *a) {
  const rest_state *s = (const rest_state *)kv_gpu_own(at, lane);
  (void)q;
  if (s->n == 0) return false;
  *m = 0;
  *sum = s->n;
  for (int x = kv_thread(); x < at.layer->shape.d_v; x += KV_BLOCK)
    a[x] = s->sum[x];
  return true;
}

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  rest_state *s = (rest_state *)kv_gpu_own(at, lane);
  int goes = lane->n - REST_STAYS;
  if (goes <= 0) return;
  for (int x = kv_thread(); x < at.layer->shape.d_v; x += KV_BLOCK)
    for (int i = 0; i < goes; i++)
      s->sum[x] = kv_add(s->sum[x], kv_gpu_value(*at.layer, lane, i, x));
  __syncthreads();
  if (kv_thread() == 0) s->n = s->n + (float)goes;
  __syncthreads();
  kv_gpu_keep_ends(at, lane, 0, REST_STAYS);
}

KV_GPU_HOOKS(rest, 0, .chunk = (kv_on_chunk<chunk, kv_gpu_no_room>),
             .compress_lane = kv_on_compress_lane<compress_lane>);

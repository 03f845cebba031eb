/* SPDX-License-Identifier: Apache-2.0
 *
 * The twin of the method of tests/made/counts.h.
 */
#include "gpu/lane/method.cuh"
#include "gpu/lane/verbs.cuh"
#include "tests/made/counts.h"

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const kv_tensor *t = at.asset;
  const int32_t *keep = (const int32_t *)t[COUNTS_KEEP].data;
  const float *share = (const float *)t[COUNTS_SHARE].data;
  int place = at.layer->layer * at.layer->shape.n_kv_heads + lane->kv_head;
  int n = keep[lane->kv_head] + (share[place] >= 0.5f);
  if (t[COUNTS_MORE].data) n += (int)t[COUNTS_MORE].count;
  if (n >= lane->n) return;
  uint8_t *stays = KV_GPU_TAKE(at, uint8_t, lane->n);
  for (int i = kv_thread(); i < lane->n; i += KV_BLOCK)
    stays[i] = i >= lane->n - n;
  __syncthreads();
  kv_gpu_keep_mask(at, lane, stays);
}

KV_GPU_HOOKS(counts, sizeof(counts_params),
             .compress_lane = kv_on_compress_lane<compress_lane>);

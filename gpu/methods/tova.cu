/* SPDX-License-Identifier: Apache-2.0
 *
 * TOVA on a device: the twin of ref/methods/tova.c.
 */
#include "gpu/parts/parts.cuh"
#include "ref/methods/tova.h"

/* One row: the sums are its probabilities. */
static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *lane,
                               const kv_gpu_rows &rows) {
  int64_t *sum = (int64_t *)kv_gpu_own(at, lane);
  for (int i = kv_gpu_first_entry(); i < rows.entries; i += kv_gpu_next_entry())
    sum[i] = 0;
  kv_gpu_add_heads(rows, 0, rows.heads, sum); /* the same thread's entries */
  __syncthreads();
}

static __device__ void compress_layer(kv_gpu_at &at, kv_gpu_lane *lane,
                                      int lanes) {
  const params *o = (const params *)at.params;
  int n = lane[0].n, newest = o->protect_newest == YES;
  if (n <= o->budget) return;
  float *score = KV_GPU_TAKE(at, float, n);
  uint8_t *keep = KV_GPU_TAKE(at, uint8_t, n);
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    int64_t sum = 0;
    for (int l = 0; l < lanes; l++)
      sum += ((const int64_t *)kv_gpu_own(at, &lane[l]))[i];
    score[i] = kv_unfix(sum);
  }
  __syncthreads();
  kv_gpu_top(at, score, n - newest, o->budget - newest, keep);
  if (newest && kv_thread() == 0) keep[n - 1] = true;
  __syncthreads();
  for (int l = 0; l < lanes; l++) kv_gpu_keep_mask(at, &lane[l], keep);
}

KV_GPU_METHOD(tova, .observe = kv_on_observe_entries<observe>,
              .compress_layer = kv_on_compress_layer<compress_layer>);

/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer's sliding window, as in ref/backend/backend.c and observation.c:
 * hides entries from the prompt's rows (one block for each row and head), and
 * removes entries that have left the window from a lane (one block a lane). Ids
 * of a lane ascend. Cost: O(entries / KV_BLOCK).
 */
#include "gpu/lane/method.cuh"
#include "gpu/shared/device.h"

#include <cfloat>

/* How many of the lane's first n entries stand for tokens before `from`. */
static __device__ int count_before(const kv_gpu_lane *lane, int n, int from) {
  int m = 0;
  for (int i = kv_thread(); i < n; i += KV_BLOCK) m += (int)lane->id[i] < from;
  return kv_block_sum(m);
}

static __global__ void hide(kv_gpu_layer l, int window) {
  int r = (int)blockIdx.x, h = (int)blockIdx.y;
  const kv_gpu_lane *lane = &l.lane[h / (l.shape.n_heads / l.lanes)];
  size_t row = (size_t)r * (size_t)l.shape.n_heads + (size_t)h;
  float *s = l.s + row * (size_t)l.stride;
  int hidden = count_before(lane, kv_gpu_visible(l, lane, r),
                            l.clock->row + r - window + 1);
  for (int i = kv_thread(); i < hidden; i += KV_BLOCK) s[i] = -FLT_MAX;
}

/* row[i] = row[list[i]] for i < m, 0 from there to n; list ascends, so that
 * what a tile of a block reads none before it has written. */
static __device__ void move_row(int64_t *row, int n, int m,
                                const int32_t *list) {
  for (int at = 0; at < n; at += KV_BLOCK) {
    int i = at + kv_thread();
    int64_t own = i < m ? row[list[i]] : 0;
    __syncthreads();
    if (i < n) row[i] = own;
    __syncthreads();
  }
}

static __global__ void slide(const __grid_constant__ kv_gpu_layer l, int window,
                             int drops) {
  kv_gpu_lane *lane = &l.lane[blockIdx.x];
  kv_gpu_at at = kv_at_lane(l, lane);
  int n = lane->n, from = lane->step - window + 1;
  int64_t *own = (int64_t *)kv_gpu_own(at, lane);
  uint8_t *keep = KV_GPU_TAKE(at, uint8_t, n);
  if (from <= 0) return;
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    keep[i] = (int)lane->id[i] >= from;
  __syncthreads();
  int m = kv_gpu_indexes(0, n, keep, true, lane->list);
  for (int r = 0; r < l.needs.slid && m < n; r++)
    move_row(own + (size_t)r * (size_t)l.shape.n_tokens, n, m, lane->list);
  if (drops) kv_gpu_keep_mask(at, lane, keep);
}

extern "C" void kv_gpu_start_hide(void *stream, const kv_gpu_layer *l, int rows,
                                  int window) {
  KV_LAUNCH(stream, hide, dim3((unsigned)rows, (unsigned)l->shape.n_heads),
            KV_BLOCK, *l, window);
}

extern "C" void kv_gpu_start_slide(void *stream, const kv_gpu_layer *l,
                                   int window, int drops) {
  KV_LAUNCH(stream, slide, (unsigned)l->lanes, KV_BLOCK, *l, window, drops);
}

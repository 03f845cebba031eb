/* SPDX-License-Identifier: Apache-2.0
 *
 * Replay on a device: the twin of ref/methods/replay.c. The lists of the layer
 * lie in device memory (kv_gpu_layer). Cost: O(tokens) a list.
 */
#include "gpu/method.cuh"
#include "gpu/verbs.cuh"
#include "ref/methods/replay.h"

typedef struct items {
  const int32_t *item; /* NULL: the step is absent */
  int n;
} items;

/* As kv_lists_find; all threads read the same words. */
static __device__ items find(const kv_lists &l, int step, int head) {
  int low = 0, high = l.steps;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (l.step[middle] < step)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == l.steps || l.step[low] != step) return items{nullptr, 0};
  const int64_t *start = l.start + (size_t)low * (size_t)l.heads + head;
  return items{l.item + start[0], (int)(start[1] - start[0])};
}

/* entry[t]: where token t is in the lane, -1 where it is not. */
static __device__ int32_t *entries(kv_gpu_at &at, const kv_gpu_lane *lane) {
  int32_t *entry = KV_GPU_TAKE(at, int32_t, at.step);
  for (int t = kv_thread(); t < at.step; t += KV_BLOCK) entry[t] = -1;
  __syncthreads();
  for (int i = kv_thread(); i < lane->n; i += KV_BLOCK) entry[lane->id[i]] = i;
  __syncthreads();
  return entry;
}

/* The j-th token that the items name, live or not; -1: not seen yet. A page
 * is never larger than what was seen. */
static __device__ int token(const items &list, int page, int step, int j) {
  int width = page < step ? page : step;
  int64_t t = (int64_t)list.item[j / width] * page + j % width;
  return t < step ? (int)t : -1;
}

static __device__ int tokens(const items &list, int page, int step) {
  return list.n * (page < step ? page : step);
}

static __device__ void view(kv_gpu_at &at, const kv_gpu_lane *lane,
                            const kv_gpu_query &query, uint8_t *mask) {
  const kv_lists &l = at.layer->view;
  bool own = l.heads == at.layer->shape.n_heads;
  int head = own ? lane->first_head + query.head : lane->kv_head;
  items list = find(l, at.step, head);
  for (int i = kv_thread(); i < lane->n; i += KV_BLOCK) mask[i] = !list.item;
  if (!list.item) return;
  const int32_t *entry = entries(at, lane);
  int n = tokens(list, l.page, at.step);
  for (int j = kv_thread(); j < n; j += KV_BLOCK) {
    int t = token(list, l.page, at.step, j);
    if (t >= 0 && entry[t] >= 0) mask[entry[t]] = 1;
  }
}

static __device__ void settle_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const kv_lists &l = at.layer->stored;
  items list = find(l, at.step, lane->lane);
  if (!list.item) return;
  const int32_t *entry = entries(at, lane);
  int n = tokens(list, l.page, at.step);
  int32_t *named = KV_GPU_TAKE(at, int32_t, n);
  int32_t *place = KV_GPU_TAKE(at, int32_t, n);
  uint8_t *lives = KV_GPU_TAKE(at, uint8_t, n);
  for (int j = kv_thread(); j < n; j += KV_BLOCK) {
    int t = token(list, l.page, at.step, j);
    named[j] = t < 0 ? -1 : entry[t];
    lives[j] = named[j] >= 0;
  }
  __syncthreads();
  int kept = kv_gpu_indexes(0, n, lives, true, place);
  for (int i = kv_thread(); i < kept; i += KV_BLOCK)
    place[i] = named[place[i]];
  __syncthreads();
  kv_gpu_keep(at, lane, kept, place);
}

KV_GPU_METHOD(replay, nullptr, (kv_on_view<view>), nullptr,
              (kv_on_lane<settle_lane>), nullptr);

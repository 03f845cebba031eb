/* SPDX-License-Identifier: Apache-2.0
 *
 * Replay on a device: the twin of ref/methods/replay.c. The lists of the layer
 * are tensors in device memory (at.asset). Cost: O(tokens) a list.
 */
#include "gpu/lane/method.cuh"
#include "gpu/lane/verbs.cuh"
#include "ref/methods/replay.h"

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
static __device__ int token(const kv_items &list, int page, int step, int j) {
  int width = page < step ? page : step;
  int64_t t = (int64_t)list.item[j / width] * page + j % width;
  return t < step ? (int)t : -1;
}

static __device__ int tokens(const kv_items &list, int page, int step) {
  return list.n * (page < step ? page : step);
}

static __device__ void view(kv_gpu_at &at, const kv_gpu_lane *lane,
                            const kv_gpu_query &query, uint8_t *mask) {
  const params *o = (const params *)at.params;
  kv_lists l = kv_lists_view(&o->form, at.asset);
  bool own = l.heads == at.layer->shape.n_heads;
  int head = own ? lane->first_head + query.head : lane->kv_head;
  kv_items list = kv_lists_find(&l, at.step, head);
  for (int i = kv_thread(); i < lane->n; i += KV_BLOCK) mask[i] = !list.item;
  if (!list.item) return;
  const int32_t *entry = entries(at, lane);
  int n = tokens(list, l.page, at.step);
  for (int j = kv_thread(); j < n; j += KV_BLOCK) {
    int t = token(list, l.page, at.step, j);
    if (t >= 0 && entry[t] >= 0) mask[entry[t]] = 1;
  }
}

static __device__ size_t view_room(const kv_gpu_at &at, const kv_gpu_lane *) {
  return (size_t)at.step * sizeof(int32_t) + 64;
}

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  kv_lists l = kv_lists_stored(&o->form, at.asset);
  kv_items list = kv_lists_find(&l, at.step, lane->lane);
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
  for (int i = kv_thread(); i < kept; i += KV_BLOCK) place[i] = named[place[i]];
  __syncthreads();
  kv_gpu_keep(at, lane, kept, place);
}

KV_GPU_METHOD(replay, .view = kv_on_view_apart<view, view_room>,
              .compress_lane = kv_on_compress_lane<compress_lane>);

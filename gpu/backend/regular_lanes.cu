/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes whose rows lie in a store of regular indices (gpu/shared/regular.h,
 * gpu/host/indexed.h): masks that say what the lanes' entries say, or those of
 * all lanes together, and entries that name their places after the lanes were
 * rewritten. K and V of an entry have one place. A block a lane, but a thread a
 * word where masks are joined; each entry is looked at once.
 */
#include "gpu/block/block.cuh"
#include "gpu/lane/entry.cuh"
#include "gpu/shared/device.h"

static __device__ bool is_read(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                               int i) {
  return !lane->tier || !(l.needs.unread >> lane->tier[i] & 1);
}

/* Where a mask serves all lanes, no bit of it is set before theirs are. */
static __global__ void wipe(const __grid_constant__ kv_gpu_regular r) {
  int w = (int)blockIdx.x * KV_BLOCK + kv_thread();
  if (w < r.words) r.half[*r.which].mask[w] = 0;
}

/* Bits of the lane's entries are set, .. */
static __global__ void mark(const __grid_constant__ kv_gpu_layer l,
                            const __grid_constant__ kv_gpu_regular r,
                            bool all) {
  const kv_gpu_lane *lane = &l.lane[blockIdx.x];
  const kv_gpu_regular_half &h = r.half[*r.which];
  uint32_t *mask = h.mask + (size_t)blockIdx.x * (size_t)r.stride;
  for (int w = kv_thread(); r.stride && w < r.words; w += KV_BLOCK) mask[w] = 0;
  __syncthreads();
  for (int i = kv_thread(); i < lane->n; i += KV_BLOCK) {
    int at = lane->k[i].block;
    if (all || is_read(l, lane, i)) atomicOr(&mask[at / 32], 1u << at % 32);
  }
}

/* .. those of all lanes in each of them, .. */
static __global__ void join(const __grid_constant__ kv_gpu_layer l,
                            const __grid_constant__ kv_gpu_regular r) {
  int w = (int)blockIdx.x * KV_BLOCK + kv_thread();
  if (w >= r.words) return;
  uint32_t *mask = r.half[*r.which].mask + w, any = 0;
  for (int i = 0; i < l.lanes; i++) any |= mask[(size_t)i * (size_t)r.words];
  for (int i = 0; i < l.lanes; i++) mask[(size_t)i * (size_t)r.words] = any;
}

/* .. and where the j-th of them was gathered to place j, entries say so; the
 * mask that named what was gathered is the half's that was left. */
static __device__ void list_before(const uint32_t *mask, int words,
                                   int32_t *before) {
  int each = (words + KV_BLOCK - 1) / KV_BLOCK, first = kv_thread() * each;
  int end = first + each < words ? first + each : words;
  uint32_t own = 0, total;
  for (int w = first; w < end; w++) own += (uint32_t)__popc(mask[w]);
  int sum = (int)kv_block_before(own, &total);
  for (int w = first; w < end; w++) {
    before[w] = sum;
    sum += __popc(mask[w]);
  }
  __syncthreads();
}

/* The pool's pages are pieces of the half in use. */
static __device__ void turn_pages(const kv_gpu_regular &r, kv_gpu_raw *pool,
                                  char *side, int lane, int taken) {
  char *rows = side + (size_t)lane * (size_t)r.room * pool->size;
  for (int p = kv_thread(); p < r.room / KV_GPU_PAGE; p += KV_BLOCK)
    pool->page[p] = rows + (size_t)p * KV_GPU_PAGE * pool->size;
  if (kv_thread() == 0) pool->used = taken, pool->n_free = 0;
}

static __global__ void follow(const __grid_constant__ kv_gpu_layer l,
                              const __grid_constant__ kv_gpu_regular r) {
  kv_gpu_lane *lane = &l.lane[blockIdx.x];
  int which = *r.which, number = (int)blockIdx.x;
  const kv_gpu_regular_half &h = r.half[which], &left = r.half[1 - which];
  const uint32_t *mask = left.mask + (size_t)number * (size_t)r.words;
  int32_t *before = lane->list;
  list_before(mask, r.words, before);
  for (int i = kv_thread(); i < lane->n; i += KV_BLOCK) {
    int at = lane->k[i].block;
    uint32_t below = mask[at / 32] & ((1u << at % 32) - 1);
    lane->k[i].block = lane->v[i].block = before[at / 32] + __popc(below);
  }
  turn_pages(r, &lane->k_raw, h.k, number, h.taken[number]);
  turn_pages(r, &lane->v_raw, h.v, number, h.taken[number]);
}

extern "C" void kv_gpu_start_regular_lanes(void *stream, const kv_gpu_layer *l,
                                           const kv_gpu_regular *r, int act) {
  unsigned lanes = (unsigned)l->lanes;
  unsigned words = (unsigned)(r->words + KV_BLOCK - 1) / KV_BLOCK;
  if (act == KV_GPU_REGULAR_FOLLOW)
    KV_LAUNCH(stream, follow, lanes, KV_BLOCK, *l, *r);
  else if (act == KV_GPU_REGULAR_JOIN)
    KV_LAUNCH(stream, join, words, KV_BLOCK, *l, *r);
  else {
    if (!r->stride) KV_LAUNCH(stream, wipe, words, KV_BLOCK, *r);
    KV_LAUNCH(stream, mark, lanes, KV_BLOCK, *l, *r,
              act == KV_GPU_REGULAR_HELD);
  }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions over the threads of a block. Every function kv_block_* is called
 * by all KV_BLOCK threads together, each with its own x, and unless said
 * otherwise returns the same answer to all, has a barrier before it writes
 * shared memory and ends with one. Integers only: a float is never summed
 * across threads. Cost: two or three barriers.
 */
#ifndef KV_GPU_BLOCK_CUH
#define KV_GPU_BLOCK_CUH

#include "gpu/block/warp.h"
#include "ref/ground/arith.h"

#include <stdint.h>

/* The calling thread's number in its block. */
KV_DEVICE int kv_thread(void) { return (int)threadIdx.x; }

/* The number whose kv_key (ref/ground/arith.h) this is. */
KV_DEVICE float kv_of_key(uint32_t key) {
  return kv_float(key & 0x80000000u ? key ^ 0x80000000u : ~key);
}

/* x + y modulo 2^64, without the overflow that C leaves undefined. */
KV_DEVICE int64_t kv_sum_of(int64_t x, int64_t y) {
  return (int64_t)((uint64_t)x + (uint64_t)y);
}

/* The answers of all warps joined, from the first warp on, by join(a, b); mine:
 * the same for all threads of a warp. Sum, any and max are made of it. */
template <class T, class Join>
static __device__ T kv_block_joined(T mine, Join join) {
  KV_SHARED(T, part, KV_WARPS);
  __syncthreads();
  if (kv_thread() % KV_WARP == 0) part[kv_thread() / KV_WARP] = mine;
  __syncthreads();
  mine = part[0];
  for (int w = 1; w < KV_WARPS; w++) mine = join(mine, part[w]);
  __syncthreads();
  return mine;
}

/* The sum of every thread's x, modulo 2^64. */
KV_DEVICE int64_t kv_block_sum(int64_t x) {
  return kv_block_joined(kv_warp_sum(x), kv_sum_of);
}

/* The sum of counts, modulo 2^32. */
KV_DEVICE int kv_block_sum(int x) {
  auto add = [](uint32_t a, uint32_t b) { return a + b; };
  return (int)kv_block_joined(kv_warp_sum((uint32_t)x), add);
}

/* True if yes is true in any thread. */
KV_DEVICE bool kv_block_any(bool yes) {
  auto either = [](int a, int b) { return a | b; };
  return kv_block_joined((int)__any_sync(KV_WHOLE_WARP, yes), either) != 0;
}

/* The largest x; T is uint32_t or uint64_t. */
template <class T> KV_DEVICE T kv_block_max(T x) {
  return kv_block_joined(kv_warp_max(x),
                         [](T a, T b) { return a > b ? a : b; });
}

/* Returns to each thread the number of threads before it with yes; *total: the
 * number in all. */
KV_DEVICE int kv_block_rank(bool yes, int *total) {
  KV_SHARED(int, part, KV_WARPS);
  uint32_t said = __ballot_sync(KV_WHOLE_WARP, yes);
  int lane = kv_thread() % KV_WARP, warp = kv_thread() / KV_WARP, before = 0;
  __syncthreads();
  if (lane == 0) part[warp] = __popc(said);
  __syncthreads();
  *total = 0;
  for (int w = 0; w < KV_WARPS; w++) {
    if (w < warp) before += part[w];
    *total += part[w];
  }
  __syncthreads();
  return before + __popc(said & ((1u << lane) - 1u));
}

/* Returns to each thread the sum of the x of the threads before it; *total: of
 * all threads. T is an integer. Ends without a barrier; another kv_block_* may
 * follow, because it has one before it writes. */
template <class T> KV_DEVICE T kv_block_before(T x, T *total) {
  KV_SHARED(T, part, KV_WARPS);
  int lane = kv_thread() % KV_WARP, warp = kv_thread() / KV_WARP;
  T sum = x, before = 0;
  for (int d = 1; d < KV_WARP; d *= 2) {
    T other = __shfl_up_sync(KV_WHOLE_WARP, sum, (unsigned)d);
    if (lane >= d) sum += other;
  }
  __syncthreads();
  if (lane == KV_WARP - 1) part[warp] = sum;
  __syncthreads();
  *total = 0;
  for (int w = 0; w < KV_WARPS; w++) {
    if (w < warp) before += part[w];
    *total += part[w];
  }
  return before + sum - x;
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions over the threads of a block. Every function is called by all
 * KV_BLOCK threads with the same arguments (except a thread's own value),
 * returns the same answer to all, and begins and ends with a barrier. Integers
 * only: a float is never summed across threads.
 */
#ifndef KV_GPU_BLOCK_CUH
#define KV_GPU_BLOCK_CUH

#include "gpu/block/warp.h"
#include "ref/ground/arith.h"

#include <stdint.h>

KV_DEVICE int kv_thread(void) { return (int)threadIdx.x; }

/* The number that has this key (kv_key). */
KV_DEVICE float kv_of_key(uint32_t key) {
  return kv_float(key & 0x80000000u ? key ^ 0x80000000u : ~key);
}

/* x + y as a device adds: modulo 2^64. */
KV_DEVICE int64_t kv_sum_of(int64_t x, int64_t y) {
  return (int64_t)((uint64_t)x + (uint64_t)y);
}

/* `mine`, of a warp, joined with those of the others by `join`. */
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

/* Sum of every thread's x, modulo 2^64. */
KV_DEVICE int64_t kv_block_sum(int64_t x) {
  return kv_block_joined(kv_warp_sum(x), kv_sum_of);
}

/* The same of counts. */
KV_DEVICE int kv_block_sum(int x) {
  auto add = [](uint32_t a, uint32_t b) { return a + b; };
  return (int)kv_block_joined(kv_warp_sum((uint32_t)x), add);
}

/* Does any thread say yes? */
KV_DEVICE bool kv_block_any(bool yes) {
  auto either = [](int a, int b) { return a | b; };
  return kv_block_joined((int)__any_sync(KV_WHOLE_WARP, yes), either) != 0;
}

/* Largest of every thread's x. */
template <class T> KV_DEVICE T kv_block_max(T x) {
  return kv_block_joined(kv_warp_max(x),
                         [](T a, T b) { return a > b ? a : b; });
}

/* How many threads before this one say yes; *total: how many in all. */
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

/* Sum of the x of the threads before this one; *total: of all. Ends without a
 * barrier; the next one begins with it. */
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

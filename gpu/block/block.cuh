/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions over the threads of a block. Every function is called by all
 * KV_BLOCK threads with the same arguments (except a thread's own value),
 * returns the same answer to all, and begins and ends with a barrier. Integers
 * only: a float is never summed across threads.
 */
#ifndef KV_GPU_BLOCK_CUH
#define KV_GPU_BLOCK_CUH

#include "gpu/block/launch.h"
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

/* Sum of every thread's x, modulo 2^64. */
KV_DEVICE int64_t kv_block_sum(int64_t x) {
  KV_SHARED(int64_t, part, KV_WARPS);
  for (int d = KV_WARP / 2; d; d >>= 1)
    x = kv_sum_of(x, __shfl_xor_sync(0xffffffffu, x, d));
  __syncthreads();
  if (kv_thread() % KV_WARP == 0) part[kv_thread() / KV_WARP] = x;
  __syncthreads();
  x = 0;
  for (int w = 0; w < KV_WARPS; w++) x = kv_sum_of(x, part[w]);
  __syncthreads();
  return x;
}

/* Largest of every thread's x. */
KV_DEVICE uint64_t kv_block_max(uint64_t x) {
  KV_SHARED(uint64_t, part, KV_WARPS);
  for (int d = KV_WARP / 2; d; d >>= 1) {
    uint64_t y = __shfl_xor_sync(0xffffffffu, x, d);
    x = y > x ? y : x;
  }
  __syncthreads();
  if (kv_thread() % KV_WARP == 0) part[kv_thread() / KV_WARP] = x;
  __syncthreads();
  x = part[0];
  for (int w = 1; w < KV_WARPS; w++) x = part[w] > x ? part[w] : x;
  __syncthreads();
  return x;
}

/* How many threads before this one say yes; *total: how many in all. */
KV_DEVICE int kv_block_rank(bool yes, int *total) {
  KV_SHARED(int, part, KV_WARPS);
  uint32_t said = __ballot_sync(0xffffffffu, yes);
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
    T other = __shfl_up_sync(0xffffffffu, sum, (unsigned)d);
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

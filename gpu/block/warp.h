/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions over the 32 threads of a warp. Every function is called by all of
 * them together, each with its own x, returns the same answer to all, and has
 * no barrier of the block. Integers only: a float is never summed across
 * threads. From compute capability 8.0 on there is an instruction for 32 bits;
 * older devices exchange numbers in five steps.
 */
#ifndef KV_GPU_WARP_H
#define KV_GPU_WARP_H

#include "gpu/block/launch.h"

#include <stdint.h>

/* The mask that __shfl_*_sync and the like take for all threads of a warp. */
constexpr uint32_t KV_WHOLE_WARP = 0xffffffffu;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800

/* The largest x. */
KV_DEVICE uint32_t kv_warp_max(uint32_t x) {
  for (int d = KV_WARP / 2; d; d >>= 1) {
    uint32_t other = __shfl_xor_sync(KV_WHOLE_WARP, x, d);
    x = other > x ? other : x;
  }
  return x;
}

/* The sum modulo 2^32. */
KV_DEVICE uint32_t kv_warp_sum(uint32_t x) {
  for (int d = KV_WARP / 2; d; d >>= 1)
    x += __shfl_xor_sync(KV_WHOLE_WARP, x, d);
  return x;
}

#else

KV_DEVICE uint32_t kv_warp_max(uint32_t x) {
  return __reduce_max_sync(KV_WHOLE_WARP, x);
}

KV_DEVICE uint32_t kv_warp_sum(uint32_t x) {
  return __reduce_add_sync(KV_WHOLE_WARP, x);
}

#endif

/* The largest x, of 64 bits. */
KV_DEVICE uint64_t kv_warp_max(uint64_t x) {
  uint32_t high = kv_warp_max((uint32_t)(x >> 32));
  uint32_t low = (uint32_t)(x >> 32) == high ? (uint32_t)x : 0;
  return (uint64_t)high << 32 | kv_warp_max(low);
}

/* The sum of numbers from 0 to 2^52. It adds halves of 26 bits, of which 32 fit
 * into a word. */
KV_DEVICE int64_t kv_warp_mass(int64_t x) {
  uint32_t low = kv_warp_sum((uint32_t)x & 0x3ffffffu);
  uint32_t high = kv_warp_sum((uint32_t)(x >> 26));
  return ((int64_t)high << 26) + low;
}

/* The sum of any numbers, modulo 2^64. */
KV_DEVICE int64_t kv_warp_sum(int64_t x) {
  uint64_t u = (uint64_t)x, low = u & 0xfffffffffffff;
  uint64_t high = kv_warp_sum((uint32_t)(u >> 52));
  return (int64_t)((high << 52) + (uint64_t)kv_warp_mass((int64_t)low));
}

#endif

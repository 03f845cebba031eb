/* SPDX-License-Identifier: Apache-2.0
 *
 * Asynchronous copies of 16 bytes from global to shared memory, for kernels:
 * cp.async from compute capability 8.0 on, before that a load and a store. Each
 * function is called by any one thread, for itself, and has no barrier.
 *
 *   kv_async_16(to, from)   starts a copy to shared memory from global memory;
 *                           both addresses are multiples of 16
 *   kv_async_line(to, from) the same, and the 128 bytes that it is part of are
 *                           fetched into the L2: use it where the rest will be
 *                           copied soon
 *   kv_async_commit()       the copies that the thread started since its last
 *                           commit are a group from here on, perhaps an empty
 *                           one
 *   kv_async_wait<LEFT>()   returns when all groups of the thread but the LEFT
 *                           last ones have arrived
 *
 * What has arrived is visible to the thread that started the copy, and to the
 * others of the block after the next barrier. Until then the destination is
 * undefined and the source must not change, and a thread must not end. On the
 * executor the destination holds 0xAA until then, and a thread that ends too
 * early is a fault; in a build with the watch (gpu/emu/emu_races.h) an access
 * by another warp that breaks these rules is one, too.
 */
#ifndef KV_GPU_ASYNC_H
#define KV_GPU_ASYNC_H

#include "gpu/block/launch.h"

#include <stdint.h>

/* The unit of a copy. */
typedef struct alignas(16) kv_piece {
  uint32_t word[4];
} kv_piece;
/* The same as four floats; and half as much, which no copy has. */
typedef struct alignas(16) kv_quad {
  float x[4];
} kv_quad;
typedef struct alignas(8) kv_pair {
  float x[2];
} kv_pair;

#ifdef __CUDACC__
#  if defined __CUDA_ARCH__ && __CUDA_ARCH__ < 800

KV_DEVICE void kv_async_16(kv_piece *to, const void *from) {
  *to = *(const kv_piece *)from;
}
KV_DEVICE void kv_async_line(kv_piece *to, const void *from) {
  kv_async_16(to, from);
}
KV_DEVICE void kv_async_commit() {}
template <int LEFT> KV_DEVICE void kv_async_wait() {}

#  else

KV_DEVICE void kv_async_16(kv_piece *to, const void *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :
               : "r"((uint32_t)__cvta_generic_to_shared(to)),
                 "l"(__cvta_generic_to_global(from))
               : "memory");
}
KV_DEVICE void kv_async_line(kv_piece *to, const void *from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;"
               :
               : "r"((uint32_t)__cvta_generic_to_shared(to)),
                 "l"(__cvta_generic_to_global(from))
               : "memory");
}
KV_DEVICE void kv_async_commit() {
  asm volatile("cp.async.commit_group;" : : : "memory");
}
template <int LEFT> KV_DEVICE void kv_async_wait() {
  asm volatile("cp.async.wait_group %0;" : : "n"(LEFT) : "memory");
}

#  endif
#else

KV_DEVICE void kv_async_16(kv_piece *to, const void *from) {
  kv_emu_copy(to, from);
}
KV_DEVICE void kv_async_line(kv_piece *to, const void *from) {
  kv_emu_copy(to, from);
}
KV_DEVICE void kv_async_commit() { kv_emu_commit(); }
template <int LEFT> KV_DEVICE void kv_async_wait() { kv_emu_wait(LEFT); }

#endif

/* Copies n bytes, a multiple of 2, from global memory at `from` into the piece
 * at `to` in shared memory: the first 16 if n is more, and zeros after them if
 * n is less. Asynchronously as kv_async_16 if n >= 16 and `from` is aligned to
 * 16; else the thread has copied them when this returns. */
KV_DEVICE void kv_async_piece(kv_piece *to, const char *from, int n) {
  if (n >= 16 && (uintptr_t)from % 16 == 0) {
    kv_async_16(to, from);
    return;
  }
  kv_piece p = {{0, 0, 0, 0}};
  KV_UNROLL
  for (int i = 0; i < 8; i++)
    if (2 * i < n)
      p.word[i / 2] |= (uint32_t)((const uint16_t *)from)[i] << i % 2 * 16;
  *to = p;
}

#endif

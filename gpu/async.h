/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of 16 bytes from global to shared memory that the thread does not
 * wait for: cp.async from compute capability 8.0 on, before it a load and a
 * store.
 *
 *   kv_async_16(to, from)   starts one; both addresses are multiples of 16
 *   kv_async_commit()       what the thread started since the last commit is
 *                           a group from here on, be it empty
 *   kv_async_wait<LEFT>()   returns when all groups of the thread but the
 *                           LEFT last ones have arrived
 *
 * What arrived is seen by the thread that started it; by the others after the
 * next barrier. Until then the destination holds nothing, and the source must
 * not change: the executor fills the one with 0xAA and reads the other in the
 * wait. A thread does not end before its copies have arrived.
 */
#ifndef KV_GPU_ASYNC_H
#define KV_GPU_ASYNC_H

#include "gpu/launch.h"

#include <stdint.h>

/* What one copy moves; four floats, to be read at once. */
typedef struct alignas(16) kv_piece {
  uint32_t word[4];
} kv_piece;
typedef struct alignas(16) kv_quad {
  float x[4];
} kv_quad;

#ifdef __CUDACC__
#  if defined __CUDA_ARCH__ && __CUDA_ARCH__ < 800

KV_DEVICE void kv_async_16(kv_piece *to, const void *from) {
  *to = *(const kv_piece *)from;
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
KV_DEVICE void kv_async_commit() { kv_emu_commit(); }
template <int LEFT> KV_DEVICE void kv_async_wait() { kv_emu_wait(LEFT); }

#endif

/* The n bytes at `from`, words of 2, and zeros up to 16 where there are
 * fewer. What does not lie as a copy wants it goes through the thread. */
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

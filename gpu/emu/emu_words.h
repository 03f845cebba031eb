/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA's types and functions as the executor provides them to kernels, with
 * CUDA's names, arguments and values; include gpu/block/launch.h instead of
 * this. Names with kv_emu implement them and are only for gpu/emu. Omissions
 * are deliberate: atomics take only integers, of the types that CUDA overloads
 * (int64_t is not one), shuffles move 4 or 8 bytes over a whole warp, and no
 * kernel needs the rest of CUDA.
 */
#ifndef KV_GPU_EMU_WORDS_H
#define KV_GPU_EMU_WORDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef KV_WATCHED
#  include "gpu/emu/emu_libc.h"
#endif

#define __global__
#define __device__
#define __forceinline__ inline
#define __grid_constant__

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1)
      : x(a), y(b), z(c) {}
};

struct uint3 {
  unsigned x, y, z;
};

/* The indexes of the running thread; zero outside a kernel. */
struct kv_emu_here {
  uint3 thread, block, block_dim, grid_dim;
};
extern __thread kv_emu_here kv_emu_place;

#define threadIdx (static_cast<const uint3 &>(kv_emu_place.thread))
#define blockIdx (static_cast<const uint3 &>(kv_emu_place.block))
#define blockDim (static_cast<const uint3 &>(kv_emu_place.block_dim))
#define gridDim (static_cast<const uint3 &>(kv_emu_place.grid_dim))

/* What the threads of the running block have done so far: calls of kv_fma, and
 * of kv_gpu_element (gpu/lane/entry.cuh). A watched kernel counts nothing: its
 * threads would race for it. */
struct kv_emu_work {
  unsigned long fmas, elements;
};
extern __thread kv_emu_work kv_emu_done
    __attribute__((tls_model("initial-exec")));
#ifdef KV_WATCHED
#  define KV_EMU_DONE(what) ((void)0)
#else
#  define KV_EMU_DONE(what) ((void)kv_emu_done.what++)
#endif

/* A source line with a barrier, a collective or shared memory; its address
 * identifies it. */
struct kv_emu_site {
  const char *word, *file;
  int line;
};
#define KV_EMU_AT(word)                                                        \
  ([]() -> const kv_emu_site * {                                               \
    static const kv_emu_site kv_site = {word, __FILE__, __LINE__};             \
    return &kv_site;                                                           \
  }())

/* --- meetings (gpu/emu/emu_meet.cc) --------------------------------------- */

/* What kv_emu_meet is to return, besides the value of a lane of the warp
 * (0..31): nothing, the votes, the largest value, the sum. */
enum {
  KV_EMU_MEET = -1,
  KV_EMU_BALLOT = -2,
  KV_EMU_MOST = -3,
  KV_EMU_SUM = -4
};

/* __syncthreads: waits for all threads of the block. Threads at different
 * sites, or one that ended without reaching it, are a fault. */
void kv_emu_barrier(const kv_emu_site *site);
/* Waits for the lanes of `mask` that have not ended, which must all come to
 * this site with that mask; a thread outside its own mask is a fault, and so is
 * a `from` that is not among these lanes. Returns the value that lane `from`
 * passed, or, with KV_EMU_BALLOT, the mask of lanes that passed a value other
 * than 0, with KV_EMU_MOST and KV_EMU_SUM the largest of their 32-bit values
 * and the sum. */
uint64_t kv_emu_meet(const kv_emu_site *site, uint32_t mask, uint64_t value,
                     int from);
/* KV_SHARED: the block's n bytes that are declared at this site. */
void *kv_emu_shared(const kv_emu_site *site, size_t n);

/* The calling thread's number in its warp. */
inline int kv_emu_lane(void) { return (int)(kv_emu_place.thread.x % 32); }

#define __syncthreads() kv_emu_barrier(KV_EMU_AT("__syncthreads"))
#define __syncwarp(...)                                                        \
  kv_emu_syncwarp(KV_EMU_AT("__syncwarp") __VA_OPT__(, ) __VA_ARGS__)
#define __ballot_sync(...)                                                     \
  kv_emu_ballot(KV_EMU_AT("__ballot_sync"), __VA_ARGS__)
#define __any_sync(...) kv_emu_any(KV_EMU_AT("__any_sync"), __VA_ARGS__)
#define __reduce_max_sync(...)                                                 \
  kv_emu_most(KV_EMU_AT("__reduce_max_sync"), __VA_ARGS__)
#define __reduce_add_sync(...)                                                 \
  kv_emu_sum(KV_EMU_AT("__reduce_add_sync"), __VA_ARGS__)
#define __shfl_sync(...) kv_emu_shfl(KV_EMU_AT("__shfl_sync"), __VA_ARGS__)
#define __shfl_xor_sync(...)                                                   \
  kv_emu_shfl_xor(KV_EMU_AT("__shfl_xor_sync"), __VA_ARGS__)
#define __shfl_up_sync(...)                                                    \
  kv_emu_shfl_up(KV_EMU_AT("__shfl_up_sync"), __VA_ARGS__)

inline void kv_emu_syncwarp(const kv_emu_site *site,
                            uint32_t mask = 0xffffffffu) {
  kv_emu_meet(site, mask, 0, KV_EMU_MEET);
}

inline unsigned kv_emu_ballot(const kv_emu_site *site, uint32_t mask,
                              bool yes) {
  return (unsigned)kv_emu_meet(site, mask, yes, KV_EMU_BALLOT);
}
inline int kv_emu_any(const kv_emu_site *site, uint32_t mask, bool yes) {
  return kv_emu_ballot(site, mask, yes) != 0;
}

inline uint32_t kv_emu_most(const kv_emu_site *site, uint32_t mask,
                            uint32_t x) {
  return (uint32_t)kv_emu_meet(site, mask, x, KV_EMU_MOST);
}
inline uint32_t kv_emu_sum(const kv_emu_site *site, uint32_t mask, uint32_t x) {
  return (uint32_t)kv_emu_meet(site, mask, x, KV_EMU_SUM);
}

/* The value that lane `from` passed; outside the warp, the lane's own. */
template <class T>
T kv_emu_from(const kv_emu_site *site, uint32_t mask, T x, int from) {
  static_assert(sizeof x == 4 || sizeof x == 8, "4 or 8 bytes");
  uint64_t u = 0;
  memcpy(&u, &x, sizeof x);
  u = kv_emu_meet(site, mask, u, from < 0 || from > 31 ? kv_emu_lane() : from);
  memcpy(&x, &u, sizeof x);
  return x;
}

template <class T>
T kv_emu_shfl(const kv_emu_site *site, uint32_t mask, T x, int lane) {
  return kv_emu_from(site, mask, x, lane & 31);
}
template <class T>
T kv_emu_shfl_xor(const kv_emu_site *site, uint32_t mask, T x, int bits) {
  return kv_emu_from(site, mask, x, kv_emu_lane() ^ bits);
}
template <class T>
T kv_emu_shfl_up(const kv_emu_site *site, uint32_t mask, T x, unsigned by) {
  return kv_emu_from(site, mask, x, kv_emu_lane() - (int)by);
}

/* What other blocks see: all of it, as one runs after the other. The watch is
 * told. */
inline void __threadfence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

/* --- copies on their way (gpu/emu/emu_async.cc) ---------------------------
 * What kv_async_16, _commit and _wait<left> of gpu/block/async.h are here. */

void kv_emu_copy(void *to, const void *from);
void kv_emu_commit(void);
void kv_emu_wait(uint32_t left);

/* --- atomics ------------------------------------------------------------ */

template <class T> T kv_emu_min(T a, T b) { return b < a ? b : a; }
template <class T> T kv_emu_max(T a, T b) { return b > a ? b : a; }

/* *p = pick(*p, x); returns the old value. */
template <class T> T kv_emu_swap_for(T *p, T x, T (*pick)(T, T)) {
  T old = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(p, &old, pick(old, x), false,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}

#define KV_EMU_ATOMICS(type)                                                   \
  inline type atomicAdd(type *p, type x) {                                     \
    return __atomic_fetch_add(p, x, __ATOMIC_RELAXED);                         \
  }                                                                            \
  inline type atomicOr(type *p, type x) {                                      \
    return __atomic_fetch_or(p, x, __ATOMIC_RELAXED);                          \
  }
#define KV_EMU_ORDERS(type)                                                    \
  inline type atomicMin(type *p, type x) {                                     \
    return kv_emu_swap_for(p, x, kv_emu_min<type>);                            \
  }                                                                            \
  inline type atomicMax(type *p, type x) {                                     \
    return kv_emu_swap_for(p, x, kv_emu_max<type>);                            \
  }
KV_EMU_ATOMICS(int)
KV_EMU_ATOMICS(unsigned)
KV_EMU_ATOMICS(unsigned long long)
KV_EMU_ORDERS(int)
KV_EMU_ORDERS(unsigned)
KV_EMU_ORDERS(long long)
KV_EMU_ORDERS(unsigned long long)
#undef KV_EMU_ATOMICS
#undef KV_EMU_ORDERS

/* Deleted: a sum of floats would depend on the order of the threads. */
float atomicAdd(float *, float) = delete;
double atomicAdd(double *, double) = delete;

/* --- integers ----------------------------------------------------------- */

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __ffs(int x) { return __builtin_ffs(x); }

#endif

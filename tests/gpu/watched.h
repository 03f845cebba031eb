/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels made up for check_watch, which starts each with BLOCKS blocks and
 * asks whether the watch (gpu/emu/emu_races.h) finds a race: most are templates
 * that are correct as <true>; as <false> they lack the barrier, fence or wait
 * that orders them, and so race in any order of threads. A comment describes
 * what is special in one.
 */
#ifndef KV_TESTS_WATCHED_H
#define KV_TESTS_WATCHED_H

#include "gpu/block/async.h"
#include "gpu/block/block.cuh"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { ALL = KV_BLOCK, BLOCKS = 5, ROOM = 1 << 14 };

/* A kernel's argument: device memory, all 0 at the start. */
typedef struct memory {
  alignas(4096) int word[ROOM];
  alignas(4096) unsigned char byte[ROOM];
  unsigned done, passed, ticket;
} memory;

/* The thread's number, that of a thread of the next warp, the block's number,
 * and the block's ALL words. */
KV_DEVICE int self() { return (int)threadIdx.x; }
KV_DEVICE int next() { return (self() + KV_WARP) % ALL; }
KV_DEVICE int block() { return (int)blockIdx.x; }
KV_DEVICE int *own(memory *m) { return m->word + block() * ALL; }

/* A barrier, and a fence, that a template may leave out. */
template <bool THERE> KV_DEVICE void barrier() {
  if constexpr (THERE) __syncthreads();
}
template <bool THERE> KV_DEVICE void fence() {
  if constexpr (THERE) __threadfence();
}

/* --- kernels that are right as <true>, and race as <false> ---------------
 * Each passes numbers from thread to thread, or block to block, by the means
 * that its name and first lines show. */

template <bool RIGHT> static __global__ void pass_on(memory *m) {
  KV_SHARED(int, x, ALL);
  x[self()] = self();
  barrier<RIGHT>();
  own(m)[self()] = x[next()];
}

/* The trailing barrier is needed from the second round on. */
template <bool RIGHT> static __global__ void rounds(memory *m) {
  KV_SHARED(int, x, ALL);
  for (int round = 0; round < 3; round++) {
    x[self()] = round;
    __syncthreads();
    own(m)[self()] = x[next()];
    barrier<RIGHT>();
  }
}

template <bool RIGHT> static __global__ void global_list(memory *m) {
  own(m)[self()] = self();
  barrier<RIGHT>();
  int x = own(m)[next()];
  __syncthreads();
  own(m)[self()] = x;
}

/* Warps read the word, then one of them that has read it writes it. */
template <bool RIGHT> static __global__ void readers(memory *m) {
  KV_SHARED(int, x, 1);
  if (self() == 0) x[0] = 7;
  __syncthreads();
  int seen = x[0];
  barrier<RIGHT>();
  if (self() == 0) x[0] = 8;
  own(m)[self()] = seen;
}

/* Flags of a byte each, of which a wide one covers four. */
template <bool RIGHT> static __global__ void flags(memory *m) {
  m->byte[block() * ALL + self()] = 1;
  barrier<RIGHT>();
  if (self() == 40) own(m)[0] = *(const int *)(m->byte + block() * ALL + 4);
}

typedef struct __attribute__((packed)) odd {
  char a;
  int x;
} odd;
template <bool RIGHT> static __global__ void odd_places(memory *m) {
  odd *o = (odd *)(m->byte + 1024 - 3 + block() * 1024);
  if (self() == 0) o->x = 9;
  barrier<RIGHT>();
  if (self() == 64) own(m)[0] = m->byte[1024 + block() * 1024];
}

typedef struct large {
  int x[33];
} large;
template <bool RIGHT> static __global__ void records(memory *m) {
  large *l = (large *)(m->word + block() * 1024);
  if (self() == 0) l[0] = l[1];
  barrier<RIGHT>();
  if (self() == 127) l[2] = l[0];
}

template <bool RIGHT> static __global__ void moved(memory *m, size_t n) {
  unsigned char *b = m->byte + block() * 1024;
  if (self() == 33) memset(b, 1, n);
  barrier<RIGHT>();
  if (self() == 1) memcpy(b + 512, b + 8, n / 2);
  barrier<RIGHT>();
  if (self() == 96) memmove(b, b + 520, n / 2);
}
template <bool RIGHT> static __global__ void moved_some(memory *m) {
  moved<RIGHT>(m, 16 + (size_t)gridDim.x);
}

/* A stage that is copied while the other is read. */
template <bool FIRST, bool LAST> KV_DEVICE void staged(memory *m) {
  KV_SHARED(kv_piece, stage, 2 * ALL);
  const kv_piece *from = (const kv_piece *)m->word;
  for (int t = 0; t < 4; t++) {
    kv_async_16(&stage[t % 2 * ALL + self()], from + self());
    kv_async_commit();
    kv_async_wait<1>();
    barrier<FIRST>();
    if (t)
      m->byte[self()] =
          (unsigned char)stage[(t - 1) % 2 * ALL + next()].word[0];
    barrier<LAST>();
  }
  kv_async_wait<0>();
}
template <bool RIGHT> static __global__ void stages_wait(memory *m) {
  if (block() == 0) staged<RIGHT, true>(m);
}
template <bool RIGHT> static __global__ void stages_leave(memory *m) {
  if (block() == 0) staged<true, RIGHT>(m);
}

/* The source of a copy in flight is written after a barrier, which is no wait.
 */
template <bool RIGHT> static __global__ void source_changes(memory *m) {
  KV_SHARED(kv_piece, to, 1);
  int *from = own(m);
  if (self() == 0) kv_async_16(to, from);
  kv_async_commit();
  if constexpr (RIGHT) kv_async_wait<0>();
  __syncthreads();
  if (self() == 32) from[1] = 5;
  __syncthreads();
  if constexpr (!RIGHT) kv_async_wait<0>();
}

template <bool RIGHT> static __global__ void counted(memory *m) {
  if constexpr (RIGHT)
    atomicAdd(&m->done, 1u);
  else
    m->done = m->done + 1;
}

/* Every block writes its own, or all the same. */
template <bool RIGHT> static __global__ void results(memory *m) {
  if (self() == 0) m->word[RIGHT ? block() : 3] = block();
}

template <bool RIGHT> static __global__ void neighbours(memory *m) {
  m->word[block() * ALL + self()] = 1;
  int from = RIGHT ? block() : 0;
  m->byte[block() * ALL + self()] = (unsigned char)m->word[from * ALL + self()];
}

/* The last block writes what all read, after a barrier. */
template <bool RIGHT> static __global__ void last_writes(memory *m) {
  KV_SHARED(unsigned, ticket, 1);
  m->byte[block() * ALL + self()] = (unsigned char)m->word[0];
  if (self() == 0) ticket[0] = atomicAdd(&m->ticket, 1u);
  __syncthreads();
  if (!RIGHT && ticket[0] + 1 == gridDim.x && self() == 0) m->word[0] = 1;
}

/* The block that comes last sums up what the others wrote: of the four things
 * that order this, one is missing. */
template <bool BARRIER, bool GIVE, bool TAKE, bool KEEP>
KV_DEVICE void handed(memory *m) {
  KV_SHARED(unsigned, before, 1);
  own(m)[self()] = self();
  barrier<BARRIER>();
  if (self() == 0) {
    fence<GIVE>();
    before[0] = atomicAdd(&m->done, 1u);
    fence<TAKE>();
  }
  __syncthreads();
  if (before[0] + 1 != gridDim.x) return;
  int sum = 0;
  for (unsigned b = 0; b < gridDim.x; b++) sum += m->word[b * ALL + next()];
  m->byte[self()] = (unsigned char)sum;
  if (self() == 0) m->done = 0;
  if (!KEEP && self() == 0) m->ticket = 0;
}
template <bool RIGHT> static __global__ void hands_early(memory *m) {
  handed<RIGHT, true, true, true>(m);
}
template <bool RIGHT> static __global__ void hands_unfenced(memory *m) {
  handed<true, RIGHT, true, true>(m);
}
template <bool RIGHT> static __global__ void takes_unfenced(memory *m) {
  handed<true, true, RIGHT, true>(m);
}
/* The ticket is drawn after the block has arrived. */
template <bool RIGHT> static __global__ void draws_late(memory *m) {
  if (RIGHT && self() == 0) atomicAdd(&m->ticket, 1u);
  handed<true, true, true, false>(m);
  if (!RIGHT && self() == 0) atomicAdd(&m->ticket, 1u);
}

/* The block that comes first writes; the others wait for its flag. */
template <bool RIGHT> static __global__ void waits(memory *m) {
  KV_SHARED(unsigned, ticket, 1);
  if (self() == 0) ticket[0] = atomicAdd(&m->ticket, 1u);
  __syncthreads();
  if (ticket[0] == 0) {
    if (self() == 64) m->word[0] = 5;
    __syncthreads();
    if (self() > 0) return;
    __threadfence();
    atomicAdd(&m->done, 1u);
    return;
  }
  if (self() == 0) {
    while (*(const volatile unsigned *)&m->done == 0) {
    }
    fence<RIGHT>();
  }
  __syncthreads();
  m->byte[block() * ALL + self()] = (unsigned char)m->word[0];
}

/* Waits, all threads of the block, until another block has set the flag. */
KV_DEVICE void await(const unsigned *flag) {
  if (self() == 0) {
    while (*(const volatile unsigned *)flag == 0) {
    }
    __threadfence();
  }
  __syncthreads();
}

/* The second block passes on what it was given, by another thread. */
template <bool RIGHT> static __global__ void passes(memory *m) {
  KV_SHARED(unsigned, ticket, 1);
  if (self() == 0) ticket[0] = atomicAdd(&m->ticket, 1u);
  __syncthreads();
  if (ticket[0] == 0) {
    m->word[self()] = 5;
    __syncthreads();
    if (self() == 0) __threadfence();
    if (self() == 0) atomicAdd(&m->done, 1u);
    return;
  }
  await(ticket[0] == 1 ? &m->done : &m->passed);
  if (ticket[0] == 1 && self() == 32) {
    fence<RIGHT>();
    atomicAdd(&m->passed, 1u);
  }
  m->byte[block() * ALL + self()] = (unsigned char)m->word[next()];
}

/* --- kernels that are right only ----------------------------------------- */

/* Lanes of one warp, which meet. */
static __global__ void within_a_warp(memory *m) {
  KV_SHARED(int, x, ALL);
  x[self()] = self();
  __syncwarp();
  int y = x[self() ^ 1];
  y += __shfl_xor_sync(KV_WHOLE_WARP, y, 2);
  __syncwarp();
  x[self() ^ 3] = y;
  own(m)[self()] = (int)kv_warp_sum((uint32_t)y);
}

/* Neighbours of a byte and of two, also where another warp begins. */
static __global__ void side_by_side(memory *m) {
  KV_SHARED(bool, flag, ALL);
  KV_SHARED(uint16_t, half, ALL + 1);
  flag[self()] = true;
  half[self() + 1] = (uint16_t)self();
  m->byte[block() * ALL + self()] = flag[self()] + (half[self() + 1] > 3);
}

static __global__ void shared_again(memory *m) {
  KV_SHARED(int, x, ALL);
  x[(self() + block() * KV_WARP) % ALL] = block();
  own(m)[self()] = x[(self() + block() * KV_WARP) % ALL];
}

static __attribute__((noinline)) void fill(int *list, int n, int x) {
  for (int i = 0; i < n; i++) list[i] = x + i;
}
static __global__ void own_arrays(memory *m) {
  int list[40];
  fill(list, 40, self());
  own(m)[self()] = list[(unsigned)m->word[ROOM - 1] % 40];
}

static __global__ void all_read(memory *m) {
  KV_SHARED(int, seen, ALL);
  seen[self()] = m->word[ROOM - 1] + m->word[ROOM - 2 - self()];
  m->byte[block() * ALL + self()] = (unsigned char)seen[self()];
}

static __global__ void count_all(memory *m) {
  atomicAdd(&m->done, 1u);
  atomicMax((int *)&m->ticket, self());
  atomicOr((unsigned *)m->word, 1u << self() % 32);
}

static __global__ void sums_of_a_block(memory *m) {
  int total, before = kv_block_before(self(), &total);
  own(m)[self()] = before + total + kv_block_sum(1);
}

#endif

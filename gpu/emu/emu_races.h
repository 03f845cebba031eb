/* SPDX-License-Identifier: Apache-2.0
 *
 * The watch on loads and stores: for gpu/emu/emu*.cc only. In a build by
 * `configure --enable-watch` the compiler puts a call in front of every load
 * and store of a kernel (-fsanitize=thread), and the executor defines the
 * called functions. A fault is reported if two accesses touch the same byte, at
 * least one of them writes, and - they are of two warps of a block without a
 * barrier between, or - of two blocks of the launch, in global memory.
 *
 * No fault: two atomic or volatile accesses; two reads; accesses ordered by a
 * fence and an atomic or volatile write, then such a read and a fence
 * (gpu/emu/emu_order.cc); shared memory of different blocks; a thread's own
 * variables. A copy in flight (gpu/block/async.h) writes, and reads, until it
 * has been waited for. Launches run in order, so accesses of earlier launches
 * are forgotten.
 *
 * Not detected: races on paths that were not taken, between lanes of one warp
 * without a __syncwarp, between launches in two streams. The result does not
 * depend on the order in which threads ran, but only on the barriers between
 * accesses.
 *
 * An interval is the time between two barriers of a block; all intervals of an
 * OS thread are counted. Costs 64 bytes for each 8, 4, 2 or 1 bytes of a page,
 * as small as the page was ever accessed, and 10 to 20 ns an access.
 */
#ifndef KV_GPU_EMU_RACES_H
#define KV_GPU_EMU_RACES_H

#include <stddef.h>
#include <stdint.h>

struct kv_emu_context;

#ifdef KV_WATCH

/* The kind of an access. A look is a volatile or atomic read; a volatile write
 * counts as atomic. */
typedef enum kv_emu_kind {
  KV_EMU_READ,
  KV_EMU_WRITE,
  KV_EMU_ATOMIC,
  KV_EMU_LOOK,
  KV_EMU_KINDS
} kv_emu_kind;

/* A stored access to a byte; from the top: 28 bits of the interval (when), a
 * bit for each of 4 warps that made it, 7 bits of the last thread, 25 of its
 * place in the code (site). */
typedef uint64_t kv_emu_trace;

static inline uint32_t kv_emu_trace_when(kv_emu_trace t) {
  return (uint32_t)(t >> 36);
}
static inline unsigned kv_emu_trace_warps(kv_emu_trace t) {
  return (unsigned)(t >> 32) & 15;
}
static inline int kv_emu_trace_thread(kv_emu_trace t) {
  return (int)(t >> 25 & 127);
}
static inline uint32_t kv_emu_trace_site(kv_emu_trace t) {
  return (uint32_t)t & 0x1ffffff;
}

/* The calling OS thread's state; NULL: it has none yet. No memory aborts. */
typedef struct kv_emu_races kv_emu_races;
extern __thread kv_emu_races *kv_emu_races_mine;

/* Intervals: the running one, the first of the block and of the launch. */
typedef struct kv_emu_times {
  uint32_t now, block, launch;
} kv_emu_times;

/* Called by the executor when a launch begins; when a block of it begins; when
 * all threads of the block have reached a barrier. */
void kv_emu_races_launch(struct kv_emu_context *c);
void kv_emu_races_block(struct kv_emu_context *c);
void kv_emu_races_barrier(struct kv_emu_context *c);
/* Thread t started a copy of n bytes in the code at `where`: its bytes count as
 * read and written until it has been waited for. */
void kv_emu_races_copy(struct kv_emu_context *c, int t, void *to,
                       const void *from, size_t n, const void *where);
/* Frees the calling OS thread's state. */
void kv_emu_races_free(void);

/* Called by emu_hooks.cc: the running thread accesses n bytes, from the code at
 * `where`; a race is a fault. Does nothing if no kernel runs. */
void kv_emu_see(const void *at, size_t n, kv_emu_kind kind, const void *where);
void kv_emu_see_fence(void); /* .. calls __threadfence */

/* --- emu_order.cc: what fences and atomics order ------------------------ One
 * state for an OS thread. emu_races.cc calls these when a launch begins, a
 * block begins, a barrier is reached, or a thread fences. now: the running
 * interval; blocks: the number of the launch's. Lack of memory aborts, except
 * in make; so do more than 64 words that order the blocks of a launch. */

typedef struct kv_emu_order_state kv_emu_order_state;
kv_emu_order_state *kv_emu_order_make(void); /* NULL: no memory */
void kv_emu_order_free(kv_emu_order_state *o);
void kv_emu_order_launch(kv_emu_order_state *o);
void kv_emu_order_block(kv_emu_order_state *o, uint32_t now);
void kv_emu_order_barrier(kv_emu_order_state *o);
void kv_emu_order_fence(kv_emu_order_state *o, int thread, uint64_t blocks,
                        uint32_t now);
/* .. accesses the word at `at`: KV_EMU_ATOMIC, or KV_EMU_LOOK. */
void kv_emu_order_meet(kv_emu_order_state *o, int thread, const void *at,
                       kv_emu_kind kind);
/* True if what an earlier block did in interval `when`, an access of this kind,
 * is before all that the running block does from its last barrier on. */
bool kv_emu_order_holds(const kv_emu_order_state *o, uint32_t when,
                        kv_emu_kind kind);
/* The number, in order of execution, of the block of this interval. */
uint64_t kv_emu_order_block_at(const kv_emu_order_state *o, uint32_t when);

/* --- emu_say.cc: the sentence ------------------------------------------- */

/* Two accesses that race. */
typedef struct kv_emu_race {
  const void *at; /* the bytes of the later one */
  size_t n;
  int thread;              /* the later one's, which runs */
  kv_emu_kind kind, other; /* of the later one; of the one before */
  kv_emu_trace before;     /* the one before */
  const void *where, *was; /* in the code: the later one, the one before */
  bool shared;             /* the bytes are shared memory, else global */
  bool blocks;             /* the two are of different blocks */
  uint64_t block;          /* then the number of the earlier one's block, in
                              order of execution */
} kv_emu_race;
/* Reports the fault with a sentence on all this, with lines of the source if
 * they can be found. */
[[noreturn]] void kv_emu_races_say(struct kv_emu_context *c,
                                   const kv_emu_race *r);

#else /* a build without the watch: the executor tells nobody */

static inline void kv_emu_races_launch(struct kv_emu_context *) {}
static inline void kv_emu_races_block(struct kv_emu_context *) {}
static inline void kv_emu_races_barrier(struct kv_emu_context *) {}
static inline void kv_emu_races_copy(struct kv_emu_context *, int, void *,
                                     const void *, size_t, const void *) {}
static inline void kv_emu_races_free(void) {}

#endif
#endif

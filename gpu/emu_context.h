/* SPDX-License-Identifier: Apache-2.0
 *
 * What the executor knows of one OS thread; for gpu/emu.cc (launches, stacks)
 * and gpu/emu_meet.cc (turns, meetings, shared memory) alone.
 */
#ifndef KV_GPU_EMU_CONTEXT_H
#define KV_GPU_EMU_CONTEXT_H

#include "gpu/emu.h"
#include "gpu/emu_switch.h"

enum {
  KV_EMU_THREADS = 128, /* most of a block */
  KV_EMU_WARPS = KV_EMU_THREADS / 32,
  KV_EMU_SHARED = 48 << 10, /* bytes a kernel may declare in CUDA */
  KV_EMU_ARRAYS = 256,      /* places for them; a block may have one less */
  KV_EMU_GRAIN = 64,        /* their alignment, and least bytes between */
  KV_EMU_COPY = 16,         /* bytes a copy to shared memory */
  KV_EMU_COPIES = 32,       /* of a thread that may be on their way */
  KV_EMU_ARENA = KV_EMU_SHARED + KV_EMU_ARRAYS * 2 * KV_EMU_GRAIN
};

typedef struct kv_emu_stack {
  kv_emu_frame frame;
  kv_emu_watch watch;
  bool made; /* it can be switched to */
} kv_emu_stack;

typedef struct kv_emu_thread {
  kv_emu_stack *on;
  bool fresh; /* has not begun */
  /* The meeting that it stands at: */
  const kv_emu_site *site;
  uint32_t mask;
  int from;
  uint64_t in, out;
} kv_emu_thread;

typedef struct kv_emu_array {
  const kv_emu_site *site;
  uint64_t block; /* in which it was met last */
  char *at;
} kv_emu_array;

/* Copies of a thread on their way, oldest first. */
typedef struct kv_emu_one {
  void *to;
  const void *from;
  uint32_t group; /* groups there were before */
} kv_emu_one;
typedef struct kv_emu_copies {
  int n;
  uint32_t groups;
  kv_emu_one copy[KV_EMU_COPIES];
} kv_emu_copies;

typedef struct kv_emu_context {
  const kv_emu_launch *launch; /* NULL: none */
  bool reverse, broken, closing;
  kv_emu_ground ground; /* the launcher's */
  int n;                /* threads of a block */
  int left, gone;       /* how many of them have left; which was the last */
  kv_emu_thread *now;
  kv_emu_stack *stack, *before, home; /* running, last one, the launcher's */
  /* Lanes by warp: can go on; stand at a collective; have not left. */
  uint32_t ready[KV_EMU_WARPS], waiting[KV_EMU_WARPS], live[KV_EMU_WARPS];
  int at_barrier, first_there; /* how many, and which came first */
  uint64_t blocks;             /* ever, this one included */
  int arrays;                  /* of this block */
  size_t declared, used;       /* their bytes; with what is between */
  char *arena;                 /* [KV_EMU_ARENA] */
  char *map;                   /* this, the arena, the stacks */
  size_t map_size;
  kv_emu_array array[KV_EMU_ARRAYS]; /* by hash of the site */
  kv_emu_thread thread[KV_EMU_THREADS];
  kv_emu_stack stacks[KV_EMU_THREADS];
  kv_emu_copies copies[KV_EMU_THREADS];
  uint64_t copied; /* of them, ever */
} kv_emu_context;

extern __thread kv_emu_context *kv_emu_mine;

static inline int kv_emu_number(const kv_emu_context *c,
                                const kv_emu_thread *t) {
  return (int)(t - c->thread);
}

/* --- emu.cc ------------------------------------------------------------- */

/* failed() says it from now on, if nothing was said before. */
void kv_emu_remember(const char *sentence);
/* Says the sentence; the launch is abandoned. */
[[noreturn]] __attribute__((format(printf, 2, 3))) void
kv_emu_break(kv_emu_context *c, const char *format, ...);
/* Goes on at `to`; returns when somebody goes on here. `last`: nobody will. */
void kv_emu_jump(kv_emu_context *c, kv_emu_stack *to, bool last);

/* --- emu_meet.cc -------------------------------------------------------- */

/* The thread whose turn is next, or NULL: none can go on. */
kv_emu_thread *kv_emu_next(const kv_emu_context *c);
void kv_emu_turn(kv_emu_context *c, kv_emu_thread *t);
/* The running thread has left; who is next, or NULL: all have left. */
kv_emu_thread *kv_emu_leave(kv_emu_context *c);

/* --- emu_async.cc ------------------------------------------------------- */

/* The running thread ends: are its copies there? */
void kv_emu_land(kv_emu_context *c);

/* --- emu_graph.cc ------------------------------------------------------- */

/* Is it recorded? Then it is not run. */
bool kv_emu_keep(const kv_emu_launch *launch);

#endif

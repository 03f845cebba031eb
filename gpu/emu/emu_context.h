/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor's state for one OS thread, and the functions that its files
 * share. Private to gpu/emu/emu*.cc: emu.cc has launches and stacks,
 * emu_meet.cc scheduling, collectives and shared memory, emu_async.cc copies,
 * emu_graph.cc recordings; those of the watch are in gpu/emu/emu_races.h. Each
 * thread of the running block runs on its own stack, or on that of a thread
 * that has ended.
 */
#ifndef KV_GPU_EMU_CONTEXT_H
#define KV_GPU_EMU_CONTEXT_H

#include "gpu/emu/emu.h"
#include "gpu/emu/emu_races.h"
#include "gpu/emu/emu_switch.h"

enum {
  KV_EMU_THREADS = 128, /* most threads of a block */
  KV_EMU_WARPS = KV_EMU_THREADS / 32,
  KV_EMU_SHARED = 48 << 10, /* bytes a kernel may declare in CUDA */
  KV_EMU_ARRAYS = 256, /* slots for shared arrays, of which one stays free */
  KV_EMU_GRAIN = 64,   /* their alignment, and the least gap between two */
  KV_EMU_COPY = 16,    /* bytes a copy to shared memory */
  KV_EMU_COPIES = 32,  /* copies of a thread that may be in flight */
  /* bytes that hold all shared arrays of a block, with gaps */
  KV_EMU_ARENA = KV_EMU_SHARED + KV_EMU_ARRAYS * 2 * KV_EMU_GRAIN
};

/* A stack on which a thread of a kernel runs, or the launcher's own. */
typedef struct kv_emu_stack {
  kv_emu_frame frame; /* its saved state while another runs */
  kv_emu_watch watch; /* what sanitizers know of it */
  bool made;          /* initialised: can be switched to */
} kv_emu_stack;

/* A thread of the running block. */
typedef struct kv_emu_thread {
  kv_emu_stack *on;
  bool fresh; /* has not begun */
  /* Where it waits, kv_emu_meet's arguments and answer: */
  const kv_emu_site *site;
  uint32_t mask;
  int from;
  uint64_t in, out;
} kv_emu_thread;

/* A shared array, known by where it is declared. */
typedef struct kv_emu_array {
  const kv_emu_site *site;
  uint64_t block; /* the last block that declared it */
  char *at;       /* in the arena */
} kv_emu_array;

/* A copy of a thread in flight; and all of them, oldest first. */
typedef struct kv_emu_one {
  void *to;
  const void *from;
  uint32_t group;    /* groups committed before it */
  const void *where; /* in the code */
} kv_emu_one;
typedef struct kv_emu_copies {
  int n;
  uint32_t groups; /* committed so far */
  int started;     /* since, of a group */
  kv_emu_one copy[KV_EMU_COPIES];
} kv_emu_copies;

/* A request of a warp, as kv_emu_touched counts them. */
typedef struct kv_emu_request {
  uint64_t block; /* of which group and block */
  uint32_t group;
  int n;                /* sectors */
  uintptr_t sector[32]; /* their numbers */
  uint8_t hits[4][8];   /* copies of each 8 threads, by banks */
  uint8_t most[4];
} kv_emu_request;

typedef struct kv_emu_context {
  const kv_emu_launch *launch;  /* that is running; NULL: none */
  bool reverse;                 /* the order of this launch */
  bool broken;                  /* it was abandoned by a fault */
  bool closing;                 /* the OS thread ends */
  kv_emu_ground ground;         /* the launcher's */
  int n;                        /* threads of a block */
  int left, gone;               /* how many have ended; which was the last */
  kv_emu_thread *now;           /* that runs */
  kv_emu_stack *stack, *before; /* the running stack; the one that ran before */
  kv_emu_stack home;            /* the launcher's */
  /* Lanes by warp, as masks: can run; wait at a collective; have not ended. */
  uint32_t ready[KV_EMU_WARPS], waiting[KV_EMU_WARPS], live[KV_EMU_WARPS];
  int at_barrier, first_there; /* threads at the barrier; which came first */
  uint64_t passed;             /* barriers that this block has passed */
  uint64_t blocks;             /* blocks run so far, including this one */
  int arrays;                  /* shared arrays of this block */
  size_t declared, used;       /* their bytes; the same with the gaps */
  char *arena;                 /* [KV_EMU_ARENA] */
  char *map; /* one mapping: this struct, the arena, the stacks */
  size_t map_size;
  kv_emu_array array[KV_EMU_ARRAYS]; /* by hash of the site */
  kv_emu_thread thread[KV_EMU_THREADS];
  kv_emu_stack stacks[KV_EMU_THREADS];
  kv_emu_copies copies[KV_EMU_THREADS];
  kv_emu_count count;       /* of the launches so far */
  uint64_t copied;          /* copies made so far */
  uintptr_t watched, bytes; /* range whose copies are counted: */
  kv_emu_touched touched;
  kv_emu_request request[KV_EMU_WARPS][KV_EMU_COPIES];
} kv_emu_context;

/* The calling OS thread's; NULL until its first launch, and when released. */
extern __thread kv_emu_context *kv_emu_mine;

/* A thread's number in its block. */
static inline int kv_emu_number(const kv_emu_context *c,
                                const kv_emu_thread *t) {
  return (int)(t - c->thread);
}

/* --- emu.cc ------------------------------------------------------------- */

/* Sets the sentence of kv_emu_failed, unless it is already set. */
void kv_emu_remember(const char *sentence);
/* Reports a fault of the running thread by a sentence, as printf makes it, to
 * kv_emu_fault; if that returns, abandons the launch. */
[[noreturn]] __attribute__((format(printf, 2, 3))) void
kv_emu_break(kv_emu_context *c, const char *format, ...);
/* Switches to the stack `to`; returns when something switches back here. last:
 * nothing will. */
void kv_emu_jump(kv_emu_context *c, kv_emu_stack *to, bool last);

/* --- emu_meet.cc -------------------------------------------------------- */

/* The thread that runs next, or NULL: none can run. */
kv_emu_thread *kv_emu_next(const kv_emu_context *c);
/* Makes t the running thread, without switching stacks. */
void kv_emu_turn(kv_emu_context *c, kv_emu_thread *t);
/* The running thread has ended; returns the next, or NULL: all have ended. A
 * fault if it has copies in flight, or others can no longer run. */
kv_emu_thread *kv_emu_leave(kv_emu_context *c);

/* --- emu_async.cc ------------------------------------------------------- */

/* The running thread ends: a fault if it has copies in flight. */
void kv_emu_land(kv_emu_context *c);

/* --- emu_graph.cc ------------------------------------------------------- */

/* True if launches of this OS thread are being recorded; this one is then
 * stored, and not to be run. Without memory kv_emu_recorded returns NULL. */
bool kv_emu_keep(const kv_emu_launch *launch);

#endif

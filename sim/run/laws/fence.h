/* SPDX-License-Identifier: Apache-2.0
 *
 * Wraps a method's hooks to find violations of its contract while it replays.
 * Guard bytes around lane state, columns and workspace are checked after every
 * call; undefined inputs and workspace are filled with changing junk; returned
 * views are checked. A violation is reported at once, in the middle of the
 * replay, through a function that does not return: it ends the process, which
 * is a child made for one law (sim/run/laws/lawcheck.c).
 *
 * In the child: call kv_fence_around before the cell is opened, with the
 * returned table as the specification's method; optionally kv_fence_look; then
 * replay. One method at a time in a process. The wrapped method needs a little
 * more state and three times the workspace; nothing measured or hashed depends
 * on these.
 */
#ifndef KV_SIM_FENCE_H
#define KV_SIM_FENCE_H

#include "ref/lane/method.h"
#include <stdatomic.h>

/* Reports, with a sentence, that `law` is broken; passed to kv_fence_around.
 * Does not return. */
typedef void kv_fence_tell(const char *law, const char *text);

/* Which hook the method is in, kept up to date by the fences; in shared memory
 * another process can read it. */
typedef struct kv_fence_post {
  _Atomic(const char *) hook;   /* the current or last hook, or open: a string
                                   of the program; NULL: none yet */
  atomic_int layer, lane, step; /* where it was called; lane -1: several */
  atomic_bool inside;           /* the method is in it */
  atomic_uint calls;            /* number of calls and returns */
} kv_fence_post;

/* Returns the wrapped table of `inner`, valid until the next call; inner and
 * *post outlive it. Records hook entries and returns in *post. */
const kv_method *kv_fence_around(const kv_method *inner, kv_fence_post *post,
                                 kv_fence_tell *tell);
/* The method that was passed to kv_fence_around. */
const kv_method *kv_fence_inner(void);

/* Further checks in later replays. KV_FENCE_WRITES needs replays on one thread
 * and costs digests of all lanes around each hook. KV_RESOURCE: memory. */
typedef enum kv_fence_watch {
  KV_FENCE_NOTHING, /* only what every replay checks */
  KV_FENCE_WRITES,  /* memory that a hook must not write, and what it leaves
                       behind in the process */
  KV_FENCE_MODES    /* the floating-point mode in which hooks return */
} kv_fence_watch;
kv_rc kv_fence_look(kv_fence_watch what, kv_err *e);

/* For a signal handler, in the thread that crashed: reports what it was doing,
 * so it does not return. signal: its name ("SIGSEGV"); at: the bad address,
 * UINTPTR_MAX for signals without one. */
void kv_fence_crashed(const char *signal, uintptr_t at);
/* For pthread_atfork, in the thread that is about to fork: reports it if it is
 * in a hook of the method. */
void kv_fence_forks(void);

#endif

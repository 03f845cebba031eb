/* SPDX-License-Identifier: Apache-2.0
 *
 * Wraps a method's hooks to detect violations of its contract. Guard bytes
 * around lane state, columns and workspace are checked after every call;
 * undefined inputs and workspace are filled with changing junk; returned views
 * are checked. A violation is reported at once, in the middle of the replay,
 * through a function that does not return: it ends the process, which is a
 * child made for one law (sim/laws/lawcheck.h).
 *
 * One method at a time in a process. The wrapped method asks for a little more
 * state and several times the workspace; nothing measured or hashed depends on
 * those.
 */
#ifndef KV_SIM_FENCE_H
#define KV_SIM_FENCE_H

#include "ref/lane/method.h"
#include <stdatomic.h>

/* Reports that `law` is broken. Does not return. */
typedef void kv_fence_tell(const char *law, const char *text);

/* Which hook the method is in, readable from another process. */
typedef struct kv_fence_post {
  _Atomic(const char *) hook; /* the hook it is in, or was in last; or NULL */
  atomic_int layer, lane, step;
  atomic_bool inside;
  atomic_uint calls; /* counts calls of hooks and returns */
} kv_fence_post;

/* The wrapped table of `inner`; valid until the next call. Hook entries and
 * returns are posted in *post. */
const kv_method *kv_fence_around(const kv_method *inner, kv_fence_post *post,
                                 kv_fence_tell *tell);
/* The method within. */
const kv_method *kv_fence_inner(void);

/* Additional checks in the next replay, which must use one thread. */
typedef enum kv_fence_watch {
  KV_FENCE_NOTHING,
  KV_FENCE_WRITES, /* memory that a hook must not write, and what it leaves in
                      the process */
  KV_FENCE_MODES   /* the floating-point mode */
} kv_fence_watch;
kv_rc kv_fence_look(kv_fence_watch what, kv_err *e);

/* Called in the thread that crashed: reports what it was doing. `at`: the bad
 * address, UINTPTR_MAX for signals without one. */
void kv_fence_crashed(const char *signal, uintptr_t at);
/* Called in a thread that is about to fork: reports it if a hook does it. */
void kv_fence_forks(void);

#endif

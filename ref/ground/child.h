/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a function in a child process, for code that may crash, hang, exit or
 * write anywhere. The caller learns how the child ended, and nothing of the
 * child remains. The child is alone in its process group, reads nothing from
 * standard input, writes nothing but the last line that ends up in `said`, and
 * dies with its parent.
 *
 * The caller must not have started threads, its own or OpenMP's: fork copies
 * only the calling one. Costs a fork.
 */
#ifndef KV_REF_CHILD_H
#define KV_REF_CHILD_H

#include "ref/ground/err.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct kv_child {
  void (*work)(void *self); /* runs in the child; ends by returning or by
                               kv_child_leave */
  void *self;               /* argument of work and beat */
  /* Polled in the parent: returns a counter that changes whenever the child
   * makes progress, and sets *seconds to how long it may stay the same before
   * the child is killed (0: for ever). The counter is usually in memory from
   * kv_child_memory. NULL: never killed for that. */
  unsigned (*beat)(const void *self, int *seconds);
  bool (*stop)(void); /* polled; true ends the child. NULL: never */
  /* Also kill processes that the child started and left behind, in sessions of
   * their own or not. The caller must have no other children. */
  bool adopts;
} kv_child;

typedef enum kv_child_fate {
  KV_CHILD_DONE,   /* work returned, or called kv_child_leave */
  KV_CHILD_DIED,   /* by a signal, or by any other exit */
  KV_CHILD_STUCK,  /* killed: no progress in time */
  KV_CHILD_STOPPED /* killed: stop returned true */
} kv_child_fate;

typedef struct kv_child_end {
  kv_child_fate fate;
  int signal, code; /* if it died: signal, or 0 and the exit code */
  int left;         /* with adopts: processes that it left behind and that were
                       killed; waiting for them takes at most 5 seconds */
  char said[400];   /* its last line that is not empty, or "" */
} kv_child_end;

/* Runs c->work in a child and waits for it. *out says how it ended, which is no
 * failure of this call. KV_RESOURCE if no child could be made. */
kv_rc kv_child_run(const kv_child *c, kv_child_end *out, kv_err *e);

/* In the child: ends it as KV_CHILD_DONE, from anywhere inside the work,
 * without destructors or exit handlers. */
_Noreturn void kv_child_leave(void);

/* `size` zeroed bytes that parent and children share; NULL without memory. Call
 * it before kv_child_run; return it with the same size. */
void *kv_child_memory(size_t size);
void kv_child_forget(void *memory, size_t size); /* accepts NULL */

#endif

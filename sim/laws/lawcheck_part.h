/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/laws/lawcheck*.c: the work of the child processes in which
 * laws are checked, so that a method that crashes or hangs ends a child alone,
 * and reading their answers from memory that parent and child share.
 */
#ifndef KV_SIM_LAWCHECK_PART_H
#define KV_SIM_LAWCHECK_PART_H

#include "sim/laws/fence.h"
#include "sim/laws/law_walk.h"
#include "sim/laws/lawcheck.h"
#include "sim/spec/child.h"
#include "traces/trace/small.h"

/* The result of a replay, which another process must reproduce to the bit. */
typedef struct kv_lawcheck_run {
  kv_law_run digests;
  int64_t peak; /* bytes, as kv_totals counts them */
  kv_bytes end; /* at the last step */
} kv_lawcheck_run;

/* What parent and child share: written by the child, read by the parent when
 * the child has ended or its time is over. */
typedef struct kv_lawcheck_page {
  kv_lawcheck_said said; /* law "": nothing yet */
  kv_fence_post post;    /* which hook the method is in, or was in last */
  kv_lawcheck_run run;   /* of the law "process" */
} kv_lawcheck_page;

/* A synthetic trace; values are multiplied by 2^exponent. */
typedef struct kv_lawcheck_place {
  kv_small small;
  int exponent;
} kv_lawcheck_place;

/* One child's task. */
typedef struct kv_lawcheck_task {
  const kv_lawcheck *ask;
  const kv_lawcheck_place *make; /* a trace to write instead; or NULL */
  const char *file;              /* the trace's: to read, or to write */
  bool elsewhere; /* use other memory addresses than the parent */
  kv_lawcheck_page *page;
} kv_lawcheck_task;

/* Does the task, in the child; self is a kv_lawcheck_task. Leaves its answer in
 * the task's page; never returns an error, and may not return at all. */
void kv_lawcheck_work(void *self);

/* The index of a law in the order of kv_lawcheck_law, which must be a law's
 * name. The law "process" is checked by two children, which leave their runs in
 * the page. */
int kv_lawcheck_index(const char *law);
/* Checks law i on the case, in the child, and fills *run if the law is
 * "process". KV_OK: it holds; KV_DIFFERENT: it is broken; KV_REFUSED: the cell
 * cannot run. */
kv_rc kv_lawcheck_holds(int i, const kv_law_case *c, kv_lawcheck_run *run,
                        kv_err *e);

/* Runs the task in a child and waits: until `seconds` pass within one call of a
 * hook, or `stop` asks for an end; the child is killed then. *out: its answer,
 * or what is known of how it ended. KV_RESOURCE: no child could be made. */
kv_rc kv_lawcheck_hear(const kv_lawcheck_task *t, kv_lawcheck_stop *stop,
                       int seconds, kv_lawcheck_said *out, kv_err *e);

#endif

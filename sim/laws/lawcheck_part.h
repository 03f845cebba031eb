/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/laws/lawcheck*.c: the work of the children, and reading their
 * answers.
 */
#ifndef KV_SIM_LAWCHECK_PART_H
#define KV_SIM_LAWCHECK_PART_H

#include "sim/laws/fence.h"
#include "sim/laws/law_walk.h"
#include "sim/laws/lawcheck.h"
#include "sim/spec/child.h"
#include "traces/trace/small.h"

/* The result of a replay, which another process must reproduce. */
typedef struct kv_lawcheck_run {
  kv_law_run digests;
  int64_t peak;
  kv_bytes end;
} kv_lawcheck_run;

/* Memory that parent and child share. */
typedef struct kv_lawcheck_page {
  kv_lawcheck_said said; /* law "": nothing yet */
  kv_fence_post post;
  kv_lawcheck_run run;
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
  const char *file;
  bool elsewhere; /* use other memory addresses than the parent */
  kv_lawcheck_page *page;
} kv_lawcheck_task;

/* Runs in the child; self is a task. */
void kv_lawcheck_work(void *self);

/* The index of a law in the order of kv_lawcheck_law. The law "process" is
 * checked by two children, which leave their runs in the page. */
int kv_lawcheck_index(const char *law);
/* Checks law i, in the child. KV_OK: it holds. */
kv_rc kv_lawcheck_holds(int i, const kv_law_case *c, kv_lawcheck_run *run,
                        kv_err *e);

/* Runs the task in a child. *out: its answer, or what is known of how it ended.
 */
kv_rc kv_lawcheck_hear(const kv_lawcheck_task *t, kv_lawcheck_stop *stop,
                       int seconds, kv_lawcheck_said *out, kv_err *e);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/laws/lawcheck*.c. Laws are checked in child processes, so that
 * a method that crashes or hangs ends a child alone: kv_lawcheck_hear in the
 * parent starts one and waits, kv_lawcheck_work is what it does, and its answer
 * comes back in memory that both share.
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
  int64_t peak; /* bytes of the cell, as kv_totals counts them */
  kv_bytes end; /* bytes by kind at the last step */
} kv_lawcheck_run;

/* What parent and child share: written by the child, read by the parent when
 * the child has ended or its time is over. */
typedef struct kv_lawcheck_page {
  kv_lawcheck_said said; /* law "": nothing yet */
  kv_fence_post post;    /* which hook the method is in, or was in last */
  kv_lawcheck_run run;   /* of the law "process" */
} kv_lawcheck_page;

/* A synthetic trace. */
typedef struct kv_lawcheck_place {
  kv_small small; /* its name, made:NAME, and shape */
  int exponent;   /* its values are multiplied by 2^exponent */
} kv_lawcheck_place;

/* One child's task. */
typedef struct kv_lawcheck_task {
  const kv_lawcheck *ask; /* the law to check; NULL with make */
  const kv_lawcheck_place
      *make; /* a trace to write to `file` instead; or NULL */
  const char *file;
  bool elsewhere; /* allocate first, so that memory lies at other addresses */
  kv_lawcheck_page *page; /* shared (kv_child_memory), owned by the caller */
} kv_lawcheck_task;

/* Does the task, in the child; self is a kv_lawcheck_task. Leaves its answer in
 * the task's page and ends the process, so that it does not return. */
void kv_lawcheck_work(void *self);

/* The index in the order of kv_lawcheck_law of the law with that name; if there
 * is none, the number of laws. */
int kv_lawcheck_index(const char *law);
/* In the child: checks law i on the case. Of the law "process" it only fills
 * *run; the parent compares the runs of two children. KV_OK: it holds;
 * KV_DIFFERENT: it is broken; KV_REFUSED: the cell cannot run. */
kv_rc kv_lawcheck_holds(int i, const kv_law_case *c, kv_lawcheck_run *run,
                        kv_err *e);

/* Runs the task in a child and waits for its end; it is killed when one call of
 * a hook takes `seconds`, when nothing is called for ten minutes, or when stop
 * (may be NULL) says true. *out: its answer, or what is known of how it ended.
 * KV_RESOURCE: no child could be made, or stopped. */
kv_rc kv_lawcheck_hear(const kv_lawcheck_task *t, kv_lawcheck_stop *stop,
                       int seconds, kv_lawcheck_said *out, kv_err *e);

#endif

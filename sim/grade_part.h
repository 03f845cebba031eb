/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to grade.c and grade_wrap.c: a grading in flight. One thread.
 */
#ifndef KV_SIM_GRADE_PART_H
#define KV_SIM_GRADE_PART_H

#include "sim/grade.h"
#include "sim/ranked.h"

/* A list of theirs, read. */
typedef struct kv_theirs {
  int n; /* entries, in g->list */
  kv_wrong fault;
  int32_t item;
  int64_t work; /* tokens looked at */
} kv_theirs;

struct kv_grading {
  const kv_cell *cell;
  const kv_decisions_file *theirs_file;
  kv_outputs *outputs;
  bool follow_ours, stores, views;
  double tie;
  /* The method itself, and the copy that stands in the plan. */
  const kv_method *real;
  const void *params;
  kv_needs needs;
  kv_method method;
  kv_grading *self; /* what the copy's parameters are */
  kv_selecting look;
  kv_watch watch;
  kv_graded_layer *layer; /* [trace->n_layers] */
  /* Of the hook in hand. */
  kv_ranks ranks;
  int32_t *entry;      /* [n_tokens] by token, -1: not live */
  bool *ours, *theirs; /* [n_tokens] by entry */
  int32_t *list, *all; /* [n_tokens] entries */
  int *kept;           /* [lanes] times that a lane was kept */
  kv_judged *judged;   /* [lanes] */
  kv_err fault;        /* the method cannot be graded */
};

/* grade_wrap.c: puts the copy into the plan. */
void kv_grade_wrap(kv_grading *g, kv_plan *plan);

/* grade.c, called by the copy's hooks. A view was chosen: judges, and
 * follows. */
void kv_grade_view(kv_grading *g, const kv_lane *l, int head, kv_view *out);
/* The hooks are through with a lane; what they did not keep keeps all. */
void kv_grade_lane_end(kv_grading *g, kv_lane *l);
/* All that settle together are. */
void kv_grade_settled(kv_grading *g, kv_lane *const *lane, int lanes);
bool kv_grade_has_list(const kv_grading *g, const kv_lane *l);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to grade.c, grade_open.c and grade_wrap.c: the state of a grading, in
 * which the reference replays a cell and each decision of a foreign kernel
 * (theirs) is judged beside the method's own (ours). One thread. What makes
 * grading impossible is kept in g->fault, the first alone, and ends it after
 * the replay.
 */
#ifndef KV_SIM_GRADE_PART_H
#define KV_SIM_GRADE_PART_H

#include "ref/lane/hooks.h"
#include "sim/grade/grade.h"
#include "sim/grade/ranked.h"

/* One of their lists, after reading. */
typedef struct kv_theirs {
  int n; /* number of entries, which are in g->list */
  kv_wrong fault;
  int32_t item; /* the token at fault, where fault is of one */
  int64_t work; /* tokens looked at: the cost of reading */
} kv_theirs;

struct kv_grading {
  const kv_cell *cell;
  const kv_decisions_file *theirs_file;
  kv_outputs *outputs;
  bool follow_ours;   /* the replay goes on with ours, not with theirs */
  bool stores, views; /* their file has lists of what is kept, attended */
  bool all_wrong;     /* every wrong decision is kept, not the first alone */
  double tie;         /* share of the cut within which two scores are a tie */
  /* The method itself, and the wrapped copy in the plan. */
  const kv_method *real;
  kv_plan own; /* the plan as it was */
  kv_needs needs;
  kv_around around;
  kv_method method;
  kv_plan *wrapped; /* [layers of the model] or NULL: each one's */
  kv_selecting look;
  kv_watch watch;
  int layers;
  kv_graded_layer *layer; /* [layers] */
  /* State of the hook that is running. */
  kv_ranks ranks;
  int32_t *entry;      /* [n_tokens] by token, -1: not live */
  bool *ours, *theirs; /* [n_tokens] by entry */
  int32_t *list, *all; /* [n_tokens] entries */
  int *kept;           /* [lanes] number of keeps */
  kv_judged *judged;   /* [lanes] */
  kv_err fault;        /* the method cannot be graded */
};

/* grade_wrap.c: puts a copy of the method whose hooks grade into the plan,
 * which the replay then runs; call it once, before the replay. */
void kv_grade_wrap(kv_grading *g, kv_plan *plan);

/* grade.c: index in g->layer of the layer with the model's number `layer`,
 * which must be among the recorded ones. */
int kv_grade_layer_index(const kv_grading *g, int layer);

/* grade.c: both are callbacks of g->look, and self is the grading. The first
 * notes what a hook selected by its scores, the second judges a keep: it is
 * given the list of *n entries that stay (flags: the same by entry, or NULL)
 * and returns the list that is to stay instead, of *n entries, valid until the
 * next call. */
void kv_grade_selection(void *self, const kv_selection *s);
const int32_t *kv_grade_keep(void *self, const kv_lane *l, const bool *flags,
                             const int32_t *list, int *n);

/* grade.c, called by the wrapped hooks. The hook has chosen *out for a query
 * head of the lane: judges it, and replaces it by theirs unless
 * g->follow_ours. */
void kv_grade_view(kv_grading *g, const kv_lane *l, int head, kv_view *out);
/* The hooks of a lane have run in this step. If none of them kept anything,
 * that is judged as keeping everything. */
void kv_grade_lane_end(kv_grading *g, kv_lane *l);
/* All lanes that compress together have run: judges what they hold in total,
 * and counts each lane's grade. */
void kv_grade_compressed(kv_grading *g, kv_lane *const *lane, int lanes);
/* True if their file says what the lane keeps at its current step. */
bool kv_grade_has_list(const kv_grading *g, const kv_lane *l);

#endif

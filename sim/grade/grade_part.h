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
  int n;          /* number of entries, which are in g->list */
  kv_wrong fault; /* the first thing wrong with the list itself */
  int32_t item;   /* the token or page at fault, where fault is of one */
  int64_t work;   /* tokens looked at, which bounds the cost of reading */
} kv_theirs;

struct kv_grading {
  const kv_cell *cell;                  /* that is replayed */
  const kv_decisions_file *theirs_file; /* their lists */
  kv_outputs *outputs;                  /* their outputs, or NULL */
  bool follow_ours;   /* the replay goes on with ours, not with theirs */
  bool stores, views; /* their file has lists of what is kept, attended */
  bool all_wrong;     /* every wrong decision is kept, not the first alone */
  double tie;         /* share of the cut within which two scores are a tie */
  const kv_method *real; /* the method itself */
  kv_plan own;           /* the cell's plan as it was */
  kv_needs needs;        /* the method's own */
  kv_around around;      /* calls its hooks with the grading around them */
  kv_method method;      /* the wrapped table, which the cell's plan has */
  kv_plan *wrapped;      /* [layers of the model] the same of each layer's plan,
                            where layers have plans of their own */
  kv_selecting look;     /* is told of selections and keeps while hooks run */
  kv_watch watch;        /* of the replay: compares outputs */
  int layers;            /* recorded layers of the trace */
  kv_graded_layer *layer; /* [layers] results */
  /* State of the hook that is running. */
  kv_ranks ranks;      /* its selections */
  int32_t *entry;      /* [n_tokens] by token its entry; -1: not live */
  bool *ours, *theirs; /* [n_tokens] by entry: it is in the list */
  int32_t *list;       /* [n_tokens] their entries, in their order */
  int32_t *all;        /* [n_tokens] scratch: all entries */
  int *kept;           /* [lanes] keeps in this step, and one more when the lane
                          has ended */
  kv_judged *judged;   /* [lanes] */
  kv_err fault;        /* why the method cannot be graded; rc 0: it can */
};

/* grade_wrap.c: puts a copy of the method whose hooks grade into the plan,
 * which the replay then runs; call it once, before the replay. */
void kv_grade_wrap(kv_grading *g, kv_plan *plan);

/* grade.c: index in g->layer of the layer with the model's number `layer`,
 * which must be among the recorded ones. */
int kv_grade_layer_index(const kv_grading *g, int layer);

/* grade.c: both are callbacks of g->look, and self is the grading. The first
 * notes what a hook selected by its scores. The second judges the first keep of
 * lane l in a step, if their file has lists of what is kept: it is given the
 * list of *n entries that stay (flags: the same by entry, or NULL) and returns
 * the list that is to stay instead, of *n entries, valid until the next
 * call. */
void kv_grade_selection(void *self, const kv_selection *s);
const int32_t *kv_grade_keep(void *self, const kv_lane *l, const bool *flags,
                             const int32_t *list, int *n);

/* grade.c, called by the wrapped hooks. The hook has chosen *out for a query
 * head of the lane: judges it, and replaces it by theirs unless
 * g->follow_ours. */
void kv_grade_view(kv_grading *g, const kv_lane *l, int head, kv_view *out);
/* Call it when the hooks of a lane have run in this step: if none of them kept
 * anything, that is judged as keeping everything. */
void kv_grade_lane_end(kv_grading *g, kv_lane *l);
/* Call it when all lanes that compress together have run: where they hold
 * another number of entries in total than ours, ties of lanes with another
 * number become wrong; then counts each lane's grade. Sets g->fault where a
 * lane was changed by more than one keep. */
void kv_grade_compressed(kv_grading *g, kv_lane *const *lane, int lanes);
/* True if their file says what the lane keeps at its current step. */
bool kv_grade_has_list(const kv_grading *g, const kv_lane *l);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to grade.c, grade_open.c and grade_wrap.c: the state of a grading.
 * One thread.
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
  int32_t item;
  int64_t work; /* tokens looked at */
} kv_theirs;

struct kv_grading {
  const kv_cell *cell;
  const kv_decisions_file *theirs_file;
  kv_outputs *outputs;
  bool follow_ours, stores, views, all_wrong;
  double tie;
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

/* grade_wrap.c: puts the copy into the plan. */
void kv_grade_wrap(kv_grading *g, kv_plan *plan);

/* grade.c: index of a layer, by the model's number. */
int kv_grade_layer_index(const kv_grading *g, int layer);

/* grade.c: called for each selection, and for each keep, in a hook (g->look).
 */
void kv_grade_selection(void *self, const kv_selection *s);
const int32_t *kv_grade_keep(void *self, const kv_lane *l, const bool *flags,
                             const int32_t *list, int *n);

/* grade.c, called by the wrapped hooks. A view was chosen: judges it, and
 * replaces it by theirs. */
void kv_grade_view(kv_grading *g, const kv_lane *l, int head, kv_view *out);
/* The hooks of a lane have run; if they did not keep anything, everything is
 * kept. */
void kv_grade_lane_end(kv_grading *g, kv_lane *l);
/* All lanes that compress together have run. */
void kv_grade_compressed(kv_grading *g, kv_lane *const *lane, int lanes);
bool kv_grade_has_list(const kv_grading *g, const kv_lane *l);

#endif

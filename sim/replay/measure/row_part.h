/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/replay/measure/fidelity_*.c: one attended row of one lane (a
 * query token) while its measures are computed against exact attention. Nothing
 * here allocates or fails; the caller owns all pointers.
 */
#ifndef KV_SIM_ROW_PART_H
#define KV_SIM_ROW_PART_H

#include "sim/replay/measure/fidelity_part.h"

/* One row, for all query heads of the lane. */
typedef struct kv_row {
  kv_fidelity *f;     /* receives the values */
  int layer, step, n; /* index among the recorded layers; the row's index in the
                         measure's values; it sees tokens 0..n-1 */
  int visible;        /* exact attention sees the last `visible` of these */
  const kv_seen *seen; /* what the method attended */
  kv_truth *truth;     /* exact attention of the same row */
  const kv_lane *lane; /* what is stored */
  int head0;           /* index in the truth of the lane's first query head */
  bool plain;          /* entries are tokens in ascending order */
  int listed;          /* tokens in truth->compare.token if they list a view of
                          the whole lane; else 0 */
  int top[3], most[3]; /* for recall_1, _16 and _budget: index in truth->top,
                          and the number of tokens that count; 0: none */
} kv_row;

/* The row of the lane's query head h, from 0, in x: an array of the truth with
 * truth->stride floats for each query head. */
static inline const float *kv_row_of_head(const kv_row *r, const float *x,
                                          int h) {
  return x + (size_t)(r->head0 + h) * r->truth->stride;
}

/* Stores the value of measure m for the lane's query head h at this step. Does
 * nothing if the cell lacks the measure (recall_budget). Not for needles. */
static inline void kv_row_put(const kv_row *r, kv_measure m, int h, double x) {
  if (r->f->width[m])
    kv_fidelity_head(r->f, m, r->layer, r->lane->first_head + h)[r->step] = x;
}

/* --- fidelity_prompt.c ---------------------------------------------------- */

/* Makes the row for what was attended; the truth must be weighed
 * (kv_truth_weigh). first: the token whose row is value 0 of the measure. */
kv_row kv_row_of(kv_fidelity *f, int layer, const kv_seen *seen,
                 kv_truth *truth, int first);
/* Errors of the output of the lane's query head h. *error: in the 2-norm,
 * relative; NaN if exact attention is 0 and this is not. *most: the largest
 * error of an element. */
void kv_row_output(const kv_row *r, int h, double *error, double *most);

/* --- fidelity_row.c --------------------------------------------------------
 */

/* Lists the tokens of a view, ascending, in truth->compare.token, and the index
 * of each in the view in truth->compare.place; returns how many. Heads that see
 * the whole lane share one list, which is made once. */
int kv_row_list(kv_row *r, const kv_view *v);

/* fidelity_stored.c: stores the measures of what the lane holds, in view or
 * not, for all its query heads. Exception: mass_stored of a head that views the
 * whole lane is stored when the head is compared, unless the lane holds every
 * token unchanged. Call it once a row, before heads are compared: it uses their
 * scratch. */
void kv_row_stored(kv_row *r);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/replay/measure/fidelity_*.c: one row of one lane while it is
 * measured against exact attention. Nothing here allocates or fails.
 */
#ifndef KV_SIM_ROW_PART_H
#define KV_SIM_ROW_PART_H

#include "sim/replay/measure/fidelity_part.h"

/* What one call works on. */
typedef struct kv_row {
  kv_fidelity *f;     /* gets the values */
  int layer, step, n; /* index; decode step, 0-based; tokens 0..n-1 */
  int visible; /* of them those that exact attention sees: the last ones */
  const kv_seen *seen; /* what the method attended */
  kv_truth *truth;     /* exact attention of the same row */
  const kv_lane *lane; /* what is stored */
  int head0;           /* of the lane's first query head in the truth */
  bool plain;          /* entries are tokens in ascending order */
  int listed;          /* tokens listed of a view of the whole lane; 0: what is
                          listed is of another view, or nothing */
  int top[3], most[3]; /* of recall_1, _16 and _budget: index in truth->top, and
                          the tokens that count; most 0: not measured */
} kv_row;

/* The row of the lane's query head h, 0-based, in x, an array of the truth with
 * a row of truth->stride floats for each query head. */
static inline const float *kv_row_of_head(const kv_row *r, const float *x,
                                          int h) {
  return x + (size_t)(r->head0 + h) * r->truth->stride;
}

/* Stores the value of measure m, none of needles, for the lane's query head h
 * at this step; does nothing for one that the cell has not (recall_budget). */
static inline void kv_row_put(const kv_row *r, kv_measure m, int h, double x) {
  if (r->f->width[m])
    kv_fidelity_head(r->f, m, r->layer, r->lane->first_head + h)[r->step] = x;
}

/* --- fidelity_prompt.c ---------------------------------------------------- */

/* The row that was attended, with its truth weighed. first: the token whose row
 * is at place 0 of the values. */
kv_row kv_row_of(kv_fidelity *f, int layer, const kv_seen *seen,
                 kv_truth *truth, int first);
/* How far the output of the lane's query head h is off: relative, NaN where
 * exact attention is 0 and this is not, and at most. */
void kv_row_output(const kv_row *r, int h, double *error, double *most);

/* --- fidelity_row.c --------------------------------------------------------
 */

/* Lists the tokens of a view in truth->compare.token, ascending, and the place
 * of each in the view in truth->compare.place; returns how many. Heads that see
 * the whole lane share one list, which is made once. */
int kv_row_list(kv_row *r, const kv_view *v);

/* fidelity_stored.c: stores the measures of what the lane holds, in the view or
 * not, for all its query heads; but mass_stored of a head that views the whole
 * lane is left to who compares the head, unless the lane has every token as it
 * came. Once a row, before heads are compared: it uses their scratch. */
void kv_row_stored(kv_row *r);

#endif

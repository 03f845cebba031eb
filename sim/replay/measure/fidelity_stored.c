/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures of all stored entries, in view or not: their LSE and exact mass.
 * Contract in sim/replay/measure/fidelity.h.
 */
#include "sim/replay/measure/row_part.h"

#include <string.h>

/* Does the lane still store every token unchanged, so the full set? */
static bool complete(const kv_row *r) {
  const kv_lane *l = r->lane;
  return r->plain && l->n == r->visible && l->rewritten == 0 &&
         !l->needs->reindex;
}

/* mass_stored for heads that see only part of what is stored. For the others it
 * equals the view's mass. */
static void sum_stored(kv_row *r) {
  const kv_lane *l = r->lane;
  const kv_compare *c = &r->truth->compare;
  kv_run all = {0, l->n};
  int m = kv_row_list(r, &(kv_view){1, l->n, &all});
  for (int h = 0; h < r->seen->queries; h++) {
    if (kv_view_whole(&r->seen->view[h], l)) continue;
    const float *p = kv_row_of_head(r, r->truth->p, h);
    double mass = 0;
    for (int i = 0; i < m; i++)
      if (l->weight[c->place[i]] == 1) mass += (double)p[c->token[i]];
    kv_row_put(r, KV_MASS_STORED, h, mass);
  }
}

/* LSE over all live entries, by the chunks of arithmetic 3. */
static const float *stored_lse(const kv_row *r) {
  const kv_lane *l = r->lane;
  kv_truth *x = r->truth;
  kv_compare *c = &x->compare;
  int m = r->seen->queries, d = x->shape->d;
  kv_run all = {0, l->n};
  kv_view view = {1, l->n, &all};
  kv_lane_values values = {.lane = l, .view = &view};
  memcpy(c->q, x->q + r->head0 * d, (size_t)(m * d) * sizeof *c->q);
  for (int h = 0; h < m; h++)
    kv_lane_query(l, l->n - 1, &x->attend, c->q + h * d);
  kv_lane_logits(x->kernels, l, m, c->q, (size_t)d, 0, l->n, NULL, 0, c->s,
                 x->stride, &x->attend);
  x->attend.sink = x->sinks ? x->sinks + r->head0 : NULL;
  kv_attend_rows(x->kernels, m, l->n, x->shape->d_v, c->s, x->stride,
                 kv_lane_value_rows, &values, &x->attend, c->out, c->lse);
  x->attend.sink = NULL;
  return c->lse;
}

static bool all_whole(const kv_row *r) {
  for (int h = 0; h < r->seen->queries; h++)
    if (!kv_view_whole(&r->seen->view[h], r->lane)) return false;
  return true;
}

void kv_row_stored(kv_row *r) {
  const double *every = r->truth->mass + r->head0;
  const float *lse = r->truth->lse + r->head0;
  bool same = complete(r), whole = all_whole(r);
  const float *stored = whole ? r->seen->lse : same ? lse : stored_lse(r);
  for (int h = 0; h < r->seen->queries; h++) {
    kv_row_put(r, KV_LSE_ERROR, h, (double)stored[h] - (double)lse[h]);
    if (same) kv_row_put(r, KV_MASS_STORED, h, every[h]);
  }
  if (!same && !whole) sum_stored(r);
}

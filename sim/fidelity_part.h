/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of sim/fidelity share: where values lie and which decode
 * row looks for which needle. For nobody else.
 */
#ifndef KV_SIM_FIDELITY_PART_H
#define KV_SIM_FIDELITY_PART_H

#include "sim/fidelity.h"

/* One decode row that looks for something. */
typedef struct kv_search {
  int step;   /* decode step, 0-based */
  int token;  /* what it looks for */
  int answer; /* which needle it belongs to */
  bool last;  /* of its answer */
} kv_search;

struct kv_fidelity {
  const kv_shape *shape;
  int layers, *layer; /* the model's numbers */
  int budget;
  int steps; /* decode steps */
  int searches;
  kv_search *search;          /* [searches], steps ascending */
  int32_t *search_at;         /* [steps] index in search, or -1 */
  int width[KV_MEASURES];     /* values a head: steps, searches or 0 */
  double *value[KV_MEASURES]; /* [layers][n_heads][width] */
};

/* The values of one head of one layer. */
static inline double *kv_fidelity_head(const kv_fidelity *f, kv_measure m,
                                       int layer, int h) {
  size_t at = (size_t)layer * (size_t)f->shape->n_heads + (size_t)h;
  return f->value[m] + at * (size_t)f->width[m];
}

/* Room for one search a decode row at most. */
kv_rc kv_search_plan(kv_fidelity *f, int n, const kv_needle *needle, kv_err *e);

/* The values of a row that looks for a needle: head h of the layer, whose
 * view gave places share[] (p^ of whole entries). */
void kv_search_row(kv_fidelity *f, int layer, int h, int at,
                   const kv_lane *lane, const kv_view *view,
                   const float *share);

static inline bool kv_view_whole(const kv_view *v, const kv_lane *l) {
  return v->entries == l->n;
}

#endif

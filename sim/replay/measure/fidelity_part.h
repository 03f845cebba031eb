/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/replay/measure: where the values of fidelity are kept until
 * they are aggregated, and which decode row looks for which needle (the tokens
 * that an answer repeats). Threads work on different layers or heads and share
 * nothing.
 */
#ifndef KV_SIM_FIDELITY_PART_H
#define KV_SIM_FIDELITY_PART_H

#include "sim/replay/measure/fidelity.h"
#include "sim/replay/measure/spill.h"

/* A decode row that should look for a needle. */
typedef struct kv_search {
  int step;   /* decode step, 0-based */
  int token;  /* the token it should look for */
  int answer; /* which needle it belongs to */
  bool last;  /* the last row of its answer */
} kv_search;

struct kv_fidelity {
  const kv_shape *shape;     /* the caller's */
  int layers, *layer;        /* recorded ones; [layers] the model's numbers */
  int *budget;               /* [layers] entries: the k of recall_budget; first
                                below 1: no values */
  int steps;                 /* decode steps */
  int searches;              /* rows that look for a needle */
  kv_search *search;         /* [searches], steps ascending */
  int32_t *search_at;        /* [steps] index in search, or -1 */
  int rows;                  /* rows of the prompt after its first chunk */
  int width[KV_MEASURES];    /* values of a head: steps, searches, rows or 0 */
  size_t start[KV_MEASURES]; /* of a measure's values in a layer's slice */
  size_t values;             /* values of a layer, all measures */
  kv_spill spill;            /* slices of layers: [measure][n_heads][width] */
};

static inline kv_measured kv_measured_of(kv_measure m) {
  return kv_measure_table[m].of;
}

/* The f->width[m] values of a measure for query head h of the layer of that
 * index, in the spill; maps them into memory. */
static inline double *kv_fidelity_head(const kv_fidelity *f, kv_measure m,
                                       int layer, int h) {
  double *slice = kv_spill_slice(&f->spill, layer);
  return slice + f->start[m] + (size_t)h * (size_t)f->width[m];
}

/* Plans which decode row looks for which token, for n needles. Allocates and
 * fills f->search and f->search_at, and sets f->searches. KV_RESOURCE: memory.
 */
kv_rc kv_search_plan(kv_fidelity *f, int n, const kv_needle *needle, kv_err *e);

/* Fills in the needle measures of search `at` (an index in f->search) for query
 * head h of the layer of index `layer`. exact[]: the tokens' exact
 * probabilities; share[i]: p^ of the whole entry at index i of the view. */
void kv_search_row(kv_fidelity *f, int layer, int h, int at,
                   const kv_lane *lane, const kv_view *view, const float *exact,
                   const float *share);

/* Does the view hold every entry of the lane? */
static inline bool kv_view_whole(const kv_view *v, const kv_lane *l) {
  return v->entries == l->n;
}

#endif

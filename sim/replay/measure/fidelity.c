/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores the values of fidelity; sim/replay/measure/fidelity_total.c aggregates
 * them.
 */
#include "sim/replay/measure/fidelity_part.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int width_of(const kv_fidelity *f, kv_measure m) {
  if (kv_measured_of(m) == KV_OF_PROMPT) return f->rows;
  if (kv_measured_of(m) == KV_OF_SEARCHES) return f->searches;
  return m == KV_RECALL_B && f->budget[0] < 1 ? 0 : f->steps;
}

static kv_rc take(kv_fidelity *f, int n_needles, const kv_needle *needle,
                  const int *layer, const int *budget, kv_err *e) {
  size_t bytes = (size_t)f->layers * sizeof *f->layer;
  f->layer = kv_zalloc(1, bytes);
  f->budget = kv_zalloc(1, bytes);
  if (!f->layer || !f->budget) return kv_no_memory(e, "fidelity", 2 * bytes);
  memcpy(f->layer, layer, bytes);
  memcpy(f->budget, budget, bytes);
  kv_rc rc = kv_search_plan(f, n_needles, needle, e);
  for (int m = 0; m < KV_MEASURES && !rc; m++) {
    f->width[m] = width_of(f, (kv_measure)m);
    f->start[m] = f->values;
    f->values += (size_t)f->shape->n_heads * (size_t)f->width[m];
  }
  if (rc) return rc;
  return kv_spill_open(f->layers, f->values * sizeof(double), &f->spill, e);
}

kv_rc kv_fidelity_open(const kv_shape *shape, int layers, const int *layer,
                       const int *budget, int n_needles,
                       const kv_needle *needle, kv_fidelity **out, kv_err *e) {
  kv_fidelity *f = kv_zalloc(1, sizeof *f);
  *out = NULL;
  if (!f) return kv_no_memory(e, "fidelity", sizeof *f);
  f->shape = shape;
  f->layers = layers;
  f->steps = shape->n_tokens - shape->prompt_len;
  if (shape->chunk && shape->chunk < shape->prompt_len)
    f->rows = shape->prompt_len - shape->chunk;
  kv_rc rc = take(f, n_needles, needle, layer, budget, e);
  if (rc)
    kv_fidelity_close(f);
  else
    *out = f;
  return rc;
}

void kv_fidelity_close(kv_fidelity *f) {
  if (!f) return;
  kv_spill_close(&f->spill);
  free(f->layer);
  free(f->budget);
  free(f->search);
  free(f->search_at);
  free(f);
}

void kv_fidelity_layer_begin(kv_fidelity *f, int layer) {
  double *v = kv_spill_slice(&f->spill, layer);
  for (size_t i = 0; i < f->values; i++) v[i] = (double)NAN;
}

void kv_fidelity_layer_end(const kv_fidelity *f, int layer) {
  kv_spill_put_away(&f->spill, layer);
}

void kv_fidelity_layer_copy(kv_fidelity *f, int layer, kv_copier *x) {
  kv_copy(x, kv_spill_slice(&f->spill, layer), f->values * sizeof(double));
  if (x->out || x->from) kv_spill_put_away(&f->spill, layer);
}

double kv_fidelity_value(const kv_fidelity *f, kv_measure m, int layer, int h,
                         int t) {
  if (!f->width[m]) return (double)NAN;
  bool prompt = kv_measured_of(m) == KV_OF_PROMPT;
  int at = t - (prompt ? f->shape->chunk : f->shape->prompt_len);
  assert(at >= 0 && at < (prompt ? f->rows : f->steps) &&
         "only rows that attend have values");
  if (kv_measured_of(m) == KV_OF_SEARCHES) at = f->search_at[at];
  if (at < 0) return (double)NAN;
  return kv_fidelity_head(f, m, layer, h)[at];
}

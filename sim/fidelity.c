/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the values of fidelity lie, and their aggregation: per layer, per KV
 * head, per bin of steps and over the run.
 */
#include "sim/fidelity_part.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BINS = 16 };

/* --- memory ------------------------------------------------------------- */

static size_t count_of(const kv_fidelity *f, kv_measure m) {
  return (size_t)f->layers * (size_t)f->shape->n_heads * (size_t)f->width[m];
}

static int width_of(const kv_fidelity *f, kv_measure m) {
  if (m >= KV_NEEDLE_STORED) return f->searches;
  return m == KV_RECALL_B && f->budget < 1 ? 0 : f->steps;
}

static kv_rc take(kv_fidelity *f, int n_needles, const kv_needle *needle,
                  const int *layer, kv_err *e) {
  f->layer = kv_zalloc((size_t)f->layers, sizeof *f->layer);
  if (!f->layer) return kv_no_memory(e, "fidelity", (size_t)f->layers * 4);
  memcpy(f->layer, layer, (size_t)f->layers * sizeof *f->layer);
  kv_rc rc = kv_search_plan(f, n_needles, needle, e);
  for (int m = 0; m < KV_MEASURES && !rc; m++) {
    f->width[m] = width_of(f, (kv_measure)m);
    size_t n = count_of(f, (kv_measure)m);
    f->value[m] = kv_zalloc(n + 1, sizeof(double));
    if (!f->value[m]) rc = kv_no_memory(e, "fidelity", n * sizeof(double));
  }
  return rc;
}

kv_rc kv_fidelity_open(const kv_shape *shape, int layers, const int *layer,
                       int budget, int n_needles, const kv_needle *needle,
                       kv_fidelity **out, kv_err *e) {
  kv_fidelity *f = kv_zalloc(1, sizeof *f);
  *out = NULL;
  if (!f) return kv_no_memory(e, "fidelity", sizeof *f);
  f->shape = shape;
  f->layers = layers;
  f->budget = budget;
  f->steps = shape->n_tokens - shape->prompt_len;
  kv_rc rc = take(f, n_needles, needle, layer, e);
  if (rc) {
    kv_fidelity_close(f);
    return rc;
  }
  kv_fidelity_begin(f);
  *out = f;
  return KV_OK;
}

void kv_fidelity_close(kv_fidelity *f) {
  if (!f) return;
  for (int m = 0; m < KV_MEASURES; m++) free(f->value[m]);
  free(f->layer);
  free(f->search);
  free(f->search_at);
  free(f);
}

void kv_fidelity_begin(kv_fidelity *f) {
  for (int m = 0; m < KV_MEASURES; m++) {
    size_t n = count_of(f, (kv_measure)m);
    for (size_t i = 0; i < n; i++) f->value[m][i] = (double)NAN;
  }
}

double kv_fidelity_value(const kv_fidelity *f, kv_measure m, int layer, int h,
                         int t) {
  int at = t - f->shape->prompt_len;
  assert(at >= 0 && at < f->steps && "only decode rows have values");
  if (m >= KV_NEEDLE_STORED) at = f->search_at[at];
  if (at < 0 || !f->width[m]) return (double)NAN;
  return kv_fidelity_head(f, m, layer, h)[at];
}

/* --- aggregation -------------------------------------------------------- */

static int bins_of(const kv_fidelity *f) {
  return f->steps < BINS ? f->steps : BINS;
}

/* First decode step of bin b; of bin `bins`: past the last. */
static int bin_start(const kv_fidelity *f, int b) {
  return (int)((int64_t)b * f->steps / bins_of(f));
}

/* Copies values of steps [low, high) of a head; returns how many. */
static int64_t copy_steps(const kv_fidelity *f, kv_measure m, int layer, int h,
                          int low, int high, double *out) {
  const double *v = kv_fidelity_head(f, m, layer, h);
  int64_t n = 0;
  for (int i = 0; i < f->width[m]; i++) {
    int step = m >= KV_NEEDLE_STORED ? f->search[i].step : i;
    if (step >= low && step < high) out[n++] = v[i];
  }
  return n;
}

/* Layers ascending, heads ascending, steps ascending. */
static kv_stat stat_over(const kv_fidelity *f, kv_measure m, const int at[2],
                         const int head[2], const int step[2], double *room) {
  int64_t n = 0;
  for (int l = at[0]; l < at[1]; l++)
    for (int h = head[0]; h < head[1]; h++)
      n += copy_steps(f, m, l, h, step[0], step[1], room + n);
  return kv_stat_of(room, n);
}

/* One part: layer index and KV head, -1 = all; steps [low, high). */
static void fill_part(const kv_fidelity *f, int layer, int g, int bin,
                      double *room, kv_part *p) {
  int group = kv_group(f->shape);
  int at[2] = {layer < 0 ? 0 : layer, layer < 0 ? f->layers : layer + 1};
  int head[2] = {g < 0 ? 0 : g * group,
                 g < 0 ? f->shape->n_heads : (g + 1) * group};
  int step[2] = {bin < 0 ? 0 : bin_start(f, bin),
                 bin < 0 ? f->steps : bin_start(f, bin + 1)};
  *p = (kv_part){.layer = layer < 0 ? -1 : f->layer[layer],
                 .head = g,
                 .bin = bin,
                 .first_step = f->shape->prompt_len + 1 + step[0],
                 .last_step = f->shape->prompt_len + step[1],
                 .kept = (double)NAN};
  for (int m = 0; m < KV_MEASURES; m++)
    p->stat[m] = stat_over(f, (kv_measure)m, at, head, step, room);
}

static double *take_room(const kv_fidelity *f) {
  size_t n = (size_t)f->layers * (size_t)f->shape->n_heads;
  return kv_zalloc(n * (size_t)f->steps + 1, sizeof(double));
}

kv_rc kv_fidelity_finish(kv_fidelity *f, kv_result *r, kv_err *e) {
  int heads = f->shape->n_kv_heads, bins = bins_of(f), n = 0;
  int parts = f->layers + f->layers * heads + bins;
  double *room = take_room(f);
  kv_part all;
  r->part = kv_zalloc((size_t)parts, sizeof *r->part);
  if (!room || !r->part) {
    free(room);
    return kv_no_memory(e, "the parts of a row",
                        (size_t)parts * sizeof *r->part);
  }
  for (int l = 0; l < f->layers; l++)
    fill_part(f, l, -1, -1, room, &r->part[n++]);
  for (int l = 0; l < f->layers; l++)
    for (int g = 0; g < heads; g++) fill_part(f, l, g, -1, room, &r->part[n++]);
  for (int b = 0; b < bins; b++) fill_part(f, -1, -1, b, room, &r->part[n++]);
  fill_part(f, -1, -1, -1, room, &all);
  memcpy(r->stat, all.stat, sizeof r->stat);
  r->n_parts = parts;
  free(room);
  return KV_OK;
}

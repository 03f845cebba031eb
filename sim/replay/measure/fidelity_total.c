/* SPDX-License-Identifier: Apache-2.0
 *
 * The aggregation of fidelity: per layer, per KV head, per bin of steps and
 * over the run; and the mean of each step. Values are taken layers ascending,
 * heads ascending, steps ascending, so that no sum depends on threads or
 * timing.
 *
 * Up to as many values as one layer has, or ROOM, are aggregated in memory;
 * more are read in several passes (kv_tally), with the same bits.
 */
#include "sim/replay/measure/fidelity_part.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BINS = 16, ROOM = 1 << 20 };

/* Scratch memory of the aggregation. */
typedef struct room {
  size_t values;
  double *value;   /* [values] */
  kv_tally *tally; /* NULL: every part fits in value */
  double *sum;     /* [steps] */
  int64_t *count;  /* [steps] */
} room;

/* Which values: layers at[0] .. at[1] - 1, and so on. */
typedef struct range {
  kv_measure measure;
  int at[2], head[2], step[2];
} range;

static size_t layer_values(const kv_fidelity *f) {
  int widest = f->steps > f->rows ? f->steps : f->rows;
  return (size_t)f->shape->n_heads * (size_t)widest;
}

static void release(room *r) {
  free(r->value);
  free(r->tally);
  free(r->sum);
  free(r->count);
}

static kv_rc take(const kv_fidelity *f, room *r, kv_err *e) {
  size_t all = layer_values(f) * (size_t)f->layers, steps = (size_t)f->steps;
  size_t most = layer_values(f) > ROOM ? layer_values(f) : ROOM;
  *r = (room){.values = all < most ? all : most};
  r->value = kv_zalloc(r->values + 1, sizeof *r->value);
  r->sum = kv_zalloc(steps + 1, sizeof *r->sum);
  r->count = kv_zalloc(steps + 1, sizeof *r->count);
  if (all > most) r->tally = kv_zalloc(1, sizeof *r->tally);
  if (r->value && r->sum && r->count && (r->tally || all <= most)) return KV_OK;
  release(r);
  return kv_no_memory(e, "the parts of a row", r->values * sizeof *r->value);
}

static int bins_of(const kv_fidelity *f) {
  return f->steps < BINS ? f->steps : BINS;
}

/* First decode step of bin b; bin `bins` would start after the last step. */
static int bin_start(const kv_fidelity *f, int b) {
  return (int)((int64_t)b * f->steps / bins_of(f));
}

/* Index of a head's first value at step r->step[end] or later. Steps that look
 * for no needle have no needle value; prompt values belong to all steps only.
 */
static int place_of(const kv_fidelity *f, const range *r, int end) {
  int i = 0, step = r->step[end];
  kv_measure m = r->measure;
  bool all = r->step[0] == 0 && r->step[1] == f->steps;
  if (kv_measured_of(m) == KV_OF_PROMPT) return end && all ? f->width[m] : 0;
  if (kv_measured_of(m) == KV_OF_STEPS)
    return step < f->width[m] ? step : f->width[m];
  while (i < f->searches && f->search[i].step < step) i++;
  return i;
}

static size_t count_of(const kv_fidelity *f, const range *r) {
  int n = place_of(f, r, 1) - place_of(f, r, 0);
  return (size_t)n * (size_t)(r->at[1] - r->at[0]) *
         (size_t)(r->head[1] - r->head[0]);
}

static kv_stat stat_in_memory(const kv_fidelity *f, const range *r,
                              double *value) {
  int low = place_of(f, r, 0);
  int n = place_of(f, r, 1) - low;
  int64_t all = 0;
  for (int l = r->at[0]; l < r->at[1]; l++) {
    for (int h = r->head[0]; h < r->head[1]; h++, all += n)
      memcpy(value + all, kv_fidelity_head(f, r->measure, l, h) + low,
             (size_t)n * sizeof *value);
    kv_spill_put_away(&f->spill, l);
  }
  return kv_stat_of(value, all);
}

static kv_stat stat_in_passes(const kv_fidelity *f, const range *r,
                              kv_tally *t) {
  int low = place_of(f, r, 0);
  int high = place_of(f, r, 1);
  kv_tally_begin(t);
  while (kv_tally_pass(t))
    for (int l = r->at[0]; l < r->at[1]; l++) {
      for (int h = r->head[0]; h < r->head[1]; h++) {
        const double *v = kv_fidelity_head(f, r->measure, l, h);
        for (int i = low; i < high; i++) kv_tally_add(t, v[i]);
      }
      kv_spill_put_away(&f->spill, l);
    }
  return t->stat;
}

/* Sums lse_error over the steps of each head, one chain, then over layers and
 * heads, one chain, and divides once. */
static double drift_of(const kv_fidelity *f, const range *r) {
  int64_t heads = (r->at[1] - r->at[0]) * (int64_t)(r->head[1] - r->head[0]);
  double all = 0;
  for (int l = r->at[0]; l < r->at[1]; l++) {
    for (int h = r->head[0]; h < r->head[1]; h++) {
      const double *v = kv_fidelity_head(f, KV_LSE_ERROR, l, h);
      double sum = 0;
      for (int i = r->step[0]; i < r->step[1]; i++)
        if (!isnan(v[i])) sum += v[i];
      all += sum;
    }
    kv_spill_put_away(&f->spill, l);
  }
  return all / (double)heads;
}

/* One part. layer index and KV head: -1 = all; bin: -1 = all steps. */
static void fill_part(const kv_fidelity *f, int layer, int g, int bin,
                      const room *own, kv_part *p) {
  int group = kv_group(f->shape), low = g < 0 ? 0 : g * group;
  range r = {.at = {layer < 0 ? 0 : layer, layer < 0 ? f->layers : layer + 1},
             .head = {low, g < 0 ? f->shape->n_heads : low + group},
             .step = {bin < 0 ? 0 : bin_start(f, bin),
                      bin < 0 ? f->steps : bin_start(f, bin + 1)}};
  *p = (kv_part){.layer = layer < 0 ? -1 : f->layer[layer],
                 .head = g,
                 .bin = bin,
                 .first_step = f->shape->prompt_len + 1 + r.step[0],
                 .last_step = f->shape->prompt_len + r.step[1],
                 .kept = (double)NAN,
                 .drift = drift_of(f, &r)};
  for (int m = 0; m < KV_MEASURES; m++) {
    r.measure = (kv_measure)m;
    if (bin >= 0 && kv_measured_of(r.measure) == KV_OF_PROMPT) continue;
    p->stat[m] = count_of(f, &r) > own->values
                     ? stat_in_passes(f, &r, own->tally)
                     : stat_in_memory(f, &r, own->value);
  }
}

static void add_head(const kv_fidelity *f, kv_measure m, int layer, int h,
                     const room *r) {
  const double *v = kv_fidelity_head(f, m, layer, h);
  for (int i = 0; i < f->width[m]; i++) {
    int step = kv_measured_of(m) == KV_OF_SEARCHES ? f->search[i].step : i;
    if (isnan(v[i])) continue;
    r->sum[step] += v[i];
    r->count[step]++;
  }
}

/* Each mean is one chain over layers and heads in binary64, rounded once. */
static void fill_means(const kv_fidelity *f, kv_measure m, const room *r,
                       float *mean) {
  memset(r->sum, 0, (size_t)f->steps * sizeof *r->sum);
  memset(r->count, 0, (size_t)f->steps * sizeof *r->count);
  bool prompt = kv_measured_of(m) == KV_OF_PROMPT; /* not per step */
  for (int l = 0; l < f->layers && !prompt; l++) {
    for (int h = 0; h < f->shape->n_heads; h++) add_head(f, m, l, h, r);
    kv_spill_put_away(&f->spill, l);
  }
  for (int i = 0; i < f->steps; i++)
    mean[i] =
        r->count[i] ? (float)(r->sum[i] / (double)r->count[i]) : (float)NAN;
}

static kv_rc take_row(const kv_fidelity *f, kv_result *r, kv_err *e) {
  size_t parts = (size_t)f->layers * (size_t)(1 + f->shape->n_kv_heads) +
                 (size_t)bins_of(f);
  size_t means = (size_t)KV_MEASURES * (size_t)f->steps;
  r->part = kv_zalloc(parts, sizeof *r->part);
  r->step_mean = kv_zalloc(means + 1, sizeof *r->step_mean);
  if (r->part && r->step_mean) return KV_OK;
  return kv_no_memory(e, "the parts of a row", parts * sizeof *r->part);
}

kv_rc kv_fidelity_finish(kv_fidelity *f, kv_result *r, kv_err *e) {
  int heads = f->shape->n_kv_heads, n = 0;
  room own;
  kv_part all;
  kv_rc rc = take_row(f, r, e);
  if (!rc) rc = take(f, &own, e);
  if (rc) return rc;
  for (int l = 0; l < f->layers; l++)
    fill_part(f, l, -1, -1, &own, &r->part[n++]);
  for (int l = 0; l < f->layers; l++)
    for (int g = 0; g < heads; g++) fill_part(f, l, g, -1, &own, &r->part[n++]);
  for (int b = 0; b < bins_of(f); b++)
    fill_part(f, -1, -1, b, &own, &r->part[n++]);
  fill_part(f, -1, -1, -1, &own, &all);
  memcpy(r->stat, all.stat, sizeof r->stat);
  r->drift = all.drift;
  r->n_parts = n;
  for (int m = 0; m < KV_MEASURES; m++)
    fill_means(f, (kv_measure)m, &own, r->step_mean + m * f->steps);
  release(&own);
  return KV_OK;
}

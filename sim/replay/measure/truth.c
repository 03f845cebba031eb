/* SPDX-License-Identifier: Apache-2.0
 *
 * The exact row: logits and output from a tile, probabilities without chunks,
 * and numbers that the measures derive from them.
 */
#include "sim/replay/measure/truth.h"
#include "ref/ground/arith.h"
#include "sim/replay/measure/chain.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const float tiny = 0x1p-126f; /* p below it counts as this value */

static int ascending(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

static bool take_top(kv_truth *x, int n_top, const int *top) {
  x->top = kv_zalloc((size_t)n_top + 2, sizeof *x->top);
  if (!x->top) return false;
  x->top[0] = 1;
  x->top[1] = 16;
  for (int i = 0; i < n_top; i++) x->top[i + 2] = top[i];
  qsort(x->top, (size_t)n_top + 2, sizeof *x->top, ascending);
  for (int i = 0; i < n_top + 2; i++)
    if (i == 0 || x->top[i] != x->top[i - 1]) x->top[x->n_top++] = x->top[i];
  return true;
}

static bool take_compare(kv_compare *c, size_t group, size_t n, size_t d,
                         size_t d_v) {
  bool ok = true;
  for (int h = 0; h < KV_TOGETHER; h++) {
    c->share[h] = kv_zalloc(n, sizeof(float));
    c->log_share[h] = kv_zalloc(n, sizeof(float));
    c->by_token[h] = kv_zalloc(n, sizeof(double));
    ok = ok && c->share[h] && c->log_share[h] && c->by_token[h];
  }
  c->entry = kv_zalloc(n, sizeof *c->entry);
  c->slot = kv_zalloc(n, sizeof *c->slot);
  c->token = kv_zalloc(n, sizeof *c->token);
  c->place = kv_zalloc(n, sizeof *c->place);
  c->q = kv_zalloc(group * d, sizeof *c->q);
  c->s = kv_zalloc(group * n, sizeof *c->s);
  c->out = kv_zalloc(group * d_v, sizeof *c->out);
  c->lse = kv_zalloc(group, sizeof *c->lse);
  return ok && c->entry && c->slot && c->token && c->place && c->q && c->s &&
         c->out && c->lse;
}

static bool take(kv_truth *x, size_t group, size_t d, size_t d_v) {
  size_t n = group * x->stride;
  x->p = kv_zalloc(n, sizeof *x->p);
  x->log_p = kv_zalloc(n, sizeof *x->log_p);
  x->sink_p = kv_zalloc(group, sizeof *x->sink_p);
  x->mass = kv_zalloc(group, sizeof *x->mass);
  x->norm = kv_zalloc(group, sizeof *x->norm);
  x->cut = kv_zalloc(group * (size_t)x->n_top, sizeof *x->cut);
  return x->p && x->log_p && x->sink_p && x->mass && x->norm && x->cut &&
         take_compare(&x->compare, group, x->stride, d, d_v);
}

kv_rc kv_truth_open(const kv_shape *shape, const kv_kernels *kernels, int steps,
                    int n_top, const int *top, kv_truth **out, kv_err *e) {
  size_t group = (size_t)kv_group(shape);
  size_t n = ((size_t)shape->n_tokens + 15) / 16 * 16;
  kv_truth *x = kv_zalloc(1, sizeof *x);
  *out = NULL;
  if (!x) return kv_no_memory(e, "the exact attention", sizeof *x);
  x->shape = shape;
  x->kernels = kernels;
  x->stride = n;
  kv_rc rc = KV_OK;
  if (!take_top(x, n_top, top) ||
      !take(x, group, (size_t)shape->d, (size_t)shape->d_v))
    rc = kv_no_memory(e, "the exact attention", group * n * 40);
  if (!rc) rc = kv_tile_open(shape, kernels, 1, 1, &x->one, e);
  if (!rc)
    rc = kv_attend_scratch_init(&x->attend, shape->d, shape->d_v,
                                steps * (int)group, shape->n_tokens, e);
  if (rc)
    kv_truth_close(x);
  else
    *out = x;
  return rc;
}

void kv_truth_close(kv_truth *x) {
  if (!x) return;
  void *const block[] = {x->p,
                         x->log_p,
                         x->sink_p,
                         x->mass,
                         x->norm,
                         x->top,
                         x->cut,
                         x->compare.entry,
                         x->compare.slot,

                         x->compare.token,
                         x->compare.place,
                         x->compare.q,
                         x->compare.s,
                         x->compare.out,
                         x->compare.lse};
  for (size_t i = 0; i < sizeof block / sizeof *block; i++) free(block[i]);
  for (int h = 0; h < KV_TOGETHER; h++) {
    free(x->compare.share[h]);
    free(x->compare.log_share[h]);
    free(x->compare.by_token[h]);
  }
  kv_tile_close(x->one);
  kv_attend_scratch_release(&x->attend);
  free(x);
}

static double norm_of(const float *x, int n) {
  double square = 0;
  for (int i = 0; i < n; i++) square += (double)x[i] * (double)x[i];
  return sqrt(square);
}

void kv_truth_fill(kv_truth *x, const kv_layer_data *data, int g, int t,
                   const kv_tile *tile) {
  const kv_shape *s = x->shape;
  assert(t >= 0 && t < s->n_tokens && "the row is recorded");
  if (!tile) kv_tile_fill(x->one, 0, data, g, t, 1, &x->attend);
  kv_tile_row row = tile ? kv_tile_at(tile, g, t) : kv_tile_at(x->one, 0, t);
  x->layer = data->layer;
  x->kv_head = g;
  x->t = t;
  x->first = kv_layer_first(data, t);
  x->sinks = kv_layer_sink(data, g * kv_group(s));
  x->q = row.q;
  x->s = row.s;
  x->out = row.out;
  x->lse = row.lse;
  x->finite = row.finite;
  x->tiled = tile != NULL;
  x->weighed = x->marked = false;
  for (int h = 0; row.finite && h < kv_group(s); h++)
    x->norm[h] = norm_of(row.out + h * s->d_v, s->d_v);
}

static void add_masses(kv_truth *x, int n) {
  int group = kv_group(x->shape);
  for (int first = 0; first < group; first += KV_TOGETHER) {
    const float *p[KV_TOGETHER];
    double sum[KV_TOGETHER];
    for (int i = 0; i < KV_TOGETHER; i++)
      p[i] = x->p + (size_t)(first + i < group ? first + i : first) * x->stride;
    kv_chain_sum(n, p, sum);
    for (int i = 0; i < KV_TOGETHER && first + i < group; i++)
      x->mass[first + i] = sum[i];
  }
}

void kv_truth_weigh(kv_truth *x) {
  if (x->weighed) return;
  for (int h = 0; h < kv_group(x->shape); h++) {
    size_t at = (size_t)h * x->stride, from = at + (size_t)x->first;
    memset(x->p + at, 0, (size_t)x->first * sizeof *x->p);
    kv_observation_sink(x->kernels, x->t + 1 - x->first, x->s + from,
                        x->sinks ? x->sinks + h : NULL, x->p + from,
                        &x->sink_p[h]);
  }
  add_masses(x, x->t + 1);
  x->weighed = true;
}

void kv_truth_mark(kv_truth *x) {
  int n = x->t + 1;
  if (x->marked) return;
  int32_t *place = (void *)x->compare.by_token[0]; /* unused at this moment */
  kv_truth_weigh(x);
  for (int h = 0; h < kv_group(x->shape); h++) {
    size_t at = (size_t)h * x->stride;
    const float *p = x->p + at;
    float *log_p = x->log_p + at;
    for (int j = 0; j < n; j++) log_p[j] = p[j] < tiny ? tiny : p[j];
    x->kernels->log(log_p, n, log_p);
    kv_top_cut *cut = x->cut + h * x->n_top;
    kv_rank_top(x->kernels, n - x->first, x->s + at + x->first, x->n_top,
                x->top, x->compare.slot, place, x->compare.share[0],
                x->compare.share[1], cut);
    for (int j = 0; x->first && j < x->n_top; j++)
      if (cut[j].last < n) cut[j].last += x->first;
  }
  x->marked = true;
}

kv_known kv_truth_known(const kv_truth *x) {
  return (kv_known){.q = x->q,
                    .s = x->s,
                    .stride = x->stride,
                    .first = x->first,
                    .out = x->tiled ? x->out : NULL,
                    .lse = x->tiled ? x->lse : NULL};
}

int kv_truth_top(const kv_truth *x, int k) {
  int j = 0;
  while (j < x->n_top && x->top[j] != k) j++;
  assert(j < x->n_top && "every k was named when the truth was opened");
  return j;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * kv_sparsity_layer: traces/trace/sparsity.h. Blocks of rows are dealt to
 * threads, each with sums of its own, which are added afterwards.
 */
#include "traces/trace/sparsity.h"

#include <math.h>
#include <stdlib.h>

#include "ref/ground/arith.h"
#include "traces/trace/colsum.h"
#include "traces/trace/critical.h"
#include "traces/trace/rows.h"

/* The layer in hand and one of its KV heads, with what all threads add to. */
typedef struct job {
  const kv_trace *t;
  const kv_layer_data *data;
  const kv_kernels *kernel;
  int g, group, threads;
  int64_t *sums; /* [group][tokens] of probabilities at 2^-40 */
  kv_sparsity *out;
} job;

/* A thread's part. */
typedef struct part {
  kv_row_probs rows;
  kv_critical critical;
  int64_t *sums;
  kv_sparsity found;
} part;

/* --- classes ------------------------------------------------------------ */

/* 10^(c / 3): a constant times, or divided by, a power of ten below 10^23,
 * which is exact. */
static double edge(int c) {
  static const double third[] = {1, 2.15443469003188372, 4.64158883361277889};
  int whole = (c >= 0 ? c : c - 2) / 3;
  double ten = 1;
  for (int i = 0; i < (whole < 0 ? -whole : whole); i++) ten *= 10;
  double rest = third[c - 3 * whole];
  return whole < 0 ? rest / ten : rest * ten;
}

int kv_sparsity_class(double x, int first, int last) {
  int c = last;
  while (c > first && x < edge(c)) c--;
  return c;
}

/* --- rows --------------------------------------------------------------- */

static bool take(const job *w, part *x) {
  int n = w->t->shape.n_tokens;
  x->sums = kv_zalloc((size_t)w->group * (size_t)n, sizeof *x->sums);
  if (kv_row_probs_init(&x->rows, &w->t->shape, w->data, w->kernel, n, NULL))
    return false;
  kv_row_probs_head(&x->rows, w->g);
  return kv_critical_init(&x->critical, n) && x->sums;
}

static void give_back(const job *w, part *x, bool ready) {
  size_t n = (size_t)w->group * (size_t)w->t->shape.n_tokens;
  if (ready) {
#pragma omp critical(kv_sparsity)
    {
      for (size_t i = 0; i < n; i++) w->sums[i] += x->sums[i];
      w->out->rows += x->found.rows;
      w->out->critical += x->found.critical;
      w->out->seen += x->found.seen;
    }
  }
  kv_row_probs_release(&x->rows);
  kv_critical_release(&x->critical);
  free(x->sums);
}

/* The b-th block of rows; false: a logit is not finite. */
static bool add_rows(const job *w, part *x, int b) {
  const kv_row_probs *r = &x->rows;
  int first = b * r->most, left = w->data->n_rows - first;
  int count = left < r->most ? left : r->most;
  if (!kv_row_probs_take(&x->rows, first, count)) return false;
  for (int i = 0; i < count * r->group; i++) {
    int n = kv_row_token(w->data, first + i / r->group) + 1;
    const float *p = r->p + (size_t)i * r->stride;
    r->kernel->fix_add(p, n, x->sums + (size_t)(i % r->group) * r->stride);
    if (n <= KV_SPARSITY_FROM) continue;
    x->found.rows++;
    x->found.seen += n - kv_layer_first(w->data, n - 1);
    x->found.critical += kv_critical_tokens(&x->critical, n, p);
  }
  return true;
}

/* Longest rows first: the last blocks to finish are then short ones. */
static kv_rc do_rows(const job *w, kv_err *e) {
  int most = kv_row_probs_most(&w->t->shape), lacking = 0, bad = 0;
  int blocks = (w->data->n_rows + most - 1) / most;
#pragma omp parallel num_threads(w->threads) reduction(+ : lacking, bad)
  {
    part x = {0};
    kv_float_ground();
    bool ready = take(w, &x);
    lacking += !ready;
#pragma omp for schedule(dynamic)
    for (int b = 0; b < blocks; b++)
      if (ready) bad += !add_rows(w, &x, blocks - 1 - b);
    give_back(w, &x, ready);
  }
  if (lacking) return kv_no_memory(e, "rows of attention", 0);
  if (!bad) return KV_OK;
  return kv_fail(e, KV_INPUT, "%s: layer %d: a logit is not finite", w->t->path,
                 w->data->layer);
}

/* --- tokens ------------------------------------------------------------- */

static double norm_of(const job *w, int token, float *row) {
  const kv_shape *s = &w->t->shape;
  size_t n = (size_t)s->d_v, size = kv_dtype_size(s->dtype);
  size_t at = (size_t)w->g * (size_t)s->n_tokens + (size_t)token;
  double sum = 0;
  w->kernel->widen(s->dtype, (const char *)w->data->v + at * n * size, n, row);
  for (size_t j = 0; j < n; j++) sum += (double)row[j] * (double)row[j];
  return sqrt(sum);
}

/* Classes of all tokens that enough rows see; the first recorded row that sees
 * one is found on the way. */
static void sort_tokens(const job *w, float *row) {
  int n = w->t->shape.n_tokens, first = 0;
  for (int j = 0; j < n; j++) {
    int64_t most = 0;
    while (first < w->data->n_rows && kv_row_token(w->data, first) < j) first++;
    int rows = w->data->n_rows - first;
    if (rows < KV_SPARSITY_ROWS) return;
    for (int m = 0; m < w->group; m++)
      if (w->sums[(size_t)m * (size_t)n + (size_t)j] > most)
        most = w->sums[(size_t)m * (size_t)n + (size_t)j];
    double score = (double)most / ((double)rows * (double)KV_COLSUM_ONE);
    int a = kv_sparsity_class(score, KV_SPARSITY_SCORE, 0);
    int b = kv_sparsity_class(norm_of(w, j, row), KV_SPARSITY_NORM,
                              -KV_SPARSITY_NORM);
    w->out->count[a - KV_SPARSITY_SCORE][b - KV_SPARSITY_NORM]++;
    w->out->tokens++;
  }
}

static kv_rc do_head(job *w, kv_err *e) {
  size_t n = (size_t)w->group * (size_t)w->t->shape.n_tokens;
  float *row = kv_zalloc((size_t)w->t->shape.d_v, sizeof *row);
  kv_rc rc = KV_OK;
  w->sums = kv_zalloc(n, sizeof *w->sums);
  if (!row || !w->sums)
    rc = kv_no_memory(e, "sums of attention", n * sizeof *w->sums);
  *w->out = (kv_sparsity){0};
  if (!rc) rc = do_rows(w, e);
  if (!rc) sort_tokens(w, row);
  free(w->sums);
  free(row);
  return rc;
}

kv_rc kv_sparsity_layer(const kv_trace *t, int i, const kv_kernels *kernel,
                        int threads, kv_sparsity *out, kv_err *e) {
  job w = {.t = t,
           .data = &t->layer[i].data,
           .kernel = kernel,
           .threads = threads,
           .group = kv_group(&t->shape)};
  kv_rc rc = kv_trace_scan_layer(t, i, e);
  for (w.g = 0; !rc && w.g < t->shape.n_kv_heads; w.g++) {
    w.out = out + w.g;
    rc = do_head(&w, e);
  }
  return rc ? rc : kv_trace_damaged(t, e);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * kv_check_layer of traces/trace/check.h. Work is divided into blocks of rows;
 * each has its own sums, which are added in order afterwards, so that the
 * number of threads changes no digit.
 */
#include "traces/trace/check.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/threads.h"
#include "traces/trace/recompute.h"

typedef struct sums {
  double difference, recorded, most; /* squares, squares, absolute */
} sums;

typedef struct job {
  const kv_trace *t;
  const kv_recorded *r;
  const kv_kernels *kernel;
  kv_recompute *scratch; /* one a thread */
  float *row;            /* [threads][d_v] the recorded row, widened */
  sums *block;           /* [n_kv_heads][blocks] */
  int blocks;
} job;

static void compare_row(int n, const float *ours, const float *theirs,
                        sums *s) {
  for (int j = 0; j < n; j++) {
    double o = (double)theirs[j], by = (double)ours[j] - o;
    s->difference += by * by;
    s->recorded += o * o;
    s->most = kv_check_worse(s->most, fabs(by));
  }
}

static void do_block(const job *w, int g, int b, int thread) {
  const kv_shape *p = &w->t->shape;
  kv_recompute *x = &w->scratch[thread];
  int first = b * x->rows, left = w->r->data.n_rows - first;
  int count = left < x->rows ? left : x->rows, group = kv_group(p);
  size_t d_v = (size_t)p->d_v, size = kv_dtype_size(w->r->o_type);
  float *row = w->row + (size_t)thread * d_v;
  kv_recompute_block(x, w->kernel, p, &w->r->data, g, first, count);
  for (int i = 0; i < count * group; i++) {
    size_t h = (size_t)(g * group + i % group);
    size_t at = h * (size_t)w->r->data.n_rows + (size_t)(first + i / group);
    const char *from = w->r->o;
    w->kernel->widen(w->r->o_type, from + at * d_v * size, d_v, row);
    compare_row(p->d_v, x->out + (size_t)i * d_v, row,
                &w->block[(size_t)g * (size_t)w->blocks + (size_t)b]);
  }
}

static kv_rc take(job *w, int threads, kv_err *e) {
  const kv_shape *p = &w->t->shape;
  w->scratch = calloc((size_t)threads, sizeof *w->scratch);
  w->row = kv_zalloc((size_t)threads * (size_t)p->d_v, sizeof *w->row);
  if (!w->scratch || !w->row) return kv_no_memory(e, "the check", 0);
  for (int i = 0; i < threads; i++) {
    kv_rc rc = kv_recompute_init(&w->scratch[i], p, e);
    if (rc) return rc;
  }
  int rows = w->scratch[0].rows;
  w->blocks = (w->r->data.n_rows + rows - 1) / rows;
  size_t n = (size_t)w->blocks * (size_t)p->n_kv_heads;
  w->block = calloc(n, sizeof *w->block);
  return w->block ? KV_OK : kv_no_memory(e, "the check", n);
}

static void give_back(job *w, int threads) {
  for (int i = 0; w->scratch && i < threads; i++) {
    kv_recompute_release(&w->scratch[i]);
  }
  free(w->scratch);
  free(w->row);
  free(w->block);
}

/* Longest rows first, so that the blocks that finish last are short. */
static void run(const job *w) {
  long n = (long)w->blocks * w->t->shape.n_kv_heads;
  int heads = w->t->shape.n_kv_heads;
#pragma omp parallel num_threads(kv_threads())
  {
    kv_float_ground();
#pragma omp for schedule(dynamic)
    for (long i = 0; i < n; i++) {
      do_block(w, (int)(i % heads), w->blocks - 1 - (int)(i / heads),
               omp_get_thread_num());
    }
  }
}

/* fabs, because a NaN has a sign, which printf shows. */
double kv_check_relative(double difference, double norm) {
  return difference == 0 ? 0 : fabs(sqrt(difference) / sqrt(norm));
}

static void add_up(const job *w, kv_check *out) {
  sums all = {0};
  size_t n = (size_t)w->blocks * (size_t)w->t->shape.n_kv_heads;
  for (size_t i = 0; i < n; i++) {
    all.difference += w->block[i].difference;
    all.recorded += w->block[i].recorded;
    all.most = kv_check_worse(all.most, w->block[i].most);
  }
  out->error = all.most;
  out->relative = kv_check_relative(all.difference, all.recorded);
}

/* A model in bfloat16 rounds probabilities and outputs, each by up to 2^-9. */
static double tolerance(const kv_trace *t, const kv_recorded *r) {
  bool wide = t->shape.dtype == KV_F32 && r->data.q_dtype == KV_F32;
  if (r->o_type == KV_BF16) return 4e-3;
  return wide && r->o_type == KV_F32 ? 1e-4 : 2e-3;
}

kv_rc kv_check_layer(const kv_trace *t, int i, const kv_kernels *kernel,
                     kv_check *out, kv_err *e) {
  const kv_recorded *r = &t->layer[i];
  int threads = kv_threads();
  job w = {.t = t, .r = r, .kernel = kernel};
  *out = (kv_check){.layer = r->data.layer, .has_o = r->o != NULL};
  out->tolerance = tolerance(t, r);
  kv_rc rc = kv_trace_scan_layer(t, i, e);
  if (!rc) rc = kv_trace_scan_output(t, i, e);
  if (rc || !r->o) return rc;
  rc = take(&w, threads, e);
  if (!rc) {
    run(&w);
    add_up(&w, out);
  }
  give_back(&w, threads);
  return rc ? rc : kv_trace_damaged(t, e);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Column sums: traces/trace/colsum.h. Adds each row's probabilities in fixed
 * point to their columns. Blocks of rows are distributed over threads, each
 * with its own sums.
 */
#include "traces/trace/colsum.h"

#include <stdlib.h>
#include <string.h>

#include "ref/ground/text.h"
#include "ref/ground/threads.h"
#include "traces/trace/rewrite.h"
#include "traces/trace/rows.h"

typedef struct job {
  const kv_shape *shape;
  const kv_layer_data *data;
  const kv_kernels *kernel;
  int g;                             /* the current KV head, and */
  int64_t *out;                      /* [group][prompt_len] its sums */
  const volatile sig_atomic_t *stop; /* not 0: give up; may be NULL */
} job;

bool kv_colsum_can(const kv_trace *t, int i) {
  const kv_layer_data *x = &t->layer[i].data;
  int p = t->shape.prompt_len;
  return !x->rows || (x->n_rows >= p && x->rows[p - 1] == p - 1);
}

int64_t kv_colsum_at(const kv_layer_data *data, size_t at) {
  int64_t x;
  memcpy(&x, (const char *)data->colsum + at * sizeof x, sizeof x);
  return x;
}

kv_rc kv_colsum_scan(const kv_trace *t, int i, kv_err *e) {
  const kv_layer_data *x = &t->layer[i].data;
  size_t p = (size_t)x->colsum_len, n = (size_t)t->shape.n_heads * p;
  char a[KV_SHOW];
  for (size_t at = 0; x->colsum && at < n; at++) {
    int64_t sum = kv_colsum_at(x, at), rows = (int64_t)(p - at % p);
    if (x->window && rows > x->window) rows = x->window;
    if (sum >= 0 && sum <= rows * KV_COLSUM_ONE) continue;
    return kv_fail(
        e, KV_INPUT,
        "%s: tensor layers.%d.colsum holds %lld at [%zu, %zu]; the sum of %lld "
        "probabilities times 2^40 must be from 0 to %lld",
        kv_show(t->path, a), x->layer, (long long)sum, at / p, at % p,
        (long long)rows, (long long)(rows * KV_COLSUM_ONE));
  }
  return KV_OK;
}

/* A thread's rows of probabilities, and its own sums, [group][n]. */
typedef struct part {
  kv_row_probs rows;
  int64_t *sums;
} part;

static bool take(const job *w, part *x) {
  size_t n = (size_t)w->shape->prompt_len;
  x->sums = kv_zalloc((size_t)kv_group(w->shape) * n, sizeof *x->sums);
  if (kv_row_probs_init(&x->rows, w->shape, w->data, w->kernel, (int)n, NULL))
    return false;
  kv_row_probs_head(&x->rows, w->g);
  return x->sums;
}

static void give_back(const job *w, part *x) {
  size_t n = (size_t)kv_group(w->shape) * (size_t)w->shape->prompt_len;
  if (x->sums) {
#pragma omp critical(kv_colsum)
    for (size_t i = 0; i < n; i++) w->out[i] += x->sums[i];
  }
  kv_row_probs_release(&x->rows);
  free(x->sums);
}

/* Adds the b-th block of rows. False: a logit is not finite. */
static bool add_rows(part *x, int p, int b) {
  const kv_row_probs *r = &x->rows;
  int first = b * r->most, count = p - first < r->most ? p - first : r->most;
  if (!kv_row_probs_exp(&x->rows, first, count)) return false;
  for (int m = 0; m < r->group; m++) {
    size_t at = (size_t)m * r->stride + (size_t)r->from;
    r->kernel->fix_rows(count, first + count - r->from, r->p + at,
                        (size_t)r->group * r->stride, r->r + m * r->most,
                        x->sums + at);
  }
  return true;
}

/* Sums of the query heads of one KV head; longest rows first. */
static kv_rc do_head(const job *w, kv_err *e) {
  int p = w->shape->prompt_len, most = kv_row_probs_most(w->shape);
  int blocks = (p + most - 1) / most, lacking = 0, bad = 0;
#pragma omp parallel num_threads(kv_threads()) reduction(+ : lacking, bad)
  {
    part x = {0};
    kv_float_ground();
    bool ready = take(w, &x);
    lacking += !ready;
#pragma omp for schedule(dynamic)
    for (int b = 0; b < blocks; b++)
      if (ready && !(w->stop && *w->stop))
        bad += !add_rows(&x, p, blocks - 1 - b);
    give_back(w, &x);
  }
  if (lacking) return kv_no_memory(e, "column sums", (size_t)p * sizeof(float));
  if (!bad) return kv_rewrite_go_on(w->stop, e);
  return kv_fail(
      e, KV_INPUT,
      "layer %d: a logit of the prompt is not finite, so it has no column sums",
      w->data->layer);
}

kv_rc kv_colsum_head(const kv_shape *shape, const kv_layer_data *data, int g,
                     const kv_kernels *kernel,
                     const volatile sig_atomic_t *stop, int64_t *out,
                     kv_err *e) {
  const job w = {shape, data, kernel, g, out, stop};
  size_t n = (size_t)kv_group(shape) * (size_t)shape->prompt_len;
  memset(out, 0, n * sizeof *out);
  return do_head(&w, e);
}

kv_rc kv_colsum(const kv_shape *shape, const kv_layer_data *data,
                const kv_kernels *kernel, int64_t *out, kv_err *e) {
  size_t n = (size_t)kv_group(shape) * (size_t)shape->prompt_len;
  kv_rc rc = KV_OK;
  for (int g = 0; !rc && g < shape->n_kv_heads; g++)
    rc = kv_colsum_head(shape, data, g, kernel, NULL, out + (size_t)g * n, e);
  return rc;
}

kv_rc kv_colsum_of(int n_heads, int n_kv_heads, int d, int n_tokens,
                   int prompt_len, float scale, float softcap, int window,
                   const float *sinks, int dtype, const void *q, const void *k,
                   int64_t *out, kv_err *e) {
  kv_shape shape = {.n_layers = 1,
                    .n_heads = n_heads,
                    .n_kv_heads = n_kv_heads,
                    .d = d,
                    .d_v = d,
                    .n_tokens = n_tokens,
                    .prompt_len = prompt_len,
                    .dtype = (kv_dtype)dtype,
                    .softcap = softcap,
                    .scale = scale};
  kv_layer_data data = {.window = window,
                        .sinks = sinks,
                        .q = q,
                        .k = k,
                        .q_dtype = (kv_dtype)dtype,
                        .n_rows = n_tokens};
  return kv_colsum(&shape, &data, kv_kernels_best(), out, e);
}

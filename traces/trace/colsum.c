/* SPDX-License-Identifier: Apache-2.0
 *
 * Column sums: traces/trace/colsum.h. Arithmetic 4, row by row: the largest
 * logit, the fixed-point sum of exponentials, probabilities, and theirs in
 * fixed point onto their columns. Blocks of rows are dealt to threads, each
 * with sums of its own.
 */
#include "traces/trace/colsum.h"

#include <stdlib.h>
#include <string.h>

#include "ref/ground/arith.h"
#include "traces/text/text.h"

enum { QUERIES = 32 }; /* rows of logits at once, more where a group is */

typedef struct scratch {
  float *q, *s, *pack;
  int64_t *sums; /* [group][prompt_len] of this thread's rows */
} scratch;

typedef struct job {
  const kv_shape *shape;
  const kv_layer_data *data;
  const kv_kernels *kernel;
  int rows, group;  /* prompt rows at once, query heads that read one key */
  int g;            /* the KV head in hand, */
  const void **key; /* [prompt_len] its keys */
  int64_t *out;     /* [group][prompt_len] */
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
    if (sum >= 0 && sum <= rows * KV_COLSUM_ONE) continue;
    return kv_fail(e, KV_INPUT,
                   "%s: tensor layers.%d.colsum holds %lld at [%zu, %zu]: the "
                   "sum of %lld probabilities times 2^40 is 0 to %lld",
                   kv_show(t->path, a), x->layer, (long long)sum, at / p,
                   at % p, (long long)rows, (long long)(rows * KV_COLSUM_ONE));
  }
  return KV_OK;
}

/* --- recomputed --------------------------------------------------------- */

static void load_queries(const job *w, int first, int rows, const scratch *x) {
  size_t d = (size_t)w->shape->d, size = kv_dtype_size(w->data->q_dtype);
  const char *q = w->data->q;
  for (int i = 0; i < rows * w->group; i++) {
    size_t h = (size_t)(w->g * w->group + i % w->group);
    size_t row = h * (size_t)w->data->n_rows + (size_t)(first + i / w->group);
    w->kernel->widen(w->data->q_dtype, q + row * d * size, d,
                     x->q + (size_t)i * d);
  }
}

/* False: the sum of exponentials is none, as a logit was none. */
static bool add_row(const kv_kernels *f, int n, float *s, int64_t *sums) {
  float top = f->max(s, n);
  for (int j = 0; j < n; j++)
    if (!kv_finite(s[j])) return false;
  float mass = kv_unfix(f->exp_sum(s, top, n, s));
  f->scale(kv_div(1.0f, mass), n, s);
  f->fix_add(s, n, sums);
  return true;
}

static bool add_rows(const job *w, int first, int rows, const scratch *x) {
  const kv_shape *p = w->shape;
  size_t stride = (size_t)p->prompt_len;
  bool finite = true;
  load_queries(w, first, rows, x);
  w->kernel->logits(rows * w->group, first + rows, p->d, x->q, (size_t)p->d,
                    w->key, p->dtype, p->scale, x->s, stride, x->pack);
  for (int i = 0; i < rows * w->group; i++)
    finite &=
        add_row(w->kernel, first + i / w->group + 1, x->s + (size_t)i * stride,
                x->sums + (size_t)(i % w->group) * stride);
  return finite;
}

static void name_keys(const job *w) {
  const kv_shape *p = w->shape;
  size_t row = (size_t)p->d * kv_dtype_size(p->dtype);
  const char *k = w->data->k;
  k += (size_t)w->g * (size_t)p->n_tokens * row;
  for (int j = 0; j < p->prompt_len; j++) w->key[j] = k + (size_t)j * row;
}

static bool take(const job *w, scratch *x) {
  size_t m = (size_t)(w->rows * w->group), d = (size_t)w->shape->d;
  size_t n = (size_t)w->shape->prompt_len;
  *x = (scratch){.q = kv_zalloc(m * d, sizeof *x->q),
                 .s = kv_zalloc(m * n, sizeof *x->s),
                 .pack = kv_zalloc(KV_PACK * d, sizeof *x->pack),
                 .sums = kv_zalloc((size_t)w->group * n, sizeof *x->sums)};
  return x->q && x->s && x->pack && x->sums;
}

static void give_back(const job *w, scratch *x) {
  size_t n = (size_t)w->group * (size_t)w->shape->prompt_len;
  if (x->sums) {
#pragma omp critical(kv_colsum)
    for (size_t i = 0; i < n; i++) w->out[i] += x->sums[i];
  }
  free(x->q);
  free(x->s);
  free(x->pack);
  free(x->sums);
}

/* The query heads of one KV head; longest rows first. */
static kv_rc do_head(const job *w, kv_err *e) {
  int p = w->shape->prompt_len, blocks = (p + w->rows - 1) / w->rows;
  int lacking = 0, bad = 0;
  name_keys(w);
#pragma omp parallel reduction(+ : lacking, bad)
  {
    scratch x;
    kv_float_ground();
    bool ready = take(w, &x);
    lacking += !ready;
#pragma omp for schedule(dynamic)
    for (int b = 0; b < blocks; b++) {
      int first = (blocks - 1 - b) * w->rows, left = p - first;
      if (ready)
        bad += !add_rows(w, first, left < w->rows ? left : w->rows, &x);
    }
    give_back(w, &x);
  }
  if (lacking)
    return kv_no_memory(e, "column sums", (size_t)p * QUERIES * sizeof(float));
  if (!bad) return KV_OK;
  return kv_fail(e, KV_INPUT,
                 "layer %d: a logit of the prompt is not finite, so that it "
                 "has no column sums",
                 w->data->layer);
}

kv_rc kv_colsum(const kv_shape *shape, const kv_layer_data *data,
                const kv_kernels *kernel, int64_t *out, kv_err *e) {
  int group = kv_group(shape);
  size_t p = (size_t)shape->prompt_len;
  job w = {.shape = shape,
           .data = data,
           .kernel = kernel,
           .rows = group < QUERIES ? QUERIES / group : 1,
           .group = group,
           .key = kv_zalloc(p, sizeof *w.key)};
  memset(out, 0, (size_t)shape->n_heads * p * sizeof *out);
  kv_rc rc = w.key ? KV_OK : kv_no_memory(e, "column sums", p * sizeof *w.key);
  for (w.g = 0; !rc && w.g < shape->n_kv_heads; w.g++) {
    w.out = out + (size_t)(w.g * group) * p;
    rc = do_head(&w, e);
  }
  free(w.key);
  return rc;
}

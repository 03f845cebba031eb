/* SPDX-License-Identifier: Apache-2.0
 *
 * The exact row: logits straight from the trace's rows, output by chunks,
 * probabilities without chunks, and what the measures take from them.
 */
#include "sim/measure/truth.h"
#include "ref/ground/arith.h"
#include "sim/measure/chain.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const float tiny = 0x1p-126f; /* p below it counts as this value */

/* --- opening ------------------------------------------------------------ */

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
    c->spread[h] = kv_zalloc(n, sizeof(double));
    ok = ok && c->share[h] && c->log_share[h] && c->spread[h];
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
  x->q = kv_zalloc(group * d, sizeof *x->q);
  x->s = kv_zalloc(n, sizeof *x->s);
  x->p = kv_zalloc(n, sizeof *x->p);
  x->log_p = kv_zalloc(n, sizeof *x->log_p);
  x->out = kv_zalloc(group * d_v, sizeof *x->out);
  x->lse = kv_zalloc(group, sizeof *x->lse);
  x->mass = kv_zalloc(group, sizeof *x->mass);
  x->norm = kv_zalloc(group, sizeof *x->norm);
  x->rank = kv_zalloc(n, sizeof *x->rank);
  x->keep = kv_zalloc(x->stride, sizeof *x->keep);
  return x->q && x->s && x->p && x->log_p && x->out && x->lse && x->mass &&
         x->norm && x->rank && x->keep &&
         take_compare(&x->compare, group, x->stride, d, d_v);
}

kv_rc kv_truth_open(const kv_shape *shape, const kv_rope *rope,
                    const kv_kernels *kernels, int n_top, const int *top,
                    kv_truth **out, kv_err *e) {
  size_t group = (size_t)kv_group(shape);
  size_t n = ((size_t)shape->n_tokens + 15) / 16 * 16;
  kv_truth *x = kv_zalloc(1, sizeof *x);
  *out = NULL;
  if (!x) return kv_no_memory(e, "the exact attention", sizeof *x);
  x->shape = shape;
  x->rope = rope;
  x->kernels = kernels;
  x->stride = n;
  kv_rc rc = KV_OK;
  if (n_top > UINT16_MAX - 3)
    rc = kv_fail(e, KV_USAGE,
                 "%d budgets at once are too many; split the "
                 "list of -b",
                 n_top);
  else if (!take_top(x, n_top, top) ||
           !take(x, group, (size_t)shape->d, (size_t)shape->d_v))
    rc = kv_no_memory(e, "the exact attention", group * n * 40);
  if (!rc)
    rc = kv_attend_scratch_init(&x->attend, shape->d, shape->d_v, (int)group,
                                shape->n_tokens, e);
  if (rc)
    kv_truth_close(x);
  else
    *out = x;
  return rc;
}

void kv_truth_close(kv_truth *x) {
  if (!x) return;
  void *const block[] = {x->q,
                         x->s,
                         x->p,
                         x->log_p,
                         x->out,
                         x->lse,
                         x->mass,
                         x->norm,
                         x->top,
                         x->rank,
                         x->keep,
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
    free(x->compare.spread[h]);
  }
  kv_attend_scratch_release(&x->attend);
  free(x);
}

/* --- a row -------------------------------------------------------------- */

typedef struct side {
  const char *row; /* of token 0 */
  size_t size;     /* bytes a row */
  kv_dtype type;
} side;

static side side_of(const void *data, int g, int n_tokens, int width,
                    kv_dtype type) {
  size_t size = (size_t)width * kv_dtype_size(type);
  size_t skip = (size_t)g * (size_t)n_tokens * size;
  return (side){(const char *)data + skip, size, type};
}

static int name_rows(void *ctx, int first, int count, kv_attend_scratch *x,
                     kv_dtype *type) {
  const side *v = ctx;
  int n = count < KV_CHUNK ? count : KV_CHUNK;
  *type = v->type;
  for (int i = 0; i < n; i++)
    x->row[i] = v->row + (size_t)(first + i) * v->size;
  return n;
}

/* Widens the query rows of token t to fp32. The recorded query rows end with
 * the trace and have no gap among the decode rows. */
static void widen_queries(kv_truth *x, const kv_layer_data *data, int g,
                          int t) {
  const kv_shape *s = x->shape;
  int group = kv_group(s), at = data->n_rows - (s->n_tokens - t);
  assert(at >= 0 && (!data->rows || data->rows[at] == t) &&
         "every decode row is recorded");
  size_t size = (size_t)s->d * kv_dtype_size(data->q_dtype);
  for (int h = 0; h < group; h++) {
    size_t row = (size_t)(g * group + h) * (size_t)data->n_rows + (size_t)at;
    x->kernels->widen(data->q_dtype, (const char *)data->q + row * size,
                      (size_t)s->d, x->q + (size_t)h * (size_t)s->d);
  }
}

static void fill_logits(kv_truth *x, side k, int n) {
  const kv_shape *s = x->shape;
  for (int first = 0; first < n;) {
    kv_dtype type;
    int count = name_rows(&k, first, n - first, &x->attend, &type);
    x->kernels->logits(kv_group(s), count, s->d, x->q, (size_t)s->d,
                       x->attend.row, type, s->scale, x->s + first, x->stride,
                       x->attend.pack);
    first += count;
  }
}

/* Probabilities, their logs and the top-k marks of head h. */
static void fill_head(kv_truth *x, int h, int n) {
  size_t at = (size_t)h * x->stride;
  const float *s = x->s + at, *out = x->out + h * x->shape->d_v;
  float *p = x->p + at, *log_p = x->log_p + at;
  kv_evidence_row(x->kernels, n, s, p);
  for (int j = 0; j < n; j++) log_p[j] = p[j] < tiny ? tiny : p[j];
  x->kernels->log(log_p, n, log_p);
  kv_rank_top(n, s, x->n_top, x->top, x->keep, x->compare.slot,
              x->compare.share[0], x->rank + at);
  double square = 0;
  for (int i = 0; i < x->shape->d_v; i++)
    square += (double)out[i] * (double)out[i];
  x->norm[h] = sqrt(square);
}

static void fill_masses(kv_truth *x, int n) {
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

void kv_truth_fill(kv_truth *x, const kv_layer_data *data, int g, int t) {
  const kv_shape *s = x->shape;
  int n = t + 1, group = kv_group(s);
  assert(t >= s->prompt_len && t < s->n_tokens && "the truth is of decoding");
  side k = side_of(data->k, g, s->n_tokens, s->d, s->dtype);
  side v = side_of(data->v, g, s->n_tokens, s->d_v, s->dtype);
  x->layer = data->layer;
  x->kv_head = g;
  x->t = t;
  widen_queries(x, data, g, t);
  fill_logits(x, k, n);
  x->finite = true;
  for (int h = 0; h < group; h++)
    x->finite = x->finite && kv_all_finite(x->s + (size_t)h * x->stride, n);
  if (!x->finite) return;
  kv_attend_rows(x->kernels, group, n, s->d_v, x->s, x->stride, name_rows, &v,
                 &x->attend, x->out, x->lse);
  for (int h = 0; h < group; h++) fill_head(x, h, n);
  fill_masses(x, n);
}

kv_known kv_truth_known(const kv_truth *x) {
  return (kv_known){.q = x->q, .s = x->s, .stride = x->stride};
}

int kv_truth_top(const kv_truth *x, int k) {
  int j = 0;
  while (j < x->n_top && x->top[j] != k) j++;
  assert(j < x->n_top && "every k was named when the truth was opened");
  return j;
}

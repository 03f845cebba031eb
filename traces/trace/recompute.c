/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention by arithmetic rules 1 and 3: the largest logit, the sum and the
 * weighted values of each chunk of 128 tokens; then the chunks in order.
 * Queries of a block share each chunk of keys; each sees tokens up to its own.
 */
#include "traces/trace/recompute.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/arith.h"

enum { CHUNK = 128, QUERIES = 32 };

static size_t chunks(int n) { return ((size_t)n + CHUNK - 1) / CHUNK; }

kv_rc kv_recompute_init(kv_recompute *x, const kv_shape *shape, kv_err *e) {
  int group = kv_group(shape);
  *x = (kv_recompute){.rows = group < QUERIES ? QUERIES / group : 1};
  size_t m = (size_t)x->rows * (size_t)group, c = chunks(shape->n_tokens);
  size_t d = (size_t)shape->d, d_v = (size_t)shape->d_v;
  x->q = kv_zalloc(m * d, sizeof(float));
  x->s = kv_zalloc(m * CHUNK, sizeof(float));
  x->top = kv_zalloc(m * c, sizeof(float));
  x->sum = kv_zalloc(m * c, sizeof(float));
  x->part = kv_zalloc(m * c * d_v, sizeof(float));
  x->out = kv_zalloc(m * d_v, sizeof(float));
  x->pack = kv_zalloc(KV_PACK * d, sizeof(float));
  x->key = kv_zalloc(CHUNK, sizeof *x->key);
  x->value = kv_zalloc(CHUNK, sizeof *x->value);
  if (x->q && x->s && x->top && x->sum && x->part && x->out && x->pack &&
      x->key && x->value) {
    return KV_OK;
  }
  kv_recompute_release(x);
  return kv_no_memory(e, "recomputed outputs", m * c * d_v * sizeof(float));
}

void kv_recompute_release(kv_recompute *x) {
  free(x->q);
  free(x->s);
  free(x->top);
  free(x->sum);
  free(x->part);
  free(x->out);
  free(x->pack);
  free(x->key);
  free(x->value);
  *x = (kv_recompute){0};
}

typedef struct block {
  kv_recompute *x;
  const kv_kernels *kernel;
  const kv_shape *shape;
  const kv_layer_data *data;
  int g, first, group, queries;
  int base;       /* the first token that is seen; chunks begin there */
  size_t chunks;  /* of the last, longest row */
  float *q, *out; /* of the first query */
} block;

/* Tokens that query i sees of chunk c. */
static int seen(const block *b, int i, size_t c) {
  int64_t n = kv_row_token(b->data, b->first + i / b->group) + 1 - b->base;
  n -= (int64_t)c * CHUNK;
  return n < 0 ? 0 : n < CHUNK ? (int)n : CHUNK;
}

static void load_queries(const block *b) {
  size_t d = (size_t)b->shape->d;
  for (int i = 0; i < b->queries; i++) {
    size_t h = (size_t)(b->g * b->group + i % b->group);
    size_t row = h * (size_t)b->data->n_rows;
    row += (size_t)(b->first + i / b->group);
    const char *from = b->data->q;
    from += row * d * kv_dtype_size(b->data->q_dtype);
    b->kernel->widen(b->data->q_dtype, from, d, b->q + (size_t)i * d);
  }
}

static void name_rows(const block *b, size_t c, int n) {
  size_t size = kv_dtype_size(b->shape->dtype);
  size_t at = (size_t)b->g * (size_t)b->shape->n_tokens + c * CHUNK;
  at += (size_t)b->base;
  const char *k = b->data->k, *v = b->data->v;
  for (int j = 0; j < n; j++) {
    b->x->key[j] = k + (at + (size_t)j) * (size_t)b->shape->d * size;
    b->x->value[j] = v + (at + (size_t)j) * (size_t)b->shape->d_v * size;
  }
}

/* Weighs all queries at once if each sees all n tokens, else one by one. */
static void weigh(const block *b, size_t c, int n, float *part) {
  const kv_shape *p = b->shape;
  const kv_recompute *x = b->x;
  int whole = seen(b, 0, c) == n, step = whole ? b->queries : 1;
  for (int i = 0; i < b->queries; i += step) {
    int mine = whole ? n : seen(b, i, c);
    if (mine == 0) continue;
    b->kernel->weigh(step, mine, p->d_v, x->s + (size_t)i * CHUNK, CHUNK,
                     x->value, p->dtype, part + (size_t)i * (size_t)p->d_v);
  }
}

static void do_chunk(const block *b, size_t c) {
  kv_recompute *x = b->x;
  const kv_kernels *f = b->kernel;
  const kv_shape *p = b->shape;
  size_t numbers = (size_t)b->queries * (size_t)p->d_v;
  int n = seen(b, b->queries - 1, c);
  float *part = x->part + c * numbers;
  name_rows(b, c, n);
  f->logits(b->queries, n, p->d, b->q, (size_t)p->d, x->key, p->dtype, p->scale,
            x->s, CHUNK, x->pack);
  f->softcap(p->softcap, b->queries, n, x->s, CHUNK);
  for (int i = 0; i < b->queries; i++) {
    int mine = seen(b, i, c);
    if (mine == 0) continue;
    float *s = x->s + (size_t)i * CHUNK;
    size_t at = (size_t)i * b->chunks + c;
    x->top[at] = f->max(s, mine);
    x->sum[at] = kv_unfix(f->exp_sum(s, x->top[at], mine, s));
  }
  memset(part, 0, numbers * sizeof *part);
  weigh(b, c, n, part);
}

static void combine(const block *b, int i) {
  kv_recompute *x = b->x;
  int token = kv_row_token(b->data, b->first + i / b->group);
  size_t n = chunks(token + 1 - b->base), d_v = (size_t)b->shape->d_v;
  const float *top = x->top + (size_t)i * b->chunks;
  const float *sum = x->sum + (size_t)i * b->chunks;
  float *out = b->out + (size_t)i * d_v, all = 0.0f;
  const float *sink = kv_layer_sink(b->data, b->g * b->group + i % b->group);
  float most = b->kernel->max(top, (int)n);
  if (sink) most = kv_max(most, *sink);
  memset(out, 0, d_v * sizeof *out);
  for (size_t c = 0; c < n; c++) {
    float w = kv_expm(kv_sub(top[c], most));
    const float *a = x->part + (c * (size_t)b->queries + (size_t)i) * d_v;
    all = kv_fma(w, sum[c], all);
    for (size_t j = 0; j < d_v; j++) out[j] = kv_fma(w, a[j], out[j]);
  }
  if (sink) all = kv_add(kv_expm(kv_sub(*sink, most)), all);
  for (size_t j = 0; j < d_v; j++) out[j] = kv_div(out[j], all);
}

/* Rows whose first visible token is the same. */
static void do_rows(const block *b) {
  load_queries(b);
  for (size_t c = 0; c < b->chunks; c++) do_chunk(b, c);
  for (int i = 0; i < b->queries; i++) combine(b, i);
}

void kv_recompute_block(kv_recompute *x, const kv_kernels *kernel,
                        const kv_shape *shape, const kv_layer_data *data, int g,
                        int first, int count) {
  assert(count >= 1 && count <= x->rows && "the scratch holds the block");
  int group = kv_group(shape), last = kv_row_token(data, first + count - 1);
  int rows = kv_layer_first(data, last) > 0 ? 1 : count; /* at once */
  block b = {.x = x,
             .kernel = kernel,
             .shape = shape,
             .data = data,
             .g = g,
             .group = group,
             .queries = rows * group};
  for (int r = 0; r < count; r += rows) {
    last = kv_row_token(data, first + r + rows - 1);
    b.first = first + r;
    b.base = kv_layer_first(data, last);
    b.chunks = chunks(last + 1 - b.base);
    b.q = x->q + (size_t)(r * group) * (size_t)shape->d;
    b.out = x->out + (size_t)(r * group) * (size_t)shape->d_v;
    do_rows(&b);
  }
}

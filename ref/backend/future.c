/* SPDX-License-Identifier: Apache-2.0
 *
 * The exact mass that future decode rows give to tokens: ref/backend/future.h.
 */
#include "ref/backend/future.h"
#include "ref/backend/attend.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 4 }; /* query rows that read the keys together */

/* The data of one lane, which owns its arrays. */
typedef struct future_lane {
  int step; /* `left` covers rows from this token on; -1: not computed yet */
  int64_t *left; /* [T], by token */
  int64_t *row;  /* [T] one head's row */
  float *q, *s;  /* [ROWS * queries][d], [..][stride] */
  float *pack;   /* [KV_PACK][d] */
} future_lane;

struct kv_future {
  const kv_plan *plan;
  size_t stride; /* floats from row to row of logits */
  int lanes;
  future_lane *lane; /* [lanes] */
};

void kv_future_close(kv_future *f) {
  if (!f) return;
  for (int i = 0; f->lane && i < f->lanes; i++) {
    free(f->lane[i].left);
    free(f->lane[i].row);
    free(f->lane[i].q);
    free(f->lane[i].s);
    free(f->lane[i].pack);
  }
  free(f->lane);
  free(f);
}

static bool take_lane(const kv_future *f, future_lane *x, int queries) {
  const kv_shape *shape = f->plan->shape;
  size_t rows = (size_t)(ROWS * queries), d = (size_t)shape->d;
  size_t t = (size_t)shape->n_tokens;
  x->step = -1;
  x->left = kv_zalloc(t, sizeof *x->left);
  x->row = kv_zalloc(t, sizeof *x->row);
  x->q = kv_zalloc(rows * d, sizeof *x->q);
  x->s = kv_zalloc(rows * f->stride, sizeof *x->s);
  x->pack = kv_zalloc(KV_PACK * d, sizeof *x->pack);
  return x->left && x->row && x->q && x->s && x->pack;
}

kv_rc kv_future_open(const kv_plan *plan, int lanes, kv_lane *lane,
                     kv_future **out, kv_err *e) {
  *out = NULL;
  if (!plan->needs.future) return KV_OK;
  kv_future *f = kv_zalloc(1, sizeof *f);
  if (!f) return kv_no_memory(e, "rows to come", sizeof *f);
  f->plan = plan;
  f->stride = ((size_t)plan->shape->n_tokens + 15) / 16 * 16 + 16;
  f->lanes = lanes;
  f->lane = kv_zalloc((size_t)lanes, sizeof *f->lane);
  bool there = f->lane != NULL;
  for (int i = 0; there && i < lanes; i++) {
    there = take_lane(f, &f->lane[i], lane[i].queries);
    lane[i].future = f->lane[i].left;
  }
  if (there) {
    *out = f;
    return KV_OK;
  }
  kv_future_close(f);
  return kv_no_memory(e, "rows to come", f->stride * 16);
}

void kv_future_begin(kv_future *f) {
  for (int i = 0; f && i < f->lanes; i++) f->lane[i].step = -1;
}

static void load_queries(const kv_future *f, const kv_lane *l, int t,
                         float *q) {
  const kv_layer_data *data = l->data;
  size_t d = (size_t)f->plan->shape->d;
  size_t size = d * kv_dtype_size(data->q_dtype);
  size_t at = (size_t)kv_layer_row(data, t);
  for (int h = 0; h < l->queries; h++) {
    size_t row = (size_t)(l->first_head + h) * (size_t)data->n_rows + at;
    f->plan->kernels->widen(data->q_dtype, (const char *)data->q + row * size,
                            d, q + (size_t)h * d);
  }
}

/* Logits of m query rows with the recorded keys of tokens first..n-1. */
static void fill_logits(const kv_future *f, future_lane *x, const kv_lane *l,
                        int m, int first, int n) {
  const kv_shape *s = f->plan->shape;
  const kv_kernels *kernels = f->plan->kernels;
  size_t size = (size_t)s->d * kv_dtype_size(s->dtype);
  const char *k = (const char *)l->data->k +
                  (size_t)l->kv_head * (size_t)s->n_tokens * size;
  const void *key[KV_CHUNK];
  for (int count; first < n; first += count) {
    count = n - first < KV_CHUNK ? n - first : KV_CHUNK;
    for (int i = 0; i < count; i++) key[i] = k + (size_t)(first + i) * size;
    kernels->logits(m, count, s->d, x->q, (size_t)s->d, key, s->dtype, s->scale,
                    x->s + first, f->stride, x->pack);
    kernels->softcap(s->softcap, m, count, x->s + first, f->stride);
  }
}

/* Adds one head's row of token t, logits s, to `left`, or subtracts it. */
static void count_row(const kv_future *f, future_lane *x, const kv_lane *l,
                      int h, int t, float *s, bool add) {
  int first = kv_layer_first(l->data, t), n = t + 1 - first;
  float sink;
  if (!kv_all_finite(s + first, n)) return;
  kv_observation_sink(f->plan->kernels, n, s + first,
                      kv_layer_sink(l->data, l->first_head + h), s + first,
                      &sink);
  memset(x->row, 0, (size_t)n * sizeof *x->row);
  f->plan->kernels->fix_add(s + first, n, x->row);
  for (int i = 0; i < n; i++)
    x->left[first + i] += add ? x->row[i] : -x->row[i];
}

/* Does token t belong to a later prompt? */
static bool is_asked(const kv_plan *p, int t) {
  for (int i = 0; i < p->n_asked; i++)
    if (t >= p->asked[i].first && t < p->asked[i].first + p->asked[i].count)
      return true;
  return false;
}

/* Counts the decode rows among tokens from..to-1. */
static void count_rows(const kv_future *f, future_lane *x, const kv_lane *l,
                       int from, int to, bool add) {
  size_t q = (size_t)l->queries * (size_t)f->plan->shape->d;
  int t[ROWS], p = f->plan->shape->prompt_len, rows;
  if (from < p) from = p;
  while (from < to) {
    for (rows = 0; from < to && rows < ROWS; from++)
      if (!is_asked(f->plan, from)) t[rows++] = from;
    if (rows == 0) return;
    for (int r = 0; r < rows; r++)
      load_queries(f, l, t[r], x->q + (size_t)r * q);
    fill_logits(f, x, l, rows * l->queries, kv_layer_first(l->data, t[0]),
                t[rows - 1] + 1);
    for (int r = 0; r < rows; r++)
      for (int h = 0; h < l->queries; h++)
        count_row(f, x, l, h, t[r],
                  x->s + (size_t)(r * l->queries + h) * f->stride, add);
  }
}

bool kv_future_reach(kv_future *f, const kv_lane *l) {
  if (!f) return false;
  const kv_shape *shape = f->plan->shape;
  future_lane *x = &f->lane[l->lane];
  int from = x->step;
  x->step = l->step;
  if (from < 0) {
    memset(x->left, 0, (size_t)shape->n_tokens * sizeof *x->left);
    count_rows(f, x, l, l->step, shape->n_tokens, true);
    return true;
  }
  count_rows(f, x, l, from, l->step, false);
  return l->step > from && l->step > shape->prompt_len;
}

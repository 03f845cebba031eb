/* SPDX-License-Identifier: Apache-2.0
 *
 * Somebody else's kernels: tests/theirs.h.
 */
#include "tests/theirs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/arith.h"
#include "traces/decisions_write.h"
#include "traces/writer.h"

enum { MOST = 1024, HEADS_MOST = 16, LAYERS_MOST = 8 };

/* --- numbers ------------------------------------------------------------ */

static double number(const void *from, kv_dtype type, size_t i) {
  float f;
  uint16_t h;
  if (type == KV_F32) {
    memcpy(&f, (const char *)from + i * 4, 4);
    return (double)f;
  }
  memcpy(&h, (const char *)from + i * 2, 2);
  return (double)(type == KV_F16 ? kv_from_f16(h) : kv_from_bf16(h));
}

static double q_of(const theirs *t, int l, int h, int row, int x) {
  const kv_layer_data *d = &t->trace->layer[l].data;
  size_t i = ((size_t)h * (size_t)d->n_rows + (size_t)row) *
                 (size_t)t->trace->shape.d +
             (size_t)x;
  return number(d->q, d->q_dtype, i);
}

static double k_of(const theirs *t, int l, int g, int token, int x) {
  const kv_shape *s = &t->trace->shape;
  size_t i = ((size_t)g * (size_t)s->n_tokens + (size_t)token) * (size_t)s->d +
             (size_t)x;
  return number(t->trace->layer[l].data.k, s->dtype, i);
}

static double v_of(const theirs *t, int l, int g, int token, int x) {
  const kv_shape *s = &t->trace->shape;
  size_t i =
      ((size_t)g * (size_t)s->n_tokens + (size_t)token) * (size_t)s->d_v +
      (size_t)x;
  return number(t->trace->layer[l].data.v, s->dtype, i);
}

static double logit(const theirs *t, int l, int h, int row, int token) {
  const kv_shape *s = &t->trace->shape;
  double sum = 0;
  int g = h / kv_group(s);
  for (int x = 0; x < s->d; x++)
    sum += q_of(t, l, h, row, x) * k_of(t, l, g, token, x);
  return sum * (double)s->scale;
}

/* Probabilities of a row over tokens. */
static void softmax(const theirs *t, int l, int h, int row, int n,
                    const int *token, double *p) {
  double most = -INFINITY, sum = 0;
  for (int i = 0; i < n; i++) {
    p[i] = logit(t, l, h, row, token[i]);
    most = fmax(most, p[i]);
  }
  for (int i = 0; i < n; i++) sum += p[i] = exp(p[i] - most);
  for (int i = 0; i < n; i++) p[i] /= sum;
}

/* --- ranking ------------------------------------------------------------ */

static double rounded(const theirs *t, double x) {
  return t->bf16 ? (double)kv_from_bf16(kv_to_bf16((float)x)) : x;
}

/* in[i] = is score[i] among the k largest (or smallest)? Of equals the first.
 */
static void pick(const theirs *t, int n, const double *score, int k, int sign,
                 bool *in) {
  memset(in, 0, (size_t)n * sizeof *in);
  for (int j = 0; j < k && j < n; j++) {
    int best = -1;
    for (int i = 0; i < n; i++)
      if (!in[i] && (best < 0 || sign * rounded(t, score[i]) >
                                     sign * rounded(t, score[best])))
        best = i;
    in[best] = true;
  }
}

/* --- files -------------------------------------------------------------- */

typedef struct lists {
  int32_t step[MOST];
  int64_t start[MOST * HEADS_MOST + 2]; /* one more: of the list begun */
  int32_t *item;
  size_t room;
  int steps, n; /* steps, lists */
} lists;

typedef struct book {
  lists list[LAYERS_MOST];
} book;

static book *open_book(void) {
  book *b = calloc(1, sizeof *b);
  assert_non_null(b);
  return b;
}

static void put_item(lists *l, int32_t item) {
  size_t n = (size_t)l->start[l->n + 1];
  if (n == l->room) {
    l->room = l->room * 2 + 4096;
    l->item = realloc(l->item, l->room * sizeof *l->item);
    assert_non_null(l->item);
  }
  l->item[n] = item;
  l->start[l->n + 1]++;
}

/* The next list may follow. */
static void end_list(lists *l) {
  l->n++;
  l->start[l->n + 1] = l->start[l->n];
}

/* An order that is nobody's. */
static void permute(lists *l) {
  int64_t first = l->start[l->n - 1], n = l->start[l->n] - first;
  for (int64_t i = 0; i < n; i++) {
    int64_t j = first + (i * 7 + 3) % n, k = first + i;
    int32_t x = l->item[j];
    l->item[j] = l->item[k];
    l->item[k] = x;
  }
}

/* Writes and frees. */
static void close_book(const theirs *t, book *b, bool views, int heads,
                       const char *path) {
  kv_decided layer[LAYERS_MOST] = {{0}};
  kv_digest identity;
  kv_err e = {0};
  kv_decisions d = {.stores = !views,
                    .views = views,
                    .stored_heads = heads,
                    .layers = t->trace->n_layers,
                    .layer = layer};
  for (int i = 0; i < d.layers; i++) {
    lists *l = &b->list[i];
    kv_lists out = {heads,  views ? t->page : 1, l->steps, l->step, l->start,
                    l->item};
    layer[i].layer = t->trace->layer[i].data.layer;
    *(views ? &layer[i].view : &layer[i].stored) = out;
  }
  assert_int_equal(kv_trace_identity(t->trace, &identity, &e), KV_OK);
  if (kv_decisions_write(path, "their kernel", &identity, &t->trace->shape, &d,
                         &e))
    fail_msg("%s", e.text);
  for (int i = 0; i < d.layers; i++) free(b->list[i].item);
  free(b);
}

typedef struct answers {
  float *o[LAYERS_MOST], *lse[LAYERS_MOST];
  size_t rows, elements;
} answers;

static void open_answers(const theirs *t, answers *a) {
  const kv_shape *s = &t->trace->shape;
  a->rows = (size_t)s->n_heads * (size_t)(s->n_tokens - s->prompt_len);
  a->elements = a->rows * (size_t)s->d_v;
  for (int i = 0; i < t->trace->n_layers; i++) {
    a->o[i] = calloc(a->elements, sizeof(float));
    a->lse[i] = calloc(a->rows, sizeof(float));
    assert_true(a->o[i] && a->lse[i]);
  }
}

static void put_answer(const theirs *t, kv_st_writer *w, const float *x) {
  kv_err e = {0};
  size_t n = (size_t)t->trace->shape.n_heads *
             (size_t)(t->trace->shape.n_tokens - t->trace->shape.prompt_len) *
             (size_t)t->trace->shape.d_v;
  uint16_t *half = calloc(n, sizeof *half);
  assert_non_null(half);
  for (size_t i = 0; i < n; i++)
    half[i] = t->output == KV_F16 ? kv_to_f16(x[i]) : kv_to_bf16(x[i]);
  bool wide = t->output == KV_F32;
  assert_int_equal(kv_st_writer_append(w, n * (wide ? 4 : 2),
                                       wide ? (const void *)x : half, &e),
                   KV_OK);
  free(half);
}

static void close_answers(const theirs *t, answers *a, const char *path) {
  static const kv_st_dtype type[] = {KV_ST_F16, KV_ST_BF16, KV_ST_F32};
  const kv_shape *s = &t->trace->shape;
  uint64_t shape[3] = {(uint64_t)s->n_heads,
                       (uint64_t)(s->n_tokens - s->prompt_len),
                       (uint64_t)s->d_v};
  kv_st_writer *w = NULL;
  kv_err e = {0};
  char name[64];
  kv_rc rc = kv_st_writer_open(path, 0, &w, &e);
  for (int i = 0; !rc && i < t->trace->n_layers; i++) {
    int layer = t->trace->layer[i].data.layer;
    snprintf(name, sizeof name, "layers.%d.o", layer);
    rc = kv_st_writer_declare(w, name, type[t->output], 3, shape, &e);
    snprintf(name, sizeof name, "layers.%d.lse", layer);
    if (!rc) rc = kv_st_writer_declare(w, name, KV_ST_F32, 2, shape, &e);
  }
  assert_int_equal(rc, KV_OK);
  for (int i = 0; i < t->trace->n_layers; i++) {
    put_answer(t, w, a->o[i]);
    rc = kv_st_writer_append(w, a->rows * 4, a->lse[i], &e);
    assert_int_equal(rc, KV_OK);
    free(a->o[i]);
    free(a->lse[i]);
  }
  assert_int_equal(kv_st_writer_finish(w, NULL, &e), KV_OK);
  kv_st_writer_close(w);
}

/* --- attention ---------------------------------------------------------- */

static bool here(const theirs *t, theirs_fault f, int l, int step, int head) {
  return t->fault == f && t->trace->layer[l].data.layer == t->layer &&
         t->step == step && t->head == head;
}

static void attend(const theirs *t, int l, int step, int h, int n,
                   const int *token, const answers *a) {
  const kv_shape *s = &t->trace->shape;
  double scale = here(t, SCALED, l, step, h) ? 1.02 : 1, most = -INFINITY;
  int seen = here(t, HIDDEN, l, step, h) ? n - t->page : n;
  double p[MOST], sum = 0;
  for (int i = 0; i < n; i++) {
    p[i] = logit(t, l, h, step - 1, token[i]) * scale;
    most = fmax(most, p[i]);
  }
  for (int i = 0; i < n; i++) p[i] = exp(p[i] - most);
  for (int i = 0; i < seen; i++) sum += p[i];
  size_t row = (size_t)h * (size_t)(s->n_tokens - s->prompt_len) +
               (size_t)(step - s->prompt_len - 1);
  for (int x = 0; x < s->d_v; x++) {
    double o = 0;
    for (int i = 0; i < n; i++)
      o += p[i] * v_of(t, l, h / kv_group(s), token[i], x);
    a->o[l][row * (size_t)s->d_v + (size_t)x] = (float)(o / sum);
  }
  a->lse[l][row] = (float)(most + log(sum));
}

/* --- quest -------------------------------------------------------------- */

/* The bound of one query head on one page. */
static double bound(const theirs *t, int l, int step, int h, int g, int page,
                    bool stale) {
  int first = page * t->page, end = first + t->page;
  double u = 0;
  if (end > step) end = step;
  if (stale && end > first + 1) end--;
  for (int x = 0; x < t->trace->shape.d; x++) {
    double lo = INFINITY, hi = -INFINITY, q = q_of(t, l, h, step - 1, x);
    for (int i = first; i < end; i++) {
      lo = fmin(lo, k_of(t, l, g, i, x));
      hi = fmax(hi, k_of(t, l, g, i, x));
    }
    u += fmax(q * lo, q * hi);
  }
  return u;
}

static void bounds(const theirs *t, int l, int step, int h, int pages,
                   double *u) {
  const kv_shape *s = &t->trace->shape;
  int group = kv_group(s), g = h / group;
  int first = t->group ? g * group : h, heads = t->group ? group : 1;
  bool stale = here(t, STALE, l, step, h),
       best = here(t, GROUP_MAX, l, step, h);
  if (here(t, MAPPED, l, step, h)) g = h % s->n_kv_heads;
  for (int p = 0; p < pages; p++) {
    u[p] = best ? -INFINITY : 0;
    for (int i = first; i < first + heads; i++) {
      double b = bound(t, l, step, i, g, p, stale);
      u[p] = best ? fmax(u[p], b) : u[p] + b;
    }
  }
}

/* Flags of the pages; true where they are not those of a kernel without the
 * fault. */
static bool choose(const theirs *t, int l, int step, int h, int pages,
                   bool *in) {
  theirs well = *t;
  double u[MOST];
  bool right[MOST];
  int k = t->budget / t->page < pages ? t->budget / t->page : pages;
  well.fault = RIGHT;
  bounds(&well, l, step, h, pages, u);
  pick(t, pages - 1, u, k - 1, 1, right);
  right[pages - 1] = true;
  bounds(t, l, step, h, pages, u);
  bool more = here(t, MORE, l, step, h), all = here(t, UNFORCED, l, step, h);
  pick(t, pages - !all, u, k - !all + more,
       here(t, SWAPPED, l, step, h) ? -1 : 1, in);
  if (!all) in[pages - 1] = true;
  for (int p = pages - 2; here(t, SHIFTED, l, step, h) && p > 0; p--)
    if (in[p - 1] && !in[p]) {
      in[p] = true;
      in[p - 1] = false;
      break;
    }
  return memcmp(in, right, (size_t)pages * sizeof *in) != 0;
}

/* What the list names beside the choice. */
static bool stray(const theirs *t, int l, int step, int h, int pages,
                  lists *out) {
  int32_t beyond = (t->trace->shape.n_tokens + t->page - 1) / t->page;
  if (here(t, DUPLICATE, l, step, h))
    put_item(out, pages - 1);
  else if (here(t, OUTSIDE, l, step, h))
    put_item(out, beyond);
  else if (here(t, FUTURE, l, step, h))
    put_item(out, pages);
  else if (here(t, NEGATIVE, l, step, h))
    put_item(out, -1);
  else
    return here(t, HIDDEN, l, step, h) || here(t, SCALED, l, step, h);
  return true;
}

static bool quest_row(const theirs *t, int l, int step, int h, lists *out,
                      const answers *a) {
  int pages = (step + t->page - 1) / t->page, n = 0, token[MOST];
  bool in[MOST], odd = choose(t, l, step, h, pages, in);
  for (int p = 0; p < pages; p++) {
    if (!in[p]) continue;
    put_item(out, p);
    for (int i = p * t->page; i < (p + 1) * t->page && i < step; i++)
      token[n++] = i;
  }
  odd |= stray(t, l, step, h, pages, out);
  end_list(out);
  if (t->permuted) permute(out);
  if (a) attend(t, l, step, h, n, token, a);
  return odd;
}

bool theirs_quest(const theirs *t, const char *decisions, const char *outputs) {
  const kv_shape *s = &t->trace->shape;
  book *b = open_book();
  answers a;
  bool odd = false;
  assert_true(s->n_tokens < MOST && s->n_heads <= HEADS_MOST);
  if (outputs) open_answers(t, &a);
  for (int l = 0; l < t->trace->n_layers; l++)
    for (int step = s->prompt_len + 1; step <= s->n_tokens; step++) {
      b->list[l].step[b->list[l].steps++] = step;
      for (int h = 0; h < s->n_heads; h++)
        odd |= quest_row(t, l, step, h, &b->list[l], outputs ? &a : NULL);
    }
  close_book(t, b, true, s->n_heads, decisions);
  if (outputs) close_answers(t, &a, outputs);
  return odd;
}

/* --- h2o ---------------------------------------------------------------- */

typedef struct cache {
  int n, token[MOST];
  double sum[MOST];
} cache;

/* A row's probabilities over what the lane holds are added up. */
static void look(const theirs *t, int l, int lane, int row, int n, cache *c) {
  int group = kv_group(&t->trace->shape);
  double p[MOST];
  for (int h = lane * group; h < (lane + 1) * group; h++) {
    softmax(t, l, h, row, n, c->token, p);
    for (int i = 0; i < n; i++) c->sum[i] += p[i];
  }
}

static int drop(const theirs *t, int recent, cache *c) {
  bool in[MOST];
  int n = 0, past = c->n - recent, gone = -1;
  pick(t, past, c->sum, t->budget - recent, 1, in);
  for (int i = 0; i < c->n; i++) {
    if (i < past && !in[i]) {
      gone = c->token[i];
      continue;
    }
    c->token[n] = c->token[i];
    c->sum[n++] = c->sum[i];
  }
  c->n = n;
  return gone;
}

static int first_gone(const cache *c) {
  int t = 0;
  while (t < c->n && c->token[t] == t) t++;
  return t;
}

static bool write_lane(const theirs *t, int l, int lane, int step, int gone,
                       const cache *c, lists *out) {
  bool back = here(t, BACK, l, step, lane), more = here(t, MORE, l, step, lane);
  for (int i = 0; i < c->n; i++)
    put_item(out, back && i == 0 ? first_gone(c) : c->token[i]);
  if (more) put_item(out, gone);
  end_list(out);
  if (t->permuted) permute(out);
  return back || more;
}

bool theirs_h2o(const theirs *t, const char *decisions) {
  const kv_shape *s = &t->trace->shape;
  book *b = open_book();
  bool odd = false;
  cache lane[HEADS_MOST];
  for (int l = 0; l < t->trace->n_layers; l++) {
    lists *out = &b->list[l];
    for (int g = 0; g < s->n_kv_heads; g++) {
      cache *c = &lane[g];
      *c = (cache){.n = s->prompt_len};
      for (int i = 0; i < c->n; i++) c->token[i] = i;
      for (int r = 0; r < s->prompt_len; r++) look(t, l, g, r, r + 1, c);
    }
    for (int step = s->prompt_len; step <= s->n_tokens; step++) {
      out->step[out->steps++] = step;
      for (int g = 0; g < s->n_kv_heads; g++) {
        cache *c = &lane[g];
        if (step > s->prompt_len) {
          c->token[c->n] = step - 1;
          c->sum[c->n++] = 0;
          look(t, l, g, step - 1, c->n, c);
        }
        bool slim = here(t, WINDOW, l, step, g);
        int recent = t->budget / 2;
        if (slim) c->sum[c->n - recent] = -1; /* the window lost its first */
        int gone = c->n > t->budget ? drop(t, recent - slim, c) : -1;
        odd |= slim;
        odd |= write_lane(t, l, g, step, gone, c, out);
      }
    }
  }
  close_book(t, b, false, s->n_kv_heads, decisions);
  return odd;
}

/* --- snapkv ------------------------------------------------------------- */

bool theirs_snapkv(const theirs *t, const char *decisions) {
  enum { WINDOW_ROWS = 32, REACH = 3 };
  const kv_shape *s = &t->trace->shape;
  int p = s->prompt_len, past = p - WINDOW_ROWS;
  book *b = open_book();
  cache c;
  double pooled[MOST];
  for (int l = 0; l < t->trace->n_layers; l++) {
    lists *out = &b->list[l];
    out->step[out->steps++] = p;
    for (int g = 0; g < s->n_kv_heads; g++) {
      c = (cache){.n = p};
      for (int i = 0; i < p; i++) c.token[i] = i;
      for (int r = past; r < p; r++) look(t, l, g, r, r + 1, &c);
      for (int i = 0; i < past; i++) {
        pooled[i] = 0;
        for (int j = i - REACH; j <= i + REACH; j++)
          if (j >= 0 && j < past) pooled[i] = fmax(pooled[i], c.sum[j]);
      }
      memcpy(c.sum, pooled, (size_t)past * sizeof *pooled);
      drop(t, WINDOW_ROWS, &c);
      write_lane(t, l, g, p, -1, &c, out);
    }
  }
  close_book(t, b, false, s->n_kv_heads, decisions);
  return false;
}

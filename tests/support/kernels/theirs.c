/* SPDX-License-Identifier: Apache-2.0
 *
 * Somebody else's kernels: tests/support/kernels/theirs.h.
 */
#include "tests/support/kernels/theirs_part.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/arith.h"
#include "tests/support/test.h"

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

/* --- attention ---------------------------------------------------------- */

static bool here(const theirs *t, theirs_fault f, int l, int step, int head) {
  return t->fault == f && t->trace->layer[l].data.layer == t->layer &&
         t->step == step && t->head == head;
}

/* What a kernel of that type multiplies the values with: exponentials that
 * were rounded for the second matrix product, not their sum. */
static double stored(const theirs *t, double x) {
  float f = (float)x;
  if (t->output == KV_F16) return (double)kv_from_f16(kv_to_f16(f));
  if (t->output == KV_BF16) return (double)kv_from_bf16(kv_to_bf16(f));
  return x;
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
  for (int i = 0; i < n; i++) p[i] = stored(t, p[i]);
  size_t row = (size_t)h * (size_t)(s->n_tokens - s->prompt_len) +
               (size_t)(step - s->prompt_len - 1);
  for (int x = 0; x < s->d_v; x++) {
    double o = 0;
    for (int i = 0; i < n; i++)
      o += p[i] * v_of(t, l, h / kv_group(s), token[i], x);
    a->o[l][row * (size_t)s->d_v + (size_t)x] = (float)(o / sum);
  }
  double lse = most + log(sum);
  a->lse[l][row] = (float)(t->base2 ? lse / log(2) : lse);
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
  memcpy(in, right, (size_t)pages * sizeof *in);
  if (!here(t, t->fault, l, step, h)) return false;
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
    list_put(out, pages - 1);
  else if (here(t, OUTSIDE, l, step, h))
    list_put(out, beyond);
  else if (here(t, FUTURE, l, step, h))
    list_put(out, pages);
  else if (here(t, NEGATIVE, l, step, h))
    list_put(out, -1);
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
    list_put(out, p);
    for (int i = p * t->page; i < (p + 1) * t->page && i < step; i++)
      token[n++] = i;
  }
  odd |= stray(t, l, step, h, pages, out);
  list_end(out);
  if (t->permuted) list_permute(out);
  if (a) attend(t, l, step, h, n, token, a);
  return odd;
}

bool theirs_quest(const theirs *t, const char *decisions, const char *outputs) {
  const kv_shape *s = &t->trace->shape;
  book *b = book_open();
  answers a;
  bool odd = false;
  assert_true(s->n_tokens < MOST && s->n_heads <= HEADS_MOST);
  if (outputs) answers_open(t, &a);
  for (int l = 0; l < t->trace->n_layers; l++)
    for (int step = s->prompt_len + 1; step <= s->n_tokens; step++) {
      b->list[l].step[b->list[l].steps++] = step;
      for (int h = 0; h < s->n_heads; h++)
        odd |= quest_row(t, l, step, h, &b->list[l], outputs ? &a : NULL);
    }
  book_close(t, b, true, s->n_heads, decisions);
  if (outputs) answers_close(t, &a, outputs);
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
    list_put(out, back && i == 0 ? first_gone(c) : c->token[i]);
  if (more) list_put(out, gone);
  list_end(out);
  if (t->permuted) list_permute(out);
  return back || more;
}

bool theirs_h2o(const theirs *t, const char *decisions) {
  const kv_shape *s = &t->trace->shape;
  book *b = book_open();
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
  book_close(t, b, false, s->n_kv_heads, decisions);
  return odd;
}

/* --- snapkv ------------------------------------------------------------- */

bool theirs_snapkv(const theirs *t, const char *decisions) {
  enum { WINDOW_ROWS = 32, REACH = 3 };
  const kv_shape *s = &t->trace->shape;
  int p = s->prompt_len, past = p - WINDOW_ROWS;
  book *b = book_open();
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
  book_close(t, b, false, s->n_kv_heads, decisions);
  return false;
}

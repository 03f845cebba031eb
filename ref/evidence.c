/* SPDX-License-Identifier: Apache-2.0
 *
 * The prompt's evidence: query rows of a block against what a lane holds, in
 * ascending tiles, computed once for all stores that hold the same tokens.
 * Cost: rows * entries logits; memory: one tile.
 */
#include "ref/arith.h"
#include "ref/store.h"
#include <string.h>

static int first_wanted(const kv_store *s, int first) {
  int from = s->plan->shape->prompt_len - s->plan->needs.prompt_rows;
  return from > first ? from : first;
}

/* Do recorded sums stand in for rows that this layer does not have? */
static bool by_sums(const kv_store *s) {
  return s->plan->colsum && s->data->colsum && s->data->rows;
}

static bool wants_rows(const kv_store *s) {
  return s->plan->method->observe && s->plan->needs.prompt_rows > 0 &&
         !by_sums(s);
}

/* Rows [t, end) that the same stores want, at most one tile. */
static int tile_end(kv_store *const *s, int n, int first, int t, int last,
                    const kv_scratch *x) {
  int end = t + x->tile_rows < last ? t + x->tile_rows : last;
  for (int i = 0; i < n; i++) {
    int from = first_wanted(s[i], first);
    if (wants_rows(s[i]) && from > t && from < end) end = from;
  }
  return end;
}

static unsigned wanted(kv_store *const *s, int n, int first, int t) {
  unsigned want = 0;
  for (int i = 0; i < n; i++)
    if (wants_rows(s[i]) && first_wanted(s[i], first) <= t)
      want |= s[i]->plan->needs.want;
  return want;
}

/* Logits of the tile's rows; `seen` entries are seen by the last one. */
static void tile_logits(const kv_store *s, int g, int t, int rows, int seen,
                        kv_scratch *x) {
  size_t d = (size_t)s->plan->shape->d;
  const kv_lane *l = &s->lane[g * (s->lanes / s->plan->shape->n_kv_heads)];
  for (int r = 0; r < rows; r++)
    for (int h = 0; h < x->heads; h++) {
      float *q = x->q + (size_t)(r * x->heads + h) * d;
      kv_store_query(s, g * x->heads + h, t + r, q);
      kv_lane_query(l, s->plan->rope, &x->attend, q);
    }
  kv_lane_logits(s->plan->kernels, l, s->plan->rope, rows * x->heads, x->q, d,
                 0, seen, NULL, 0, x->s, x->stride, &x->attend);
}

/* Probabilities and their sums, each row over the entries that it sees.
 * Returns the first row with a logit that is not finite, or -1. A row goes
 * through everything while it is in the cache; probabilities that nobody asked
 * for take the place of the last ones. */
static int tile_evidence(const kv_store *s, int rows, int seen, unsigned want,
                         kv_scratch *x) {
  const kv_kernels *kernel = s->plan->kernels;
  int bad = -1;
  if (want & KV_SUM)
    for (int h = 0; h < x->heads; h++)
      memset(x->sum + (size_t)h * x->stride, 0, (size_t)seen * sizeof *x->sum);
  for (int i = 0; i < rows * x->heads; i++) {
    size_t at = (size_t)i * x->stride;
    int h = i % x->heads, visible = seen - (rows - 1 - i / x->heads);
    float *p = want & KV_P ? x->p + at : x->p;
    if (bad < 0 && !kv_all_finite(x->s + at, visible)) bad = i;
    if (!(want & (KV_P | KV_SUM))) continue;
    kv_evidence_row(kernel, visible, x->s + at, p);
    if (want & KV_SUM)
      kernel->fix_add(p, visible, x->sum + (size_t)h * x->stride);
  }
  return bad;
}

static void hand_out(kv_store *s, int g, int t, int rows, int seen,
                     kv_scratch *x) {
  int per_head = s->lanes / s->plan->shape->n_kv_heads;
  for (int i = 0; i < per_head; i++) {
    kv_lane *l = &s->lane[g * per_head + i];
    size_t h = (size_t)(l->first_head - g * x->heads);
    kv_store_observe(s, l,
                     (kv_rows){.first = t,
                               .rows = rows,
                               .heads = l->queries,
                               .places = x->heads,
                               .entries = seen,
                               .stride = x->stride,
                               .q = x->q + h * (size_t)s->plan->shape->d,
                               .s = x->s + h * x->stride,
                               .p = x->p + h * x->stride,
                               .sum = x->sum + h * x->stride},
                     x);
  }
}

/* The recorded sums of all prompt rows, as one tile without its rows. */
static void recorded_sums(kv_store *s, int g, kv_scratch *x) {
  size_t n = (size_t)s->data->colsum_len, row = n * sizeof *x->sum;
  const char *sums = (const char *)s->data->colsum;
  for (int h = 0; h < x->heads; h++)
    memcpy(x->sum + (size_t)h * x->stride,
           sums + (size_t)(g * x->heads + h) * row, row);
  hand_out(s, g, 0, (int)n, (int)n, x);
}

static void fail_lane(kv_store *s, int g, int t, const kv_scratch *x,
                      size_t row) {
  kv_lane *l = &s->lane[g * (s->lanes / s->plan->shape->n_kv_heads)];
  if (!l->fault.rc)
    kv_fail(&l->fault, KV_REFUSED,
            "layer %d, query head %d, row %d: a logit of the prompt is not "
            "finite",
            l->data->layer, g * x->heads + (int)row % x->heads,
            t + (int)row / x->heads);
}

void kv_ref_evidence(kv_store *const *s, int n, int g, int first, int count,
                     kv_scratch *x) {
  int last = first + count, t = last;
  for (int i = 0; i < n; i++)
    if (by_sums(s[i])) recorded_sums(s[i], g, x);
  for (int i = 0; i < n; i++)
    if (wants_rows(s[i]) && first_wanted(s[i], first) < t)
      t = first_wanted(s[i], first);
  for (int end; t < last; t = end) {
    end = tile_end(s, n, first, t, last, x);
    int rows = end - t;
    int held = s[0]->lane[g * (s[0]->lanes / s[0]->plan->shape->n_kv_heads)].n;
    int seen = held - (last - end);
    unsigned want = wanted(s, n, first, t);
    tile_logits(s[0], g, t, rows, seen, x);
    int bad = tile_evidence(s[0], rows, seen, want, x);
    for (int i = 0; i < n; i++) {
      if (!wants_rows(s[i]) || first_wanted(s[i], first) > t) continue;
      if (bad >= 0) fail_lane(s[i], g, t, x, (size_t)bad);
      hand_out(s[i], g, t, rows, seen, x);
    }
  }
  if (count > 1)
    kv_give_back(x->sum, (size_t)x->heads * x->stride * sizeof *x->sum);
}

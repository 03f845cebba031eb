/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows computed ahead: contract in ref/backend/ahead.h.
 */
#include "ref/backend/ahead.h"

#include "ref/backend/store.h"
#include "ref/ground/arith.h"
#include <stdlib.h>

/* --- room --------------------------------------------------------------- */

void kv_ahead_close(kv_ahead *a) {
  free(a->first);
  free(a->best);
  free(a->l);
  free(a->o);
  free(a->s);
}

/* True if logits are kept: no caller knows them, or rows are coded and have
 * their own. Merged rows would have their own too; but a method that merges
 * does so everywhere, at every step. */
static bool keeps(const kv_plan *p) { return !p->known || p->needs.codings; }

size_t kv_ahead_size(const kv_plan *plan, int tile) {
  size_t heads = (size_t)plan->shape->n_heads;
  if (tile < 2 || !keeps(plan)) return 0;
  return (size_t)tile * heads * kv_ref_stride(plan->shape) * sizeof(float);
}

kv_rc kv_ahead_open(const kv_plan *plan, int queries, kv_ahead *a, kv_err *e) {
  size_t rows = (size_t)plan->tile * (size_t)queries;
  size_t d_v = (size_t)plan->shape->d_v, stride = kv_ref_stride(plan->shape);
  *a = (kv_ahead){0};
  a->first = kv_zalloc(rows, sizeof *a->first);
  a->best = kv_zalloc(rows, sizeof *a->best);
  a->l = kv_zalloc(rows, sizeof *a->l);
  a->o = kv_zalloc(rows * d_v, sizeof *a->o);
  if (keeps(plan)) a->s = kv_zalloc(rows * stride, sizeof *a->s);
  if (a->first && a->best && a->l && a->o && (a->s || !keeps(plan)))
    return KV_OK;
  return kv_no_memory(e, "steps ahead", rows * stride * sizeof *a->s);
}

/* --- what stays --------------------------------------------------------- */

bool kv_ahead_serves(const kv_ahead *a, const kv_lane *l, int t) {
  return t >= a->t && t < a->t + a->steps && l->touched >= a->entries &&
         l->n > a->entries;
}

static bool compresses(const kv_store *s, int t, int steps) {
  const kv_method *m = s->plan->method;
  if (kv_plan_window(s->plan, s->data)) return true;
  if (t < s->shape.prompt_len) return false; /* rows of one chunk */
  if (!m->compress_lane && !m->compress_layer) return false;
  for (int r = 1; r < steps; r++)
    if (kv_compression_due(&s->plan->needs, &s->shape, t + r)) return true;
  return false;
}

/* How many entries, from the first on, are expected to stay for the tile. */
static int staying(const kv_store *s, const kv_lane *l, const kv_ahead *a,
                   int t, int steps) {
  const kv_method *m = s->plan->method;
  if (m->view || m->chunk || l->needs->reindex || l->fault.rc) return 0;
  if (l->rewritten && !a->s) return 0;
  bool recorded = !l->dropped && !l->holes && !l->rewritten;
  if (recorded && s->plan->known) return 0; /* what is lent has all of it */
  if (!compresses(s, t, steps)) return l->n;
  return a->known && a->reach < l->n ? l->n - a->reach : 0;
}

/* What the last tile's verbs have touched is what the next one's may. */
static void learn(kv_ahead *a, kv_lane *l) {
  a->known = l->step > l->shape->prompt_len;
  a->reach = l->touched < l->n ? l->n - l->touched : 0;
  kv_lane_mark(l);
}

/* --- a tile ------------------------------------------------------------- */

/* The rows of a lane in a tile: queries, known logits by token or NULL, and
 * logits of the tile's own tokens, which enter one by one. */
typedef struct rows {
  int n, queries;             /* queries: of one step */
  const float *q, *s, *fresh; /* of the first */
  size_t ldq, lds, ldf;       /* from row to row */
} rows;

static rows known_rows(const kv_store *s, const kv_lane *l, const kv_ahead *a,
                       const kv_known *known) {
  int group = kv_group(s->plan->shape), each = group / l->queries;
  size_t offset = (size_t)(l->first_head - l->kv_head * group);
  size_t d = (size_t)s->plan->shape->d;
  const float *logit = known->s + offset * known->stride;
  return (rows){.n = a->steps * l->queries,
                .queries = l->queries,
                .q = known->q + offset * d,
                .s = logit,
                .fresh = logit + a->t,
                .ldq = (size_t)each * d,
                .lds = (size_t)each * known->stride,
                .ldf = (size_t)each * known->stride};
}

/* The rows as the trace has them; the fresh logits stand behind those of the
 * lane's entries. */
static rows own_rows(kv_store *s, kv_lane *l, const kv_ahead *a,
                     kv_scratch *x) {
  const kv_shape *shape = s->plan->shape;
  size_t d = (size_t)shape->d, key = d * kv_dtype_size(shape->dtype);
  int n = a->steps * l->queries;
  for (int i = 0; i < n; i++)
    kv_store_query(s, l->first_head + i % l->queries, a->t + i / l->queries,
                   x->ahead_q + (size_t)i * d);
  for (int r = 0; r < a->steps; r++)
    x->attend.row[r] =
        (const char *)kv_lane_raw_key(l, 0) + (size_t)(a->t + r) * key;
  float *fresh = a->s + l->n;
  s->plan->kernels->logits(n, a->steps, shape->d, x->ahead_q, d, x->attend.row,
                           shape->dtype, shape->scale, fresh, x->stride,
                           x->attend.pack);
  s->plan->kernels->softcap(shape->softcap, n, a->steps, fresh, x->stride);
  return (rows){.n = n,
                .queries = l->queries,
                .q = x->ahead_q,
                .fresh = fresh,
                .ldq = d,
                .ldf = x->stride};
}

/* The largest logits of each row: of the first `entries`, and of everything
 * that it sees if nothing changes. False: one is not finite. */
static bool find_best(const kv_store *s, const kv_lane *l, const rows *w,
                      const float *logit, size_t lds, kv_ahead *a) {
  const kv_kernels *kernel = s->plan->kernels;
  for (int i = 0; i < w->n; i++) {
    const float *own = logit + (size_t)i * lds;
    const float *fresh = w->fresh + (size_t)i * w->ldf;
    int seen = i / w->queries + 1;
    if (!kv_all_finite(own, l->n) || !kv_all_finite(fresh, seen)) return false;
    a->first[i] = kernel->max(own, a->entries);
    const float *sink = kv_layer_sink(l->data, l->first_head + i % w->queries);
    a->best[i] = kv_max(kernel->max(own, l->n), kernel->max(fresh, seen));
    if (sink) a->best[i] = kv_max(a->best[i], *sink);
  }
  return true;
}

/* Weighs the first a->entries of the lane for every row. */
static void weigh(const kv_store *s, const kv_lane *l, const rows *w,
                  kv_ahead *a, kv_scratch *x) {
  float *logit = a->s ? a->s : x->ahead_s;
  kv_run run = {0, a->entries};
  kv_view view = {1, a->entries, &run};
  kv_lane_values values = {.lane = l, .view = &view};
  kv_lane_logits(s->plan->kernels, l, w->n, w->q, w->ldq, 0, l->n, w->s, w->lds,
                 logit, x->stride, &x->attend);
  if (!find_best(s, l, w, logit, x->stride, a)) {
    a->steps = 0;
    return;
  }
  kv_attend_begin(s->plan->kernels, w->n, a->entries, s->plan->shape->d_v,
                  logit, x->stride, kv_lane_value_rows, &values, &x->attend,
                  a->best, a->l, a->o);
}

void kv_ref_ahead(kv_store *s, int lane, int t, int steps,
                  const kv_known *known, kv_scratch *x) {
  kv_lane *l = &s->lane[lane];
  if (!s->ahead) return;
  kv_ahead *a = &s->ahead[lane];
  learn(a, l);
  a->t = t;
  a->steps = steps;
  a->entries = staying(s, l, a, t, steps) / KV_CHUNK * KV_CHUNK;
  if (a->entries == 0 || (s->plan->known && !known)) {
    a->steps = 0;
    return;
  }
  rows w = known ? known_rows(s, l, a, known) : own_rows(s, l, a, x);
  weigh(s, l, &w, a, x);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * A decode step of one lane: logits, views, coded rows decoded once, attention,
 * observation.
 *
 * Logits of all live entries are computed only if a view holds or ranks all of
 * them, or for observation. Otherwise only entries in a view get logits.
 */
#include "ref/backend/ahead.h"
#include "ref/backend/store.h"
#include "ref/ground/arith.h"
#include <stdlib.h>
#include <string.h>

/* The first query head of the lane, among those of its KV head. */
static int offset_of(const kv_store *s, const kv_lane *l) {
  return l->first_head - l->kv_head * kv_group(s->plan->shape);
}

static void load_queries(const kv_store *s, const kv_lane *l, int t,
                         const kv_known *known, kv_scratch *x) {
  size_t d = (size_t)s->plan->shape->d;
  int offset = offset_of(s, l);
  for (int h = 0; h < l->queries; h++) {
    float *q = x->q + (size_t)h * d;
    if (known)
      memcpy(q, known->q + (size_t)(offset + h) * d, d * sizeof *q);
    else
      kv_store_query(s, l->first_head + h, t, q);
    kv_lane_query(l, l->n - 1, &x->attend, q);
  }
}

/* Logits of heads h..h+m-1 against a run of entries. */
static void logits(const kv_store *s, const kv_lane *l, int h, int m,
                   kv_run run, const kv_known *known, kv_scratch *x) {
  int offset = offset_of(s, l) + h;
  bool use = known && known->s;
  size_t stride = use ? known->stride : 0, d = (size_t)s->plan->shape->d;
  if (run.count == 0) return;
  kv_lane_logits(s->plan->kernels, l, m, x->q + (size_t)h * d, d, run.first,
                 run.count, use ? known->s + (size_t)offset * stride : NULL,
                 stride, x->s + (size_t)h * x->stride, x->stride, &x->attend);
}

/* The row of steps ahead that serves token t of the lane, or NULL. */
static const kv_ahead *ahead_of(const kv_store *s, const kv_lane *l, int t) {
  const kv_ahead *a = s->ahead ? &s->ahead[l->lane] : NULL;
  return a && kv_ahead_serves(a, l, t) ? a : NULL;
}

/* Logits of all heads against all entries. */
static void all_logits(const kv_store *s, const kv_lane *l,
                       const kv_known *known, kv_scratch *x) {
  const kv_ahead *a = ahead_of(s, l, l->step - 1);
  int first = a && a->s ? a->entries : 0;
  for (int h = 0; h < l->queries && first; h++)
    memcpy(x->s + (size_t)h * x->stride,
           a->s + (size_t)((l->step - 1 - a->t) * l->queries + h) * x->stride,
           (size_t)first * sizeof *x->s);
  logits(s, l, 0, l->queries, (kv_run){first, l->n - first}, known, x);
}

static kv_query query_of(const kv_store *s, const kv_lane *l, int h,
                         const kv_scratch *x) {
  return (kv_query){
      .head = h,
      .queries = l->queries,
      .q = x->q + (size_t)h * (size_t)s->plan->shape->d,
      .group_q = x->q,
      .s = s->plan->needs.view_logits ? x->s + (size_t)h * x->stride : NULL};
}

static void look(kv_store *s, kv_lane *l, int h, kv_scratch *x) {
  kv_view *v = &x->view[h];
  const kv_method *method = s->plan->method;
  v->runs = v->entries = 0;
  if (!method->view) {
    kv_view_add(v, 0, l->n);
    return;
  }
  kv_query q = query_of(s, l, h, x);
  kv_at at = kv_store_at(s, l->step, x);
  kv_shows_hook hook;
  kv_shows_watch(&s->shows, l->lane, l->first_head + h, &hook);
  method->view(&at, l, &q, v);
  kv_shows_leave(&hook);
  kv_store_left(s, l, "view");
}

static void journal_view(kv_lane *l, int h, const kv_view *v) {
  uint32_t *w = kv_words_record(&l->views, KV_VIEW, l->data->layer, l->step,
                                l->first_head + h, 2 * (size_t)v->runs);
  for (int r = 0; w && r < v->runs; r++) {
    *w++ = (uint32_t)v->run[r].first;
    *w++ = (uint32_t)v->run[r].count;
  }
}

/* The logits of a view in its own order; copied unless it is one run. */
static const float *in_view_order(kv_scratch *x, int h) {
  const kv_view *v = &x->view[h];
  const float *s = x->s + (size_t)h * x->stride;
  if (v->runs == 1) return s + v->run[0].first;
  float *g = x->g + (size_t)h * x->stride;
  for (int r = 0, n = 0; r < v->runs; n += v->run[r++].count)
    memcpy(g + n, s + v->run[r].first, (size_t)v->run[r].count * sizeof *g);
  return g;
}

static void attend(kv_store *s, const kv_lane *l, int h, int m, kv_scratch *x) {
  size_t d_v = (size_t)s->plan->shape->d_v;
  kv_lane_values values = {.lane = l, .view = &x->view[h]};
  x->attend.sink = kv_layer_sink(l->data, l->first_head + h);
  kv_attend_rows(s->plan->kernels, m, x->view[h].entries, (int)d_v,
                 in_view_order(x, h), x->stride, kv_lane_value_rows, &values,
                 &x->attend, x->out + (size_t)h * d_v, x->lse + h);
  x->attend.sink = NULL;
}

static void check_finite(kv_lane *l, int h, kv_run run, const kv_scratch *x) {
  const float *s = x->s + (size_t)h * x->stride + run.first;
  if (l->fault.rc || kv_all_finite(s, run.count)) return;
  int i = 0;
  while (kv_finite(s[i])) i++;
  kv_fail(&l->fault, KV_REFUSED,
          "layer %d, query head %d, row %d: the logit of token %u is not "
          "finite",
          l->data->layer, l->first_head + h, l->step - 1, l->id[run.first + i]);
}

static void keep_outputs(kv_store *s, const kv_lane *l, const kv_scratch *x) {
  size_t d_v = (size_t)s->plan->shape->d_v;
  for (int h = 0; h < l->queries; h++) {
    float *o = s->out + (size_t)(l->first_head + h) * (d_v + 1);
    memcpy(o, x->out + (size_t)h * d_v, d_v * sizeof *o);
    o[d_v] = x->lse[h];
  }
}

/* Do all heads see every entry? Then they read K and V together. */
static bool everything(const kv_lane *l, const kv_scratch *x) {
  for (int h = 0; h < l->queries; h++)
    if (x->view[h].entries != l->n) return false;
  return true;
}

static void view_logits(kv_store *s, kv_lane *l, int h, const kv_known *known,
                        kv_scratch *x) {
  const kv_view *v = &x->view[h];
  bool own = l->rewritten || l->needs->reindex; /* no caller knows these */
  for (int r = 0; r < v->runs; r++) {
    if (!x->all) logits(s, l, h, 1, v->run[r], known, x);
    if (!known || own) check_finite(l, h, v->run[r], x);
  }
}

void kv_ref_view(kv_store *s, int lane, int t, const kv_known *known,
                 kv_scratch *x) {
  kv_lane *l = &s->lane[lane];
  const kv_needs *need = &s->plan->needs;
  load_queries(s, l, t, known, x);
  x->known = known;
  x->all = kv_needs_all_logits(need, s->plan->method->observe != NULL);
  if (x->all) all_logits(s, l, known, x);
  for (int h = 0; h < l->queries; h++) {
    look(s, l, h, x);
    if (!need->unread) journal_view(l, h, &x->view[h]);
  }
  x->together = everything(l, x);
}

/* Marks the entries in the view of any head. */
static void unite(const kv_lane *l, kv_scratch *x) {
  memset(x->seen, 0, (size_t)l->n * sizeof *x->seen);
  for (int h = 0; h < l->queries; h++)
    for (int r = 0; r < x->view[h].runs; r++) {
      kv_run run = x->view[h].run[r];
      memset(x->seen + run.first, 1, (size_t)run.count * sizeof *x->seen);
    }
}

void kv_ref_materialise(kv_store *s, int lane, kv_scratch *x) {
  const kv_lane *l = &s->lane[lane];
  if (x->together || l->queries == 1 || !l->rewritten) return;
  if (s->plan->needs.codings == 0) return;
  x->attend.materialised = x->materialised;
  if (x->all) x->attend.materialised.k = NULL; /* every key has been read */
  unite(l, x);
  for (int i = 0; i < l->n; i++)
    if (x->seen[i])
      kv_lane_materialise(l, i, &x->attend.materialised, &x->attend);
}

static bool sound(const kv_chunk *c, int d_v) {
  return kv_finite(c->m) && c->l >= 0x1p-64f && c->l <= 0x1p64f &&
         kv_all_finite(c->a, d_v);
}

/* Calls the hook chunk for head h. */
static void ask_chunk(kv_store *s, kv_lane *l, int h, kv_scratch *x) {
  int d_v = s->plan->shape->d_v;
  kv_chunk *c = &x->more[h];
  kv_query q = query_of(s, l, h, x);
  kv_at at = kv_store_at(s, l->step, x);
  float m = 0, sum = 0;
  bool there = s->plan->method->chunk(&at, l, &q, &m, &sum,
                                      x->more_a + (size_t)h * (size_t)d_v);
  kv_store_left(s, l, "chunk");
  c->m = m;
  c->l = sum;
  if (there && sound(c, d_v)) return;
  c->l = 0;
  if (there && !l->fault.rc)
    kv_fail(&l->fault, KV_REFUSED,
            "layer %d, query head %d, row %d: the method's own chunk holds NaN "
            "or Inf, or its l is not from 2^-64 to 2^64",
            l->data->layer, l->first_head + h, l->step - 1);
}

/* Attention of heads h..h+m-1, with the method's own chunks. */
static void attend_with(kv_store *s, const kv_lane *l, int h, int m,
                        kv_scratch *x) {
  if (s->plan->method->chunk) x->attend.more = x->more + h;
  attend(s, l, h, m, x);
  x->attend.more = NULL;
}

/* Does the lane hold exactly the tokens that the row sees, in order? These are
 * all tokens so far or, in a layer with a sliding window, the last ones. */
static bool holds_all(const kv_lane *l, const kv_known *known) {
  if (!l->dropped && !l->holes) return known->first == 0;
  return l->data->window && l->id[0] == (uint32_t)known->first &&
         l->n == l->step - known->first && kv_lane_is_run(l);
}

/* Does every head of the lane see exactly all tokens, as recorded? Then its
 * attention is already known. */
static bool as_known(const kv_store *s, const kv_lane *l, const kv_scratch *x) {
  return x->together && x->known && x->known->out && !x->all && !l->rewritten &&
         !l->needs->reindex && !s->plan->method->chunk &&
         holds_all(l, x->known);
}

static void take_known(kv_store *s, const kv_lane *l, kv_scratch *x) {
  size_t d_v = (size_t)s->plan->shape->d_v, heads = (size_t)l->queries;
  size_t offset = (size_t)offset_of(s, l);
  memcpy(x->out, x->known->out + offset * d_v, heads * d_v * sizeof *x->out);
  memcpy(x->lse, x->known->lse + offset, heads * sizeof *x->lse);
  keep_outputs(s, l, x);
}

/* All heads in one pass, which continues from what was computed ahead. */
static void attend_together(kv_store *s, const kv_lane *l, kv_scratch *x) {
  const kv_ahead *a = ahead_of(s, l, l->step - 1);
  kv_begun begun;
  if (a) {
    size_t at = (size_t)((l->step - 1 - a->t) * l->queries);
    begun = (kv_begun){.entries = a->entries,
                       .first = a->first + at,
                       .best = a->best + at,
                       .l = a->l + at,
                       .o = a->o + at * (size_t)s->plan->shape->d_v};
    x->attend.begun = &begun;
  }
  attend_with(s, l, 0, l->queries, x);
  x->attend.begun = NULL;
}

void kv_ref_attend(kv_store *s, int lane, kv_scratch *x) {
  kv_lane *l = &s->lane[lane];
  x->as_known = as_known(s, l, x);
  if (x->as_known) {
    take_known(s, l, x);
    return;
  }
  if (x->together && !x->all) {
    all_logits(s, l, x->known, x);
    x->all = true;
  }
  for (int h = 0; h < l->queries; h++) {
    view_logits(s, l, h, x->known, x);
    if (s->plan->method->chunk) ask_chunk(s, l, h, x);
  }
  if (x->together) attend_together(s, l, x);
  for (int h = 0; h < l->queries && !x->together; h++)
    attend_with(s, l, h, 1, x);
  x->attend.materialised = (kv_materialised){NULL, NULL};
  keep_outputs(s, l, x);
}

kv_seen kv_ref_seen(const kv_store *s, int lane, const kv_scratch *x) {
  const kv_lane *l = &s->lane[lane];
  size_t offset = (size_t)offset_of(s, l);
  return (kv_seen){.lane = l,
                   .queries = l->queries,
                   .view = x->view,
                   .s = x->as_known ? x->known->s + offset * x->known->stride +
                                          x->known->first
                                    : x->s,
                   .stride = x->as_known ? x->known->stride : x->stride,
                   .more = s->plan->method->chunk ? x->more : NULL,
                   .out = x->out,
                   .lse = x->lse};
}

/* Passes the step's row to the hook observe, from the attention's logits. */
void kv_ref_observe(kv_store *s, kv_lane *l, kv_scratch *x) {
  const kv_needs *need = &s->plan->needs;
  size_t n = (size_t)l->n;
  if (need->want & (KV_P | KV_SUM))
    for (int h = 0; h < l->queries; h++) {
      float *p = x->p + (size_t)h * x->stride;
      int64_t *sum = x->sum + (size_t)h * x->stride;
      float sink;
      kv_observation_sink(s->plan->kernels, l->n, x->s + (size_t)h * x->stride,
                          kv_layer_sink(l->data, l->first_head + h), p, &sink);
      if (!(need->want & KV_SUM)) continue;
      memset(sum, 0, n * sizeof *sum);
      s->plan->kernels->fix_add(p, l->n, sum);
    }
  kv_rows rows = {.first = l->step - 1,
                  .rows = 1,
                  .heads = l->queries,
                  .places = l->queries,
                  .entries = l->n,
                  .stride = x->stride,
                  .q = x->q,
                  .s = x->s,
                  .p = x->p,
                  .sum = x->sum};
  kv_store_observe(s, l, rows, x);
}

/* --- rows computed ahead: memory ----------------------------------------- */

void kv_ahead_close(kv_ahead *a) {
  free(a->first);
  free(a->best);
  free(a->l);
  free(a->o);
  free(a->s);
}

/* Are logits kept? They are if no caller knows them, or if rows are coded and
 * so have logits of their own. So do merged rows, but a method that merges
 * changes entries everywhere, at every step. */
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

/* --- rows computed ahead: prediction ------------------------------------- */

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
  if (recorded && s->plan->known) return 0; /* known rows cover it */
  if (!compresses(s, t, steps)) return l->n;
  return a->known && a->reach < l->n ? l->n - a->reach : 0;
}

/* Verbs in the next tile are expected to touch as many entries from the end as
 * verbs did in the last one. */
static void learn(kv_ahead *a, kv_lane *l) {
  a->known = l->step > l->shape->prompt_len;
  a->reach = l->touched < l->n ? l->n - l->touched : 0;
  kv_lane_mark(l);
}

/* --- rows computed ahead: a tile ----------------------------------------- */

/* The rows of a lane in a tile: queries, known logits by token or NULL, and
 * logits of the tile's own tokens, which enter one by one. */
typedef struct rows {
  int n, queries;             /* queries: of one step */
  const float *q, *s, *fresh; /* rows of the first step and head */
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

/* The rows as recorded. Fresh logits follow those of the lane's entries. */
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

/* Finds the largest logits of each row: over the first `entries`, and over
 * everything that the row sees if nothing changes. False: one is not finite. */
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * Collecting: the cell's method is wrapped so that the running hook is known,
 * and the selections made in it are collected.
 */
#include "sim/run/look/vectors_part.h"

#include "ref/ground/arith.h"
#include "ref/ground/float.h"
#include "ref/parts/parts.h"
#include <stdlib.h>
#include <string.h>

bool kv_vectors_wants(const kv_vectors *v, int step) {
  for (int i = 0; i < v->ask->steps; i++)
    if (v->ask->step[i] == step) return !v->fault.rc;
  return false;
}

/* The chosen and the evicted tokens of one selection have the same number. */
static int stage_of(const kv_vector *x) {
  return x->stage == KV_V_EVICTED ? (int)KV_V_CHOSEN : (int)x->stage;
}

static bool same_place(const kv_vector *a, const kv_vector *b) {
  return stage_of(a) == stage_of(b) && a->layer == b->layer &&
         a->step == b->step && a->head == b->head;
}

static bool grow(kv_vectors *v) {
  if (v->n < v->room) return true;
  int room = v->room ? 2 * v->room : 256;
  kv_vector *more = realloc(v->vector, (size_t)room * sizeof *more);
  if (!more) return false;
  v->vector = more;
  v->room = room;
  return true;
}

void kv_vectors_no_memory(kv_vectors *v, size_t bytes) {
  if (v->fault.rc) return;
  kv_fail(&v->fault, KV_RESOURCE,
          "not enough memory for vectors (%zu bytes); name fewer --steps or "
          "--layers",
          bytes);
}

void *kv_vectors_put(kv_vectors *v, const kv_vector *like) {
  if (v->fault.rc) return NULL;
  kv_vector x = *like;
  for (int i = v->n - 1; i >= 0 && v->vector[i].layer == x.layer; i--)
    x.again += same_place(&v->vector[i], like);
  size_t bytes = kv_vector_bytes(&x);
  if (!x.data) x.data = x.own = kv_zalloc(bytes + 1, 1);
  if (!x.data || !grow(v)) {
    free(x.own);
    kv_vectors_no_memory(v, bytes);
    return NULL;
  }
  v->vector[v->n++] = x;
  return x.own;
}

static kv_st_dtype st_type(kv_dtype t) {
  return t == KV_F16 ? KV_ST_F16 : t == KV_BF16 ? KV_ST_BF16 : KV_ST_F32;
}

/* --- selections --------------------------------------------------------- */

/* Adds the order, by rank, of indexes 0..n-1 that take part. */
static void put_order(kv_vectors *v, kv_vector at, const kv_selection *s,
                      int l) {
  int n = s->n[l], m = 0;
  size_t room = (size_t)n + 1;
  int32_t *list = kv_zalloc(room, sizeof *list);
  int32_t *spare = kv_zalloc(room, sizeof *spare);
  for (int i = 0; list && i < n; i++)
    if (!s->in || s->in[i]) list[m++] = i;
  at.stage = KV_V_ORDER;
  at.type = KV_ST_I32;
  at.rows = (size_t)m;
  int32_t *out = list && spare ? kv_vectors_put(v, &at) : NULL;
  if (out) {
    kv_order(s->score[l], m, list, spare);
    memcpy(out, list, (size_t)m * sizeof *out);
  } else {
    kv_vectors_no_memory(v, room);
  }
  free(list);
  free(spare);
}

static void put_chosen(kv_vectors *v, kv_vector at, const kv_selection *s,
                       int l) {
  at.stage = s->keep ? KV_V_CHOSEN : KV_V_EVICTED;
  at.type = KV_ST_I32;
  at.rows = s->keep ? 0 : 1;
  for (int i = 0; s->keep && i < s->n[l]; i++) at.rows += s->keep[l][i];
  int32_t *out = kv_vectors_put(v, &at), m = 0;
  if (!out) return;
  if (!s->keep) *out = s->one;
  for (int i = 0; s->keep && i < s->n[l]; i++)
    if (s->keep[l][i]) out[m++] = i;
}

/* Whose the l-th list of a selection is: the viewing query head's, the
 * compressing lane's, lane l's if all are ranked together, else the layer's
 * (-1). */
static int whose(const kv_vectors *v, const kv_selection *s, int l) {
  if (v->head >= 0) return v->head;
  if (v->lanes == 1 || s->lanes == v->lanes) return v->lane[l]->lane;
  return -1;
}

static void selected(void *self, const kv_selection *s) {
  kv_vectors *v = self;
  if (!v->at || !kv_vectors_wants(v, v->at->step)) return;
  for (int l = 0; l < s->lanes; l++) {
    kv_vector at = {.layer = v->at->layer,
                    .step = v->at->step,
                    .head = whose(v, s, l),
                    .width = 1};
    kv_vector scores = at;
    scores.stage = KV_V_SCORES;
    scores.type = KV_ST_F32;
    scores.rows = (size_t)s->n[l];
    float *out = kv_vectors_put(v, &scores);
    if (out) memcpy(out, s->score[l], (size_t)s->n[l] * sizeof *out);
    put_order(v, at, s, l);
    put_chosen(v, at, s, l);
  }
}

static const int32_t *keeps(void *self, const kv_lane *lane, const bool *flags,
                            const int32_t *list, int *n) {
  (void)self, (void)lane, (void)flags, (void)n;
  return list;
}

/* --- hooks -------------------------------------------------------------- */

static void put_stage(kv_vectors *v, const kv_at *at, const kv_lane *lane,
                      const kv_stage *s, int number) {
  kv_dtype type;
  int rows = 0, width = 0;
  s->size(at, lane, &type, &rows, &width);
  void *out = NULL;
  if (rows > 0)
    out = kv_vectors_put(v, &(kv_vector){.stage = KV_V_STAGES + number,
                                         .layer = at->layer,
                                         .step = at->step,
                                         .head = lane->lane,
                                         .type = st_type(type),
                                         .rows = (size_t)rows,
                                         .width = (size_t)width});
  if (out) s->copy(at, lane, out);
  kv_float_ground();
}

/* Adds the stages that each method on the lane defines. */
static void put_own_stages(kv_vectors *v, const kv_at *at,
                           const kv_lane *lane) {
  kv_method_part part[KV_MOST_PARTS];
  int parts = kv_parts_opened(v->method, at->params, at->needs, part), n = 0;
  for (int i = 0; i < parts; i++) {
    kv_at own = *at;
    own.params = (const char *)at->params + part[i].offset;
    own.needs = part[i].needs;
    own.column += part[i].column;
    own.coding += part[i].coding;
    own.state += part[i].state;
    const kv_stage *s = part[i].method->stages;
    for (int k = 0; s && s[k].name; k++) put_stage(v, &own, lane, &s[k], n++);
  }
}

static void put_columns(kv_vectors *v, const kv_at *at, const kv_lane *l) {
  for (int c = 0; c < at->needs->columns; c++) {
    bool whole = at->needs->column[c] == KV_INT64;
    size_t n = (size_t)l->n;
    void *out =
        kv_vectors_put(v, &(kv_vector){.stage = KV_V_COLUMN + c,
                                       .layer = at->layer,
                                       .step = at->step,
                                       .head = l->lane,
                                       .type = whole ? KV_ST_I64 : KV_ST_F32,
                                       .rows = n,
                                       .width = 1});
    if (!out) continue;
    const void *from = whole ? (void *)l->column[c].i : (void *)l->column[c].f;
    memcpy(out, from, n * (whole ? sizeof(int64_t) : sizeof(float)));
  }
}

/* Runs a hook; selections made inside it are attributed to it. */
static void call(const kv_around *around, kv_call *c) {
  kv_vectors *v = around->self;
  bool views = c->hook == KV_HOOK_view;
  if (kv_vectors_wants(v, c->at.step)) {
    if (views && c->query->head == 0) put_own_stages(v, &c->at, c->lane[0]);
    if (c->hook == KV_HOOK_compress_lane) put_columns(v, &c->at, c->lane[0]);
  }
  v->at = &c->at;
  v->lane = c->lane;
  v->lanes = c->lanes;
  v->head = views ? c->lane[0]->first_head + c->query->head : -1;
  kv_hook_call(around->inner, c);
  v->at = NULL;
}

static void compressed(void *self, int layer, int step, const kv_lane *l) {
  kv_vectors *v = self;
  if (!kv_vectors_wants(v, step)) return;
  int32_t *out = kv_vectors_put(v, &(kv_vector){.stage = KV_V_KEPT,
                                                .layer = layer,
                                                .step = step,
                                                .head = l->lane,
                                                .type = KV_ST_I32,
                                                .rows = (size_t)l->n,
                                                .width = 1});
  for (int i = 0; out && i < l->n; i++) out[i] = (int32_t)l->id[i];
}

/* --- inputs ------------------------------------------------------------- */

static void put_side(kv_vectors *v, int layer, int stage, int heads,
                     size_t rows, size_t all, int width, kv_dtype type,
                     const void *data) {
  const char *at = data;
  for (int h = 0; h < heads; h++) {
    kv_vector x = {.stage = stage,
                   .layer = layer,
                   .head = h,
                   .type = st_type(type),
                   .rows = rows,
                   .width = (size_t)width};
    x.data = at + (size_t)h * all * (size_t)width * kv_dtype_size(type);
    kv_vectors_put(v, &x);
  }
}

void kv_vectors_inputs(kv_vectors *v, const kv_layer_data *data) {
  const kv_shape *s = &v->cell->shape;
  int last = v->ask->step[v->ask->steps - 1], rows = data->rows ? 0 : last;
  size_t all = (size_t)s->n_tokens, n = (size_t)last;
  while (data->rows && rows < data->n_rows && data->rows[rows] < last) rows++;
  put_side(v, data->layer, KV_V_Q, s->n_heads, (size_t)rows,
           (size_t)data->n_rows, s->d, data->q_dtype, data->q);
  put_side(v, data->layer, KV_V_K, s->n_kv_heads, n, all, s->d, s->dtype,
           data->k);
  put_side(v, data->layer, KV_V_V, s->n_kv_heads, n, all, s->d_v, s->dtype,
           data->v);
  if (!data->rows) return;
  int32_t *out = kv_vectors_put(v, &(kv_vector){.stage = KV_V_ROWS,
                                                .layer = data->layer,
                                                .head = -1,
                                                .type = KV_ST_I32,
                                                .rows = (size_t)rows,
                                                .width = 1});
  if (out) memcpy(out, data->rows, (size_t)rows * sizeof *out);
}

/* --- life --------------------------------------------------------------- */

kv_rc kv_vectors_open(kv_vectors *v, const kv_vectors_ask *ask, kv_err *e) {
  const kv_shape *s = &ask->cell->shape;
  size_t d = (size_t)s->d;
  *v = (kv_vectors){.ask = ask, .cell = ask->cell, .head = -1};
  v->method = ask->cell->plan.method;
  v->around = (kv_around){.call = call,
                          .self = v,
                          .inner = v->method,
                          .also = 1u << KV_HOOK_compress_lane};
  v->shown = kv_method_around(&v->around);
  v->looks = (kv_selecting){v, selected, keeps};
  v->watch =
      (kv_watch){.self = v, .compressed = compressed, .seen = kv_vectors_seen};
  v->row = kv_zalloc(d, sizeof *v->row);
  v->sc = kv_zalloc(d, sizeof *v->sc);
  if (!v->row || !v->sc) return kv_no_memory(e, "vectors", d);
  kv_selecting_now = &v->looks;
  return KV_OK;
}

void kv_vectors_close(kv_vectors *v) {
  kv_selecting_now = NULL;
  for (int i = 0; i < v->n; i++) free(v->vector[i].own);
  free(v->vector);
  free(v->row);
  free(v->sc);
}

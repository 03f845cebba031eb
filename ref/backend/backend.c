/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference backend: stores, compression and digests. Attention is in
 * decode.c, the prompt's observation in observation.c, memory of a thread in
 * scratch.c.
 */
#include "ref/backend/store.h"
#include "ref/ground/arith.h"
#include "ref/lane/compose.h"
#include <stdlib.h>
#include <string.h>

static void close_store(kv_store *s) {
  if (!s) return;
  for (int i = 0; s->lane && i < s->lanes; i++) kv_lane_release(&s->lane[i]);
  for (int i = 0; s->ahead && i < s->lanes; i++) kv_ahead_close(&s->ahead[i]);
  kv_future_close(s->future);
  free(s->ahead);
  free(s->lane);
  free(s->out);
  free(s->state);
  free(s->message);
  kv_shows_close(&s->shows);
  kv_turns_close(&s->turns);
  kv_places_close(s->places);
  free(s);
}

static kv_rc open_ahead(kv_store *s, kv_err *e) {
  kv_rc rc = KV_OK;
  s->ahead = kv_zalloc((size_t)s->lanes, sizeof *s->ahead);
  if (!s->ahead) return kv_no_memory(e, "steps ahead", sizeof *s->ahead);
  for (int i = 0; !rc && i < s->lanes; i++)
    rc = kv_ahead_open(s->plan, s->lane[i].queries, &s->ahead[i], e);
  return rc;
}

static kv_rc open_store(const kv_plan *plan, kv_store **out, kv_err *e) {
  const kv_shape *shape = plan->shape;
  kv_store *s = kv_zalloc(1, sizeof *s);
  size_t heads = (size_t)shape->n_heads, d_v = (size_t)shape->d_v;
  if (!s) return kv_no_memory(e, "a store", sizeof *s);
  s->opened = s->plan = plan;
  s->shape = *shape;
  s->lanes = kv_lane_count(&plan->needs, shape);
  s->lane = kv_zalloc((size_t)s->lanes, sizeof *s->lane);
  s->out = kv_zalloc(heads * (d_v + 1), sizeof *s->out);
  s->state = kv_zalloc((size_t)s->lanes, sizeof *s->state);
  kv_rc rc = KV_OK;
  if (plan->needs.message > 0) s->message = kv_zalloc(1, plan->needs.message);
  if (plan->needs.message > 0 && !s->message)
    rc = kv_no_memory(e, "a message", plan->needs.message);
  if (!s->lane || !s->out || !s->state)
    rc = kv_no_memory(e, "a store", heads * (d_v + 1) * sizeof *s->out);
  if (!rc && plan->needs.rope)
    rc = kv_turns_open(plan->rope, shape->n_tokens, shape->d, plan->needs.ahead,
                       &s->turns, e);
  if (!rc && plan->needs.reindex)
    rc = kv_places_open(plan->rope, shape->n_tokens, shape->d, &s->places, e);
  for (int i = 0; !rc && i < s->lanes; i++) {
    rc =
        kv_lane_init(&s->lane[i], &s->shape, &plan->needs, plan->kernels, i, e);
    if (plan->needs.rope) s->lane[i].turns = &s->turns;
    s->lane[i].places = s->places;
  }
  if (!rc) rc = kv_future_open(plan, s->lanes, s->lane, &s->future, e);
  if (!rc && plan->tile > 1) rc = open_ahead(s, e);
  if (!rc && plan->scores)
    rc = kv_shows_open(s->lanes, plan->shown, &s->shows, e);
  if (rc)
    close_store(s);
  else
    *out = s;
  return rc;
}

static int lanes(const kv_store *s) { return s->lanes; }
static const kv_lane *lane(const kv_store *s, int i) { return &s->lane[i]; }

/* --- hooks -------------------------------------------------------------- */

kv_at kv_store_at(const kv_store *s, int step, kv_scratch *x) {
  x->work.used = 0;
  return (kv_at){.shape = &s->shape,
                 .needs = &s->plan->needs,
                 .params = s->plan->params,
                 .layer = s->data->layer,
                 .step = step,
                 .rope = s->plan->needs.rope ? s->plan->rope : NULL,
                 .kernels = s->plan->kernels,
                 .work = &x->work,
                 .above = s->above,
                 .method = s->plan->method,
                 .asset = s->asset};
}

void kv_store_left(const kv_store *s, kv_lane *l, const char *hook) {
  kv_sweep(l);
  const char *mode = kv_float_astray();
  if (!mode) return;
  kv_float_ground();
  if (l->fault.rc) return;
  kv_fail(&l->fault, KV_REFUSED,
          "%s of %s returns with %s; a hook that changes the floating-point "
          "mode must restore it",
          hook, s->plan->method->name, mode);
}

void kv_store_observe(kv_store *s, kv_lane *l, kv_rows rows, kv_scratch *x) {
  unsigned want = s->plan->needs.want;
  if (!(want & KV_Q)) rows.q = NULL; /* only what is wanted is defined */
  if (!(want & KV_S)) rows.s = NULL;
  if (!(want & KV_P)) rows.p = NULL;
  if (!(want & KV_SUM)) rows.sum = NULL;
  l->room = x->room;
  kv_at at = kv_store_at(s, l->step, x);
  s->plan->method->observe(&at, l, &rows);
  kv_store_left(s, l, "observe");
}

void kv_store_query(const kv_store *s, int h, int t, float *out) {
  const kv_layer_data *data = s->data;
  size_t d = (size_t)s->plan->shape->d;
  size_t row = (size_t)h * (size_t)data->n_rows + (size_t)kv_layer_row(data, t);
  const char *q =
      (const char *)data->q + row * d * kv_dtype_size(data->q_dtype);
  s->plan->kernels->widen(data->q_dtype, q, d, out);
}

/* --- the calls of a layer ----------------------------------------------- */

static void begin(kv_store *s, const kv_layer_data *data) {
  s->data = data;
  s->plan = kv_plan_of(s->opened, data->layer);
  s->shape.prompt_len = s->opened->shape->prompt_len;
  s->asset = kv_asset_layer(s->plan->asset, data->layer);
  for (int i = 0; i < s->lanes; i++)
    kv_lane_begin(&s->lane[i], &s->plan->needs, data);
  for (int i = 0; s->ahead && i < s->lanes; i++) s->ahead[i].steps = 0;
  kv_future_begin(s->future);
  s->above = NULL;
  s->published = false;
  kv_leaves_begin(&s->leaves);
  kv_shows_clear(&s->shows);
}

static void prompt(kv_store *s, int end) { s->shape.prompt_len = end; }

static void append(kv_store *s, int i, int first, int count, kv_scratch *x) {
  kv_lane *l = &s->lane[i];
  int from = l->n;
  l->room = x->room;
  kv_lane_append(l, first, count);
  bool never = s->plan->needs.arrive_in_prompt && l->step > s->shape.prompt_len;
  if (!s->plan->method->arrive || never) return;
  kv_at at = kv_store_at(s, l->step, x);
  s->plan->method->arrive(&at, l, from);
  kv_store_left(s, l, "arrive");
}

static bool due(const kv_store *s, int step) {
  return kv_compression_due(&s->plan->needs, &s->shape, step);
}

static bool changes(const kv_store *s, int step) {
  return kv_plan_due(s->plan, s->data, &s->shape, step);
}

static void compress_stored(kv_store *s, int i, kv_scratch *x) {
  kv_lane *l = &s->lane[i];
  if (!due(s, l->step) || !s->plan->method->compress_lane) return;
  kv_shows_hook hook;
  kv_at at = kv_store_at(s, l->step, x);
  kv_shows_watch(&s->shows, i, -1, &hook);
  s->plan->method->compress_lane(&at, l);
  kv_shows_leave(&hook);
  kv_store_left(s, l, "compress_lane");
}

static void observe_step(kv_store *s, kv_lane *l, kv_scratch *x) {
  l->room = x->room;
  if (l->step > s->shape.prompt_len && s->plan->needs.decode_rows &&
      s->plan->method->observe)
    kv_ref_observe(s, l, x);
}

/* For backends that read queries: computes future rows before compressing. */
static void compress_foreseen(kv_store *s, int i, kv_scratch *x) {
  if (due(s, s->lane[i].step)) kv_future_reach(s->future, &s->lane[i]);
  compress_stored(s, i, x);
}

static void compress(kv_store *s, int i, kv_scratch *x) {
  kv_lane *l = &s->lane[i];
  observe_step(s, l, x);
  if (changes(s, l->step)) s->state[i] = kv_lane_state(l);
  kv_ref_slide(s, l);
  compress_foreseen(s, i, x);
}

static void compress_unhashed(kv_store *s, int i, kv_scratch *x) {
  observe_step(s, &s->lane[i], x);
  kv_ref_slide(s, &s->lane[i]);
  compress_foreseen(s, i, x);
}

static void compress_blindly(kv_store *s, int i, kv_scratch *x) {
  s->lane[i].room = x->room;
  kv_ref_slide(s, &s->lane[i]);
  compress_stored(s, i, x);
}

static void compress_layer(kv_store *s, kv_scratch *x) {
  const kv_method *method = s->plan->method;
  if (!method->compress_layer || !due(s, s->lane[0].step)) return;
  kv_at at = kv_store_at(s, s->lane[0].step, x);
  kv_lane **all = KV_TAKE(&x->work, kv_lane *, s->lanes);
  for (int i = 0; i < s->lanes; i++) {
    all[i] = &s->lane[i];
    s->lane[i].room = x->room;
  }
  kv_shows_hook hook;
  kv_shows_watch(&s->shows, KV_SHOWN_LAYER, -1, &hook);
  method->compress_layer(&at, all, s->lanes);
  kv_shows_leave(&hook);
  for (int i = 0; i < s->lanes; i++)
    kv_store_left(s, &s->lane[i], "compress_layer");
}

/* --- messages ----------------------------------------------------------- */

static void receive(kv_store *s, const kv_message *above) {
  s->above = above;
  s->published = false;
}

static const kv_message *publish(kv_store *s, kv_scratch *x) {
  const kv_method *method = s->plan->method;
  if (!method->publish) return NULL;
  kv_at at = kv_store_at(s, s->lane[0].step, x);
  const kv_lane **all = KV_TAKE(&x->work, const kv_lane *, s->lanes);
  for (int i = 0; i < s->lanes; i++) all[i] = &s->lane[i];
  memset(s->message, 0, s->plan->needs.message);
  s->published = method->publish(&at, all, s->lanes, s->message);
  for (int i = 0; i < s->lanes; i++) kv_store_left(s, &s->lane[i], "publish");
  s->said = (kv_message){s->data->layer, s->message};
  return s->published ? &s->said : NULL;
}

/* --- digests ------------------------------------------------------------ */

static void end_step(kv_store *s) {
  const kv_shape *shape = &s->shape;
  int step = s->lane[0].step;
  kv_leaves_records(&s->leaves, s->lanes, s->lane,
                    s->published ? &s->said : NULL, s->plan->needs.message);
  if (changes(s, step)) kv_leaves_state(&s->leaves, s->lanes, s->state);
  if (kv_row_attends(shape, step)) kv_leaves_output(&s->leaves, shape, s->out);
  kv_leaves_scores(&s->leaves, &s->shows, step);
}

static kv_layer_digests finish(kv_store *s) {
  for (int i = 0; i < s->lanes; i++) s->state[i] = kv_lane_state(&s->lane[i]);
  kv_leaves_state(&s->leaves, s->lanes, s->state);
  return kv_leaves_end(&s->leaves);
}

static const kv_err *fault(const kv_store *s) {
  for (int i = 0; i < s->lanes; i++)
    if (s->lane[i].fault.rc) return &s->lane[i].fault;
  return NULL;
}

static void copy(const kv_store *from, kv_store *to) {
  size_t out = (size_t)from->shape.n_heads * ((size_t)from->shape.d_v + 1);
  to->shape.prompt_len = from->shape.prompt_len;
  to->leaves = from->leaves;
  memcpy(to->out, from->out, out * sizeof *to->out);
  for (int i = 0; i < from->lanes; i++)
    kv_lane_copy(&from->lane[i], &to->lane[i]);
}

/* What the three reference backends share. */
#define STORES                                                                 \
  .threads = true, .open = open_store, .close = close_store,                   \
  .scratch_open = kv_ref_scratch_open, .scratch_close = kv_ref_scratch_close,  \
  .lanes = lanes, .lane = lane, .begin = begin, .prompt = prompt,              \
  .receive = receive, .append = append, .seen = kv_ref_seen,                   \
  .compress_layer = compress_layer, .publish = publish, .copy = copy,          \
  .fault = fault

const kv_backend kv_backend_ref = {.name = "ref",
                                   STORES,
                                   .observation = kv_ref_observation,
                                   .ahead = kv_ref_ahead,
                                   .view = kv_ref_view,
                                   .materialise = kv_ref_materialise,
                                   .attend = kv_ref_attend,
                                   .compress = compress,
                                   .end_step = end_step,
                                   .finish = finish};

/* --- the cost backend ---------------------------------------------------- */

static void nothing(kv_store *s, int i, kv_scratch *x) {
  (void)s, (void)i, (void)x;
}

static void unattended(kv_store *s, int i, kv_scratch *x) {
  (void)s, (void)i;
  x->as_known = false;
}

static void forget_step(kv_store *s) {
  for (int i = 0; i < s->lanes; i++) {
    kv_words_clear(&s->lane[i].views);
    kv_words_clear(&s->lane[i].verbs);
  }
}

static kv_layer_digests no_digests(kv_store *s) {
  (void)s;
  return (kv_layer_digests){0};
}

const kv_backend kv_backend_cost = {.name = "cost",
                                    STORES,
                                    .observation = kv_ref_observation,
                                    .view = kv_ref_view,
                                    .materialise = nothing,
                                    .attend = unattended,
                                    .compress = compress_unhashed,
                                    .end_step = forget_step,
                                    .finish = no_digests};

/* --- the blind backend --------------------------------------------------- */

static void no_observation(kv_store *const *s, int n, int g, int first,
                           int count, kv_scratch *x) {
  (void)s, (void)n, (void)g, (void)first, (void)count, (void)x;
}

static void see_everything(kv_store *s, int i, int t, const kv_known *known,
                           kv_scratch *x) {
  (void)t, (void)known;
  for (int h = 0; h < s->lane[i].queries; h++) {
    x->view[h].runs = x->view[h].entries = 0;
    kv_view_add(&x->view[h], 0, s->lane[i].n);
  }
}

const kv_backend kv_backend_blind = {.name = "blind",
                                     STORES,
                                     .observation = no_observation,
                                     .view = see_everything,
                                     .materialise = nothing,
                                     .attend = nothing,
                                     .compress = compress_blindly,
                                     .end_step = forget_step,
                                     .finish = no_digests};

/* --- a sliding window moves over a lane ----------------------------------- */

/* Contract: ref/backend/store.h. After `step` tokens, the next one sees tokens
 * from step - W + 1 on. Earlier tokens are useless to every method and leave in
 * the same way for all. */

/* Keeps entries list[0..m), ascending, of n in the rows of needs.slid of each
 * method on the lane. */
static void move_rows(const kv_store *s, kv_lane *l, int n, int m,
                      const int32_t *list) {
  const kv_plan *p = s->plan;
  kv_method_part part[KV_MOST_PARTS];
  int parts = kv_parts_opened(p->method, p->params, &p->needs, part);
  for (int i = 0; i < parts; i++)
    for (int r = 0; r < part[i].needs->slid; r++) {
      int64_t *row = (int64_t *)(void *)((char *)l->own + part[i].state) +
                     (size_t)r * (size_t)s->shape.n_tokens;
      for (int j = 0; j < m; j++) row[j] = row[list[j]];
      memset(row + m, 0, (size_t)(n - m) * sizeof *row);
    }
}

void kv_ref_slide(kv_store *s, kv_lane *l) {
  int w = kv_plan_window(s->plan, s->data), from = l->step - w + 1, m = 0;
  int32_t *list = l->room.list;
  if (w == 0 || from <= 0) return;
  for (int i = 0; i < l->n; i++)
    if (l->id[i] >= (uint32_t)from) list[m++] = i;
  if (m == l->n) return;
  move_rows(s, l, l->n, m, list);
  kv_keep(l, m, list);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The replay of the method rig; its laws are in tests/support/rig_law.c.
 */
#include "tests/support/rig.h"
#include "gpu/host/backends.h"
#include "ref/backend/store.h"
#include "ref/ground/arith.h"
#include "sim/ask/spec.h"
#include "sim/replay/engine/messages.h"
#include "sim/replay/engine/order.h"
#include "traces/decisions/asset.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct head_seen { /* copied: what seen returns lives one call */
  kv_view view;
  uint32_t *id; /* [view.entries] */
  float *out;
} head_seen;

struct rig {
  rig_case c;
  kv_shape shape;
  kv_rope rope;
  kv_layer_data data;
  kv_spec spec;
  kv_asset *asset; /* of its files, joined */
  kv_plan plan;
  kv_store *store;
  kv_scratch *scratch;
  kv_messages *messages; /* of layers above and of this one; NULL: none */
  const rig *above;      /* whose messages they are; NULL: its own */
  int step;
  kv_err *fault;   /* where one is expected: it is put there */
  uint16_t *k, *v; /* F16 copies, where the case is half */
  head_seen *seen; /* [heads] */
};

const kv_backend *rig_backend(void) {
  static const kv_backend *chosen;
  const char *name = getenv("KV_TEST_BACKEND");
  kv_err e;
  if (!chosen) chosen = kv_backend_find(name ? name : "ref", &e);
  if (!chosen) fail_msg("%s", e.text);
  return chosen;
}

/* The backend of the rig. */
static const kv_backend *of(const rig *r) {
  return r->c.backend ? r->c.backend : rig_backend();
}

bool rig_wants_file(const kv_method *m) {
  const kv_param *p = kv_method_file(m, 0);
  return p && p->fallback && strcmp(p->fallback, KV_FILE_BESIDE) == 0;
}

bool rig_in_session(const kv_method *m) {
  return !rig_wants_file(m) && strcmp(m->name, "oracle-evict") != 0;
}

static void good(kv_rc rc, const kv_err *e) {
  if (rc) fail_msg("%s", e->text);
}

static kv_shape shape_of(const rig_case *c) {
  float scale = c->scale != 0 ? c->scale : (float)(1.0 / sqrt((double)c->d));
  return (kv_shape){.n_layers = c->n_layers ? c->n_layers : 1,
                    .n_heads = c->heads,
                    .n_kv_heads = c->kv_heads,
                    .d = c->d,
                    .d_v = c->d_v,
                    .n_tokens = c->n_tokens,
                    .prompt_len = c->prompt_len,
                    .dtype = c->half ? KV_F16 : KV_F32,
                    .scale = scale};
}

static uint16_t *halves(const float *x, size_t n) {
  uint16_t *h = malloc(n * sizeof *h);
  assert_non_null(h);
  for (size_t i = 0; i < n; i++) h[i] = kv_to_f16(x[i]);
  return h;
}

static size_t rows_of(const rig_case *c, int heads) {
  return (size_t)heads * (size_t)c->n_tokens;
}

static void give_data(rig *r) {
  const rig_case *c = &r->c;
  size_t rows = rows_of(c, c->kv_heads);
  if (c->half) {
    r->k = halves(c->k, rows * (size_t)c->d);
    r->v = halves(c->v, rows * (size_t)c->d_v);
  }
  r->data = (kv_layer_data){.layer = c->layer,
                            .q = c->q,
                            .k = c->half ? (const void *)r->k : c->k,
                            .v = c->half ? (const void *)r->v : c->v,
                            .q_dtype = KV_F32,
                            .n_rows = c->n_tokens,
                            .k_bias = c->k_bias};
  r->rope = (kv_rope){c->positions, c->inv_freq, c->interleaved};
}

static bool is_scores(const kv_asset_kind *kind) {
  return kind->format && strcmp(kind->format, "kvscores") == 0;
}

/* Nobody reads a file here: the case has what it holds. */
static void lend(const rig_case *c, kv_spec *s) {
  const kv_param *p;
  for (int i = 0; (p = kv_method_file(s->method, i)); i++)
    kv_spec_file(s, i)->asset = is_scores(p->reads) ? c->scores : c->asset;
}

/* What they hold together, as the engine joins them. */
static kv_asset *join(const kv_spec *s) {
  const kv_asset_kind *kind[KV_SPEC_FILES];
  kv_asset *file[KV_SPEC_FILES], *all = NULL;
  const kv_param *p;
  kv_err e;
  int n = 0;
  for (; (p = kv_method_file(s->method, n)); n++) {
    kind[n] = p->reads;
    file[n] = (kv_asset *)(uintptr_t)kv_spec_file(s, n)->asset;
  }
  good(kv_assets_join(n, kind, file, &all, &e), &e);
  return all;
}

kv_rc rig_try(const rig_case *c, const char *spec, kv_needs *needs, kv_err *e) {
  kv_spec s = {0};
  kv_needs own = {0}, *n = needs ? needs : &own;
  kv_shape shape = shape_of(c);
  *n = (kv_needs){0};
  kv_rc rc = kv_spec_parse(kv_method_at, spec, &s, e);
  if (!rc) lend(c, &s);
  if (!rc) rc = s.method->open(&shape, s.params, n, e);
  kv_spec_free(&s);
  return rc;
}

kv_needs rig_needs(const rig_case *c, const char *spec) {
  kv_needs needs = {0};
  kv_err e = {0};
  if (rig_try(c, spec, &needs, &e)) fail_msg("%s: %s", spec, e.text);
  return needs;
}

/* --- a replay ------------------------------------------------------------ */

static void copy_seen(void *self, int who, const kv_seen *s) {
  rig *r = self;
  (void)who;
  for (int h = 0; h < s->queries; h++) {
    head_seen *to = &r->seen[s->lane->first_head + h];
    const kv_view *v = &s->view[h];
    to->view.runs = v->runs;
    to->view.entries = v->entries;
    memcpy(to->view.run, v->run, (size_t)v->runs * sizeof *v->run);
    memcpy(to->out, s->out + (size_t)h * (size_t)r->c.d_v,
           (size_t)r->c.d_v * sizeof *to->out);
    int n = 0;
    for (int i = 0; i < v->runs; i++)
      for (int j = 0; j < v->run[i].count; j++)
        to->id[n++] = s->lane->id[v->run[i].first + j];
    assert_int_equal(n, v->entries);
  }
}

/* The engine's order of calls on the rig's one store. */
static kv_order order_of(rig *r, const kv_rider *rider) {
  return (kv_order){.riders = 1,
                    .rider = rider,
                    .heads = r->c.kv_heads,
                    .self = r,
                    .attended = copy_seen};
}

static kv_rider rider_of(const rig *r) {
  return (kv_rider){.backend = of(r),
                    .store = r->store,
                    .scratch = r->scratch,
                    .above = r->messages,
                    .below = r->messages,
                    .alone = true};
}

static void close_step(rig *r, const kv_order *o, int step) {
  r->step = step;
  kv_order_close(o);
  const kv_err *fault = of(r)->fault(r->store);
  if (fault && r->fault)
    *r->fault = *fault;
  else if (fault)
    fail_msg("%s", fault->text);
}

static void enter(rig *r, int first, int count) {
  kv_rider rider = rider_of(r);
  kv_order o = order_of(r, &rider);
  bool rows = r->shape.chunk && first;
  o.closing = rows ? first / r->shape.chunk : 0;
  if (r->shape.chunk) of(r)->prompt(r->store, first + count);
  kv_order_receive(&o);
  for (int t = first; rows && t < first + count; t++) {
    if (t > first) kv_order_row_close(&o);
    for (int g = 0; g < r->c.kv_heads; g++) kv_order_row(&o, g, t);
  }
  for (int g = 0; g < r->c.kv_heads; g++)
    (rows ? kv_order_rows_end : kv_order_prompt)(&o, g, first, count);
  close_step(r, &o, first + count);
}

static bool failed(const rig *r) { return r->fault && r->fault->rc; }

static void enter_prompt(rig *r) {
  int most = r->plan.needs.block, p = r->c.prompt_len;
  if (most == 0) most = r->shape.chunk ? r->shape.chunk : p;
  for (int first = 0; first < p && !failed(r); first += most)
    enter(r, first, p - first < most ? p - first : most);
}

static void decode(rig *r) {
  kv_rider rider = rider_of(r);
  kv_order o = order_of(r, &rider);
  kv_order_receive(&o);
  for (int g = 0; g < r->c.kv_heads; g++) kv_order_decode(&o, g, r->step);
  close_step(r, &o, r->step + 1);
}

static rig *open(const rig_case *c, const char *spec, rig *above,
                 kv_err *fault) {
  kv_err e = {0};
  rig *r = calloc(1, sizeof *r);
  assert_non_null(r);
  r->c = *c;
  r->fault = fault;
  r->shape = shape_of(c);
  give_data(r);
  good(kv_spec_parse(kv_method_at, spec, &r->spec, &e), &e);
  r->shape.chunk = r->spec.chunk;
  lend(c, &r->spec);
  r->asset = join(&r->spec);
  r->plan = (kv_plan){.shape = &r->shape,
                      .rope = &r->rope,
                      .kernels = kv_kernels_best(),
                      .method = r->spec.method,
                      .params = r->spec.params,
                      .asset = r->asset};
  good(r->plan.method->open(&r->shape, r->spec.params, &r->plan.needs, &e), &e);
  if ((r->plan.needs.reindex || r->plan.needs.rope) && !c->inv_freq)
    fail_msg("%s: the case has no inv_freq", spec);
  if (r->plan.needs.key_bias && !c->k_bias)
    fail_msg("%s: the case has no k_bias", spec);
  const kv_plan *plan = &r->plan;
  r->above = above;
  if (above)
    r->messages = above->messages;
  else if (plan->needs.across == KV_DOWN)
    good(kv_messages_open(plan->needs.message, 256, &r->messages, &e), &e);
  good(of(r)->open(plan, &r->store, &e), &e);
  good(of(r)->scratch_open(&r->shape, &plan, 1, &r->scratch, &e), &e);
  r->seen = calloc((size_t)c->heads, sizeof *r->seen);
  for (int h = 0; h < c->heads; h++) {
    r->seen[h].view.run = calloc((size_t)c->n_tokens + 1, sizeof(kv_run));
    r->seen[h].out = calloc((size_t)c->d_v, sizeof(float));
    r->seen[h].id = calloc((size_t)c->n_tokens, sizeof(uint32_t));
  }
  kv_float_ground();
  of(r)->begin(r->store, &r->data);
  enter_prompt(r);
  return r;
}

rig *rig_open(const rig_case *c, const char *spec) {
  return open(c, spec, NULL, NULL);
}

rig *rig_below(const rig_case *c, const char *spec, rig *above) {
  return open(c, spec, above, NULL);
}

kv_err rig_fault(const rig_case *c, const char *spec) {
  kv_err fault = {0};
  rig *r = open(c, spec, NULL, &fault);
  while (!failed(r) && r->step < c->n_tokens) decode(r);
  rig_close(r);
  return fault;
}

void rig_fails(const rig_case *c, const char *spec, const char *sentence) {
  kv_err fault = rig_fault(c, spec);
  assert_int_equal(fault.rc, KV_REFUSED);
  assert_string_equal(fault.text, sentence);
}

void rig_close(rig *r) {
  if (!r) return;
  for (int h = 0; h < r->c.heads; h++) {
    free(r->seen[h].view.run);
    free(r->seen[h].out);
    free(r->seen[h].id);
  }
  free(r->seen);
  of(r)->scratch_close(r->scratch);
  of(r)->close(r->store);
  if (!r->above) kv_messages_close(r->messages);
  kv_spec_free(&r->spec);
  kv_asset_close(r->asset);
  free(r->k);
  free(r->v);
  free(r);
}

void rig_to(rig *r, int step) {
  assert_in_range(step, r->step, r->c.n_tokens);
  while (r->step < step) decode(r);
}

/* --- looking ------------------------------------------------------------- */

int rig_step(const rig *r) { return r->step; }
int rig_lanes(const rig *r) { return of(r)->lanes(r->store); }

const kv_lane *rig_lane(const rig *r, int lane) {
  return of(r)->lane(r->store, lane);
}

int rig_ids(const rig *r, int lane, uint32_t *out) {
  const kv_lane *l = rig_lane(r, lane);
  memcpy(out, l->id, (size_t)l->n * sizeof *out);
  return l->n;
}

static void text_of(int n, const uint32_t *id, char *out, size_t size) {
  size_t at = 0;
  *out = 0;
  for (int i = 0; i < n && at < size; i++)
    at += (size_t)snprintf(out + at, size - at, " %u", id[i]);
}

static void same_ids(const rig *r, const char *what, int which, int n,
                     const uint32_t *id, const int *expected) {
  char got[2048], want[2048];
  int m = 0;
  while (expected[m] >= 0) m++;
  bool same = n == m;
  for (int i = 0; same && i < n; i++) same = (int)id[i] == expected[i];
  if (same) return;
  text_of(n, id, got, sizeof got);
  text_of(m, (const uint32_t *)expected, want, sizeof want);
  fail_msg("%s %d, step %d: tokens%s, expected%s", what, which, r->step, got,
           want);
}

void rig_holds(const rig *r, int lane, const int *ids) {
  const kv_lane *l = rig_lane(r, lane);
  same_ids(r, "lane", lane, l->n, l->id, ids);
}

void rig_saw(const rig *r, int head, const int *ids) {
  const head_seen *s = &r->seen[head];
  same_ids(r, "query head", head, s->view.entries, s->id, ids);
}

const kv_view *rig_view(const rig *r, int head) { return &r->seen[head].view; }
const float *rig_out(const rig *r, int head) { return r->seen[head].out; }

int rig_seen(const rig *r, int head, uint32_t *out) {
  int n = r->seen[head].view.entries;
  memcpy(out, r->seen[head].id, (size_t)n * sizeof *out);
  return n;
}

kv_layer_digests rig_digests(rig *r) {
  rig_to(r, r->c.n_tokens);
  return of(r)->finish(r->store);
}

kv_layer_digests rig_replay(const rig_case *c, const char *spec) {
  rig *r = rig_open(c, spec);
  kv_layer_digests d = rig_digests(r);
  rig_close(r);
  return d;
}

bool rig_same(const kv_digest *a, const kv_digest *b) {
  return memcmp(a->byte, b->byte, sizeof a->byte) == 0;
}

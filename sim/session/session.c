/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing a session: a trace in memory, one cell on it, and every
 * layer in flight.
 */
#include "sim/session/session_part.h"
#include "sim/spec/knob.h"

#include "ref/ground/arith.h"
#include "ref/ground/large.h"
#include "traces/decisions/asset.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int kv_session_abi(void) { return KV_SESSION_ABI; }

kv_rc kv_session_none(kv_err *e) {
  return kv_fail(e, KV_USAGE, "there is no session: kv_session_open makes one");
}

/* --- the shape ---------------------------------------------------------- */

/* Limits far above any model, with which products fit their types. */
enum {
  LAYERS_MOST = 10000,
  HEADS_MOST = 4096,
  DIM_MOST = 4096,
  TOKENS_MOST = 1 << 22,
  GROUP_TOKENS_MOST = 1 << 28 /* query heads of a KV head x tokens */
};

static kv_rc count(const char *what, int value, int least, int most,
                   kv_err *e) {
  if (value >= least && value <= most) return KV_OK;
  return kv_fail(e, KV_USAGE, "%s is %d and must be between %d and %d", what,
                 value, least, most);
}

static kv_rc check_counts(const kv_session_shape *x, int prompt_len,
                          kv_err *e) {
  kv_rc rc = count("n_layers", x->n_layers, 1, LAYERS_MOST, e);
  if (!rc) rc = count("n_heads", x->n_heads, 1, HEADS_MOST, e);
  if (!rc) rc = count("n_kv_heads", x->n_kv_heads, 1, x->n_heads, e);
  if (!rc) rc = count("d", x->d, 1, DIM_MOST, e);
  if (!rc) rc = count("d_v", x->d_v, 1, DIM_MOST, e);
  if (!rc) rc = count("n_tokens", x->n_tokens, 1, TOKENS_MOST, e);
  if (!rc) rc = count("prompt_len", prompt_len, 1, x->n_tokens, e);
  if (!rc) rc = count("dtype", x->dtype, KV_F16, KV_F32, e);
  if (rc) return rc;
  if (x->n_heads % x->n_kv_heads)
    return kv_fail(e, KV_USAGE,
                   "%d query heads do not divide among %d KV heads; repeated "
                   "KV heads are given once",
                   x->n_heads, x->n_kv_heads);
  if ((int64_t)(x->n_heads / x->n_kv_heads) * x->n_tokens > GROUP_TOKENS_MOST)
    return kv_fail(e, KV_USAGE,
                   "%d tokens and %d query heads a KV head are more than a "
                   "session can hold; lower n_tokens",
                   x->n_tokens, x->n_heads / x->n_kv_heads);
  if (!kv_finite(x->scale) || x->scale < 0)
    return kv_fail(e, KV_USAGE,
                   "scale is %g and must be above 0, or 0 for 1/sqrt(d)",
                   (double)x->scale);
  return KV_OK;
}

static kv_rc check_fed(const kv_session_shape *x, kv_err *e) {
  if (x->n_fed == 0) return KV_OK;
  if (x->n_fed < 0 || x->n_fed > x->n_layers || !x->fed)
    return kv_fail(e, KV_USAGE,
                   "n_fed is %d: give as many of the %d layers in fed, or 0 "
                   "for all",
                   x->n_fed, x->n_layers);
  for (int i = 0; i < x->n_fed; i++)
    if (x->fed[i] < (i ? x->fed[i - 1] + 1 : 0) || x->fed[i] >= x->n_layers)
      return kv_fail(e, KV_USAGE,
                     "fed[%d] is %d: layers are numbered 0 to %d, ascending", i,
                     x->fed[i], x->n_layers - 1);
  return KV_OK;
}

static kv_rc check_rope(const kv_session_shape *x, kv_err *e) {
  float most = 0;
  if (x->inv_freq && x->d % 2)
    return kv_fail(e, KV_USAGE, "inv_freq is given, but d is odd: %d", x->d);
  for (int i = 0; x->inv_freq && i < x->d / 2; i++) {
    float w = fabsf(x->inv_freq[i]);
    if (!kv_finite(w))
      return kv_fail(e, KV_USAGE, "inv_freq[%d] is not finite", i);
    if (w > most) most = w;
  }
  for (int i = 0; i < x->n_tokens; i++) {
    int p = x->positions ? x->positions[i] : i;
    if (p < 0)
      return kv_fail(e, KV_USAGE, "positions[%d] is %d, below 0", i, p);
    if ((float)p * most >= 0x1p24f)
      return kv_fail(e, KV_USAGE,
                     "inv_freq gives an angle of 2^24 or more at token %d", i);
  }
  return KV_OK;
}

static kv_rc check_shape(const kv_session_shape *x, int prompt_len, kv_err *e) {
  if (x->abi != KV_SESSION_ABI)
    return kv_fail(e, KV_USAGE,
                   "the shape says ABI %d and this library has %d: build "
                   "against its header",
                   x->abi, KV_SESSION_ABI);
  kv_rc rc = check_counts(x, prompt_len, e);
  if (!rc) rc = check_fed(x, e);
  if (!rc) rc = kv_session_check_variant(x, e);
  return rc ? rc : check_rope(x, e);
}

/* --- memory ------------------------------------------------------------- */

/* Copies an array; NULL stays NULL. Clears *ok if memory ends. */
static void *copy(const void *from, size_t n, size_t size, bool *ok) {
  void *p = from ? kv_zalloc(n + 1, size) : NULL;
  if (p) memcpy(p, from, n * size);
  *ok = *ok && (p || !from);
  return p;
}

static kv_rc make_trace(kv_session *s, const kv_session_shape *x,
                        int prompt_len, kv_err *e) {
  kv_trace *t = &s->trace;
  bool ok = true;
  t->path = t->name = "session";
  t->n_layers = x->n_fed ? x->n_fed : x->n_layers;
  t->rope_scale = 1;
  t->reads = &kv_asset_reads;
  t->shape = (kv_shape){
      .n_layers = x->n_layers,
      .n_heads = x->n_heads,
      .n_kv_heads = x->n_kv_heads,
      .d = x->d,
      .d_v = x->d_v,
      .n_tokens = x->n_tokens,
      .prompt_len = prompt_len,
      .dtype = (kv_dtype)x->dtype,
      .scale = x->scale > 0 ? x->scale : (float)(1.0 / sqrt((double)x->d))};
  s->positions = copy(x->positions, (size_t)x->n_tokens, 4, &ok);
  s->inv_freq = copy(x->inv_freq, (size_t)x->d / 2, 4, &ok);
  t->rope = (kv_rope){s->positions, s->inv_freq, x->interleaved != 0};
  t->layer = kv_zalloc((size_t)t->n_layers, sizeof *t->layer);
  s->fed = kv_zalloc((size_t)t->n_layers, sizeof *s->fed);
  if (!ok || !t->layer || !s->fed)
    return kv_no_memory(e, "a session", (size_t)x->n_tokens * 4);
  for (int i = 0; i < t->n_layers; i++)
    t->layer[i].data.layer = x->n_fed ? x->fed[i] : i;
  return kv_session_take_variant(s, x, e);
}

/* K and V of all layers in one block on large pages: a fork copies them
 * all, and small ones would cost it as much again. */
static kv_rc take_rows(kv_session *s, kv_err *e) {
  const kv_shape *p = &s->cell.shape;
  size_t n =
      (size_t)s->trace.n_layers * (size_t)p->n_kv_heads * (size_t)p->n_tokens;
  size_t token = (size_t)(p->d + p->d_v) * kv_dtype_size(p->dtype);
  s->kv = kv_zalloc_large(n, token);
  if (!s->kv) return kv_no_memory(e, "keys and values", n * token);
  kv_large_at_once(s->kv, n * token);
  return KV_OK;
}

static kv_rc take_layer(kv_session *s, int i, kv_err *e) {
  const kv_shape *p = &s->cell.shape;
  kv_fed *f = &s->fed[i];
  size_t t = (size_t)p->n_tokens, size = kv_dtype_size(p->dtype);
  size_t heads = (size_t)p->n_heads, kv_heads = (size_t)p->n_kv_heads;
  size_t d = (size_t)p->d, d_v = (size_t)p->d_v;
  size_t rows = (size_t)s->asked;
  f->q = kv_zalloc(heads * rows * d + 1, sizeof(float));
  f->rows = kv_zalloc(rows + 1, sizeof *f->rows);
  f->step_q = kv_zalloc(heads * d, sizeof(float));
  f->out = kv_zalloc(heads * d_v, sizeof *f->out);
  f->lse = kv_zalloc(heads, sizeof *f->lse);
  f->id = kv_zalloc((size_t)s->lanes * t, sizeof *f->id);
  f->same = kv_zalloc((size_t)s->lanes, sizeof *f->same);
  f->run = kv_zalloc(heads * s->most_runs, sizeof *f->run);
  f->runs = kv_zalloc(heads, sizeof *f->runs);
  f->told = kv_zalloc((size_t)s->lanes, sizeof *f->told);
  if (!f->q || !f->rows || !f->step_q || !f->out || !f->lse || !f->id ||
      !f->same || !f->run || !f->runs || !f->told)
    return kv_no_memory(e, "a layer of a session", rows * heads * d * 4);
  for (int r = 0; r < s->asked; r++) f->rows[r] = p->prompt_len - s->asked + r;
  f->k = s->kv + (size_t)i * kv_heads * t * (d + d_v) * size;
  f->v = f->k + kv_heads * t * d * size;
  kv_layer_data *data = f->data = &s->trace.layer[i].data;
  data->q = f->q; /* changed by session_feed.c */
  data->k = f->k;
  data->v = f->v;
  data->n_rows = (int)rows;
  data->rows = f->rows;
  kv_rc rc =
      kv_layer_open(&kv_backend_ref, s->cells, 1, &s->watch, &f->layer, e);
  if (!rc) kv_layer_begin(f->layer, i);
  return rc;
}

/* Prompt tokens that are attended at once: as many as make about 64 query rows
 * (sim/measure/tile.h has measured it), while their logits stay within 4 MiB,
 * of which the processor's second cache still holds a part. */
static int tile_of(size_t group, size_t stride) {
  size_t rows = ((size_t)1 << 20) / stride;
  size_t tile = (rows < 64 ? rows : 64) / group;
  return tile < 1 ? 1 : (int)tile;
}

static kv_rc take_scratch(kv_session *s, kv_err *e) {
  const kv_shape *p = &s->cell.shape;
  const kv_plan *plan = &s->cell.plan;
  size_t group = (size_t)kv_group(p), d = (size_t)p->d, d_v = (size_t)p->d_v;
  s->stride = ((size_t)p->n_tokens + 15) / 16 * 16;
  s->tile = tile_of(group, s->stride);
  size_t rows = (size_t)s->tile * group;
  s->row = kv_zalloc(d > d_v ? d : d_v, sizeof *s->row);
  s->q = kv_zalloc(rows * d, sizeof *s->q);
  s->s = kv_zalloc(rows * s->stride, sizeof *s->s);
  s->o = kv_zalloc(rows * d_v, sizeof *s->o);
  s->l = kv_zalloc(rows, sizeof *s->l);
  if (!s->row || !s->q || !s->s || !s->o || !s->l)
    return kv_no_memory(e, "a session", rows * s->stride * sizeof *s->s);
  kv_rc rc = kv_attend_scratch_init(&s->attend, p->d, p->d_v, (int)rows,
                                    p->n_tokens, e);
  if (rc) return rc;
  return kv_worker_open(&kv_backend_ref, p, &plan, 1, &s->worker, e);
}

/* --- what the engine tells ---------------------------------------------- */

static void note_fault(kv_session *s, const kv_lane *l) {
  if (l->fault.rc && !s->hand->fault.rc) s->hand->fault = l->fault;
}

static void compressed(void *self, int layer, int step, const kv_lane *l) {
  kv_session *s = self;
  (void)layer, (void)step;
  if (l->verbs.n) s->hand->same[l->lane] = 0;
  note_fault(s, l);
}

static void copy_ids(kv_fed *f, const kv_lane *l) {
  size_t at = (size_t)l->lane * (size_t)l->shape->n_tokens;
  int same = f->same[l->lane];
  memcpy(f->id + at + same, l->id + same,
         (size_t)(l->n - same) * sizeof *f->id);
  f->same[l->lane] = l->n;
}

static void seen(void *self, int layer, int step, const kv_seen *x) {
  kv_session *s = self;
  const kv_lane *l = x->lane;
  kv_fed *f = s->hand;
  size_t d_v = (size_t)l->shape->d_v, first = (size_t)l->first_head;
  (void)layer, (void)step;
  memcpy(f->out + first * d_v, x->out,
         (size_t)x->queries * d_v * sizeof *f->out);
  memcpy(f->lse + first, x->lse, (size_t)x->queries * sizeof *f->lse);
  copy_ids(f, l);
  for (int h = 0; h < x->queries; h++) {
    size_t head = first + (size_t)h;
    f->runs[head] = x->view[h].runs;
    memcpy(f->run + head * s->most_runs, x->view[h].run,
           (size_t)x->view[h].runs * sizeof *f->run);
  }
  note_fault(s, l);
}

static void row(void *self, int layer, const kv_seen *x) {
  kv_session *s = self;
  const kv_lane *l = x->lane;
  (void)layer;
  for (int h = 0; s->row_out && h < x->queries; h++)
    kv_session_give(s, s->row_out, s->row_place, l->first_head + h,
                    x->out + (size_t)h * (size_t)l->shape->d_v);
  note_fault(s, l);
}

/* --- life --------------------------------------------------------------- */

/* Opens the cell: method, parameters and budget. */
static kv_rc make_cell(kv_session *s, const kv_spec *spec, const char *budget,
                       kv_asset *const *files, kv_err *e) {
  kv_budget b = {0};
  kv_asset *file[KV_SPEC_FILES] = {NULL};
  kv_asked_cell asked = {.spec = spec, .entries = -1, .files = file};
  for (int i = 0; files && i < KV_SPEC_FILES; i++) file[i] = files[i];
  kv_rc rc = budget ? kv_budget_parse(budget, &b, e) : KV_OK;
  if (!rc && budget && kv_budget_in_bytes(&b))
    rc = kv_fail(e, KV_USAGE,
                 "budget %s is one of bytes, which takes a search over a "
                 "recorded trace; give entries (512), a share of the prompt "
                 "(20%%) or a compression ratio (ratio:0.8)",
                 budget);
  if (!rc && budget && !b.layers)
    rc = kv_budget_entries(&b, s->trace.shape.prompt_len, &asked.entries, e);
  asked.budget = kv_knob_takes(spec, budget ? &b : NULL) ? &b : NULL;
  if (!rc) rc = kv_session_take_given(s, spec, file, e);
  if (!rc)
    rc = kv_cell_open(&s->trace, 0, kv_kernels_best(), &asked, &s->cell, e);
  kv_budget_free(&b);
  if (!rc && !kv_result_ran(&s->cell.result))
    rc = kv_fail(e, KV_REFUSED, "%s", s->cell.result.reason);
  if (!rc && s->cell.plan.needs.future)
    rc = kv_fail(e, KV_REFUSED,
                 "%s decides by what queries still to come attend to, and here "
                 "tokens come one by one; replay a recorded trace with it "
                 "(kvreplay run)",
                 spec->method->name);
  return rc;
}

static kv_rc open(kv_session *s, const kv_session_shape *x, const kv_spec *spec,
                  const char *budget, int prompt_len, kv_asset *const *files,
                  kv_err *e) {
  kv_rc rc = make_trace(s, x, prompt_len, e);
  if (!rc) rc = make_cell(s, spec, budget, files, e);
  if (!rc) rc = kv_cell_prepare(&s->cell, false, false, e);
  if (rc) return rc;
  s->cells[0] = &s->cell;
  s->watch =
      (kv_watch){.self = s, .compressed = compressed, .seen = seen, .row = row};
  s->lanes = kv_lane_count(&s->cell.plan.needs, &s->cell.shape);
  s->most_runs = (size_t)x->n_tokens / 2 + 1;
  if (s->cell.plan.method->observe) s->asked = s->cell.plan.needs.prompt_rows;
  if (s->asked > prompt_len || s->cell.shape.chunk) s->asked = prompt_len;
  rc = take_scratch(s, e);
  if (!rc) rc = take_rows(s, e);
  for (int i = 0; !rc && i < s->trace.n_layers; i++) rc = take_layer(s, i, e);
  return rc;
}

kv_rc kv_session_open_spec(const kv_session_shape *shape, const kv_spec *spec,
                           const char *budget, int prompt_len,
                           kv_asset *const *files, kv_session **out,
                           kv_err *e) {
  fenv_t mode;
  *out = NULL;
  kv_rc rc = check_shape(shape, prompt_len, e);
  if (rc) return rc;
  kv_session *s = kv_zalloc(1, sizeof *s);
  if (!s) return kv_no_memory(e, "a session", sizeof *s);
  fegetenv(&mode);
  kv_float_ground();
  rc = open(s, shape, spec, budget, prompt_len, files, e);
  fesetenv(&mode);
  if (rc)
    kv_session_close(s);
  else
    *out = s;
  return rc;
}

kv_rc kv_session_open(const kv_session_shape *shape, const char *text,
                      const char *budget, int prompt_len, kv_session **out,
                      kv_err *e) {
  kv_spec spec = {0};
  if (!out) return kv_fail(e, KV_USAGE, "there is no place for the session");
  *out = NULL;
  if (!shape || !text)
    return kv_fail(e, KV_USAGE, "a session needs a shape and a method");
  fenv_t mode;
  fegetenv(&mode);
  kv_float_ground(); /* before numbers are parsed */
  kv_rc rc = kv_spec_parse(kv_method_at, text, &spec, e);
  if (!rc)
    rc = kv_session_open_spec(shape, &spec, budget, prompt_len, NULL, out, e);
  fesetenv(&mode);
  kv_spec_free(&spec);
  return rc;
}

static void close_fed(kv_fed *f) {
  kv_layer_close(f->layer);
  void *const block[] = {f->q,  f->rows, f->step_q, f->out,  f->lse,
                         f->id, f->same, f->run,    f->runs, f->told};
  for (size_t i = 0; i < sizeof block / sizeof *block; i++) free(block[i]);
}

void kv_session_close(kv_session *s) {
  if (!s) return;
  for (int i = 0; s->fed && i < s->trace.n_layers; i++) close_fed(&s->fed[i]);
  kv_worker_close(&kv_backend_ref, &s->worker);
  kv_attend_scratch_release(&s->attend);
  kv_cell_close(&s->cell);
  kv_asset_close(s->given);
  kv_session_free_variant(s);
  void *const block[] = {s->fed, s->kv,       s->trace.layer, s->positions,
                         s->row, s->inv_freq, s->q,           s->s,
                         s->o,   s->l};
  for (size_t i = 0; i < sizeof block / sizeof *block; i++) free(block[i]);
  free(s);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing a session: a trace in memory, one cell on it, and every
 * layer in flight.
 */
#include "sim/run/session/session_part.h"

#include "ref/ground/arith.h"
#include "ref/ground/large.h"
#include "ref/lane/decisions.h"
#include "ref/lane/needs.h"
#include "sim/ask/spec.h"
#include "traces/decisions/asset.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static kv_rc session_take_given(kv_session *s, const kv_spec *spec,
                                kv_asset *file[KV_SPEC_FILES], kv_err *e);

static kv_rc session_take_variant(kv_session *s, const kv_session_shape *x,
                                  kv_err *e);

static kv_rc session_check_variant(const kv_session_shape *x, kv_err *e);

int kv_session_abi(void) { return KV_SESSION_ABI; }

kv_rc kv_session_none(kv_err *e) {
  return kv_fail(e, KV_USAGE, "there is no session; kv_session_open makes one");
}

/* --- the shape ---------------------------------------------------------- */

/* Limits far above any model, within which products fit their types. */
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
  return kv_fail(e, KV_USAGE, "%s is %d; it must be from %d to %d", what, value,
                 least, most);
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
                   "%d query heads do not divide by %d KV heads; count "
                   "repeated KV heads once",
                   x->n_heads, x->n_kv_heads);
  if ((int64_t)(x->n_heads / x->n_kv_heads) * x->n_tokens > GROUP_TOKENS_MOST)
    return kv_fail(e, KV_USAGE,
                   "%d tokens and %d query heads a KV head exceed a session's "
                   "limit; lower n_tokens",
                   x->n_tokens, x->n_heads / x->n_kv_heads);
  if (!kv_finite(x->scale) || x->scale < 0)
    return kv_fail(e, KV_USAGE,
                   "scale is %g; it must be above 0, or 0 for 1/sqrt(d)",
                   (double)x->scale);
  return KV_OK;
}

static kv_rc check_fed(const kv_session_shape *x, kv_err *e) {
  if (x->n_fed == 0) return KV_OK;
  if (x->n_fed < 0 || x->n_fed > x->n_layers || !x->fed)
    return kv_fail(
        e, KV_USAGE,
        "n_fed is %d; give that many of the %d layers in fed, or 0 for all",
        x->n_fed, x->n_layers);
  for (int i = 0; i < x->n_fed; i++)
    if (x->fed[i] < (i ? x->fed[i - 1] + 1 : 0) || x->fed[i] >= x->n_layers)
      return kv_fail(
          e, KV_USAGE,
          "fed[%d] is %d; layers are numbered 0 to %d and must ascend", i,
          x->fed[i], x->n_layers - 1);
  return KV_OK;
}

static kv_rc check_rope(const kv_session_shape *x, kv_err *e) {
  float most = 0;
  if (x->inv_freq && x->d % 2)
    return kv_fail(e, KV_USAGE, "inv_freq needs an even d, not %d", x->d);
  for (int i = 0; x->inv_freq && i < x->d / 2; i++) {
    float w = fabsf(x->inv_freq[i]);
    if (!kv_finite(w))
      return kv_fail(e, KV_USAGE, "inv_freq[%d] is not finite", i);
    if (w > most) most = w;
  }
  for (int i = 0; i < x->n_tokens; i++) {
    int p = x->positions ? x->positions[i] : i;
    if (p < 0)
      return kv_fail(e, KV_USAGE, "positions[%d] is %d; it must be 0 or more",
                     i, p);
    if ((float)p * most >= 0x1p24f)
      return kv_fail(e, KV_USAGE,
                     "inv_freq gives an angle of 2^24 or more at token %d", i);
  }
  return KV_OK;
}

static kv_rc check_shape(const kv_session_shape *x, int prompt_len, kv_err *e) {
  if (x->abi != KV_SESSION_ABI)
    return kv_fail(e, KV_USAGE,
                   "the shape has ABI %d but this library has %d; build "
                   "against its header",
                   x->abi, KV_SESSION_ABI);
  kv_rc rc = check_counts(x, prompt_len, e);
  if (!rc) rc = check_fed(x, e);
  if (!rc) rc = session_check_variant(x, e);
  return rc ? rc : check_rope(x, e);
}

/* --- memory ------------------------------------------------------------- */

/* Copies an array; NULL stays NULL. Clears *ok without memory. */
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
  return session_take_variant(s, x, e);
}

/* Allocates K and V of all layers as one block on large pages. A fork copies
 * them all, and small pages would double its cost. */
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

/* Prompt tokens that attend at once: about 64 query rows (measured, see
 * sim/replay/measure/tile.h), while their logits stay within 4 MiB, which the
 * L2 cache still partly holds. */
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

/* --- callbacks of the engine --------------------------------------------- */

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
                 "budget %s is in bytes, which needs a search over a recorded "
                 "trace; give entries (512), a share of the prompt (20%%) or a "
                 "compression ratio (ratio:0.8)",
                 budget);
  if (!rc && budget && !b.layers)
    rc = kv_budget_entries(&b, s->trace.shape.prompt_len, &asked.entries, e);
  asked.budget = kv_knob_takes(spec, budget ? &b : NULL) ? &b : NULL;
  if (!rc) rc = session_take_given(s, spec, file, e);
  if (!rc)
    rc = kv_cell_open(&s->trace, 0, kv_kernels_best(), &asked, &s->cell, e);
  kv_budget_free(&b);
  if (!rc && !kv_result_ran(&s->cell.result))
    rc = kv_fail(e, KV_REFUSED, "%s", s->cell.result.reason);
  if (!rc && s->cell.plan.needs.future)
    rc = kv_fail(e, KV_REFUSED,
                 "%s decides by future queries, which a session does not have; "
                 "replay a recorded trace with it (kvreplay run)",
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
  if (!out) return kv_fail(e, KV_USAGE, "the pointer for the session is NULL");
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

/* --- variant ------------------------------------------------------------- */

/* Properties of a session's model besides plain causal attention, as in traces
 * of version 2: windows, a cap on logits, sinks, other frequencies in windowed
 * layers. They go into the session's trace, as in a recorded one. */

static kv_rc check_frequencies(const kv_session_shape *x, kv_err *e) {
  if (x->inv_freq_windowed && !x->inv_freq)
    return kv_fail(e, KV_USAGE, "inv_freq_windowed needs inv_freq; give both");
  for (int i = 0; x->inv_freq_windowed && i < x->d / 2; i++)
    if (!kv_finite(x->inv_freq_windowed[i]))
      return kv_fail(e, KV_USAGE, "inv_freq_windowed[%d] is not finite", i);
  return KV_OK;
}

/* Checks the shape's softcap, window, sinks and inv_freq_windowed (KV_USAGE).
 * The function below puts them into the trace, whose shape and layers' numbers
 * are set (KV_RESOURCE: memory). */
static kv_rc session_check_variant(const kv_session_shape *x, kv_err *e) {
  if (!kv_finite(x->softcap) || x->softcap < 0)
    return kv_fail(e, KV_USAGE,
                   "softcap is %g; it must be above 0, or 0 for none",
                   (double)x->softcap);
  for (int l = 0; x->window && l < x->n_layers; l++)
    if (x->window[l] < 0 || x->window[l] == 1)
      return kv_fail(
          e, KV_USAGE,
          "window[%d] is %d; it must be 2 tokens or more, or 0 for no window",
          l, x->window[l]);
  for (int i = 0; x->sinks && i < x->n_layers * x->n_heads; i++)
    if (!kv_finite(x->sinks[i]))
      return kv_fail(e, KV_USAGE,
                     "the sink of layer %d, query head %d is not finite",
                     i / x->n_heads, i % x->n_heads);
  for (int i = 0; x->k_bias && i < x->n_layers * x->n_kv_heads * x->d; i++)
    if (!kv_finite(x->k_bias[i]))
      return kv_fail(
          e, KV_USAGE, "k_bias of layer %d, KV head %d, is not finite at %d",
          i / x->d / x->n_kv_heads, i / x->d % x->n_kv_heads, i % x->d);
  return check_frequencies(x, e);
}

/* Copies n numbers of 4 bytes; NULL stays NULL. Clears *ok without memory. */
static void *variant_copy(const void *from, size_t n, bool *ok) {
  void *p = from ? kv_zalloc(n + 1, 4) : NULL;
  if (p) memcpy(p, from, n * 4);
  *ok = *ok && (p || !from);
  return p;
}

static kv_rc session_take_variant(kv_session *s, const kv_session_shape *x,
                                  kv_err *e) {
  kv_trace *t = &s->trace;
  kv_variant *v = &s->variant;
  size_t layers = (size_t)x->n_layers, heads = (size_t)x->n_heads;
  size_t keys = (size_t)x->n_kv_heads * (size_t)x->d;
  bool ok = true;
  v->sinks = variant_copy(x->sinks, layers * heads, &ok);
  v->k_bias = variant_copy(x->k_bias, layers * keys, &ok);
  v->inv_freq = variant_copy(x->inv_freq_windowed, (size_t)x->d / 2, &ok);
  v->window = variant_copy(x->window, layers, &ok);
  v->windowed = kv_zalloc(layers, sizeof *v->windowed);
  if (!ok || !v->windowed)
    return kv_no_memory(e, "a session", layers * heads * 4);
  t->shape.softcap = x->softcap;
  t->windowed_inv_freq = v->inv_freq;
  for (size_t l = 0; x->window && l < layers; l++) {
    v->windowed[l] = x->window[l] > 0;
    if (v->windowed[l]) t->shape.windowed = v->windowed;
  }
  for (int i = 0; i < t->n_layers; i++) {
    kv_layer_data *data = &t->layer[i].data;
    data->window = x->window ? x->window[data->layer] : 0;
    if (v->sinks) data->sinks = v->sinks + (size_t)data->layer * heads;
    if (v->k_bias) data->k_bias = v->k_bias + (size_t)data->layer * keys;
  }
  return KV_OK;
}

void kv_session_free_variant(kv_session *s) {
  free(s->variant.sinks);
  free(s->variant.k_bias);
  free(s->variant.inv_freq);
  free(s->variant.window);
  free(s->variant.windowed);
}

/* --- keep ---------------------------------------------------------------- */

/* Decisions by the program: kv_session_keep. The method is `replay`, its file
 * in memory (traces/decisions/given.h). A layer's prompt does not enter the
 * engine with its last token, but when the last lane has been decided, or when
 * the layer must go on. */

/* Opens s->given if the method follows decisions and spec names no file of
 * them, and uses it as that file. KV_RESOURCE: memory. */
static kv_rc session_take_given(kv_session *s, const kv_spec *spec,
                                kv_asset *file[KV_SPEC_FILES], kv_err *e) {
  const kv_param *p;
  for (int i = 0; (p = kv_method_file(spec->method, i)); i++)
    if (p->reads == &kv_decisions_kind && !*kv_spec_file(spec, i)->path) {
      kv_rc rc =
          kv_given_open(&s->trace, s->trace.shape.prompt_len, &s->given, e);
      file[i] = s->given;
      return rc;
    }
  return KV_OK;
}

kv_rc kv_session_enter(kv_session *s, kv_fed *f, kv_err *e) {
  const kv_team team = {&s->worker, 1, NULL};
  int p = s->cell.shape.prompt_len, first = f->entered;
  fenv_t mode;
  if (first >= p || f->arrived < p) return KV_OK;
  fegetenv(&mode);
  kv_float_ground();
  s->hand = f;
  f->entered = p;
  kv_layer_block(f->layer, 0, first, p - first, &team);
  fesetenv(&mode);
  return f->fault.rc ? kv_fail(e, KV_REFUSED, "%s", f->fault.text) : KV_OK;
}

static kv_rc check(const kv_session *s, const kv_fed *f, int layer, int lane,
                   kv_err *e) {
  int p = s->cell.shape.prompt_len;
  if (!s->given)
    return kv_fail(e, KV_REFUSED,
                   "%s decides what its lanes keep; to decide it yourself, "
                   "open the session with method replay, without a file",
                   kv_session_spec(s));
  if (f->fault.rc) return kv_fail(e, KV_REFUSED, "%s", f->fault.text);
  if (lane < 0 || lane >= s->lanes)
    return kv_fail(e, KV_USAGE, "lane %d: it must be one of %d, from 0 on",
                   lane, s->lanes);
  if (f->arrived < p)
    return kv_fail(e, KV_USAGE,
                   "layer %d has seen %d tokens of its prompt of %d; compress "
                   "it after the prompt",
                   layer, f->arrived, p);
  if (f->entered >= p)
    return kv_fail(e, KV_USAGE,
                   "layer %d has already been compressed; its lanes can be set "
                   "only once, between the prompt and its first decode step",
                   layer);
  return KV_OK;
}

kv_rc kv_session_keep(kv_session *s, int layer, int lane, int n,
                      const uint32_t *id, kv_err *e) {
  kv_fed *f = NULL;
  if (!s) return kv_session_none(e);
  kv_rc rc = kv_session_find(s, layer, &f, e);
  if (!id) n = 0;
  if (!rc) rc = check(s, f, layer, lane, e);
  if (!rc) rc = kv_given_keep(s->given, (int)(f - s->fed), lane, n, id, e);
  if (rc) return rc;
  int told = 0;
  f->told[lane] = true;
  for (int i = 0; i < s->lanes; i++) told += f->told[i];
  return told == s->lanes ? kv_session_enter(s, f, e) : KV_OK;
}

/* --- fork ---------------------------------------------------------------- */

/* A second session in the state of a first: kv_session_fork. Everything is
 * opened again, with the files that have been read. Then each owner copies what
 * it holds: the layers their stores, the cell its ledger and messages, the
 * session its buffers. There is no branch on a method. */

/* What the session was opened with; fed[n_layers] gets the list of layers. */
static kv_session_shape shape_of(const kv_session *s, int32_t *fed) {
  const kv_shape *p = &s->cell.shape;
  for (int i = 0; i < s->trace.n_layers; i++)
    fed[i] = s->trace.layer[i].data.layer;
  return (kv_session_shape){.abi = KV_SESSION_ABI,
                            .n_layers = p->n_layers,
                            .n_heads = p->n_heads,
                            .n_kv_heads = p->n_kv_heads,
                            .d = p->d,
                            .d_v = p->d_v,
                            .n_tokens = p->n_tokens,
                            .dtype = (int32_t)p->dtype,
                            .scale = p->scale,
                            .n_fed = s->trace.n_layers,
                            .fed = fed,
                            .inv_freq = s->inv_freq,
                            .interleaved = s->trace.rope.interleaved,
                            .positions = s->positions,
                            .softcap = p->softcap,
                            .window = s->variant.window,
                            .sinks = s->variant.sinks,
                            .inv_freq_windowed = s->variant.inv_freq,
                            .k_bias = s->variant.k_bias};
}

static kv_rc open_like(const kv_session *s, kv_session **out, kv_err *e) {
  size_t n = (size_t)s->trace.n_layers;
  int32_t *fed = kv_zalloc(n, sizeof *fed);
  if (!fed) return kv_no_memory(e, "a session", n * sizeof *fed);
  kv_session_shape x = shape_of(s, fed);
  kv_rc rc = kv_session_open_spec(
      &x, &s->cell.spec, NULL, s->cell.shape.prompt_len, s->cell.file, out, e);
  free(fed);
  return rc;
}

/* Was `to` opened like s? Methods must decide by parameters and shape alone,
 * but a plugin may not. */
static bool alike(const kv_session *s, const kv_session *to) {
  return strcmp(kv_session_spec(s), kv_session_spec(to)) == 0 &&
         !kv_needs_unlike(&s->cell.plan.needs, &to->cell.plan.needs);
}

/* --- one layer ---------------------------------------------------------- */

/* Copies n rows of each head; a head has memory for `all` rows of `size` bytes.
 */
static void copy_rows(int heads, size_t all, size_t size, int n,
                      const char *from, char *to) {
  for (size_t at = 0, end = (size_t)heads * all; at < end; at += all)
    memcpy(to + at * size, from + at * size, (size_t)n * size);
}

/* Copies the queries of a prompt that has not ended. */
static void copy_queries(const kv_session *s, const kv_fed *f, kv_fed *to) {
  const kv_shape *p = &s->cell.shape;
  int have = f->arrived - (p->prompt_len - s->asked);
  to->data->q_dtype = f->data->q_dtype;
  if (f->entered >= p->prompt_len || have <= 0) return;
  copy_rows(p->n_heads, (size_t)s->asked,
            (size_t)p->d * kv_dtype_size(f->data->q_dtype), have, f->q, to->q);
}

/* Copies what the last decode step attended. */
static void copy_views(const kv_session *s, const kv_fed *f, kv_fed *to) {
  int heads = s->cell.shape.n_heads, per = heads / s->lanes;
  size_t room = (size_t)s->cell.shape.n_tokens;
  for (int h = 0; h < heads; h++) {
    int n = to->runs[h] = f->runs[h];
    const kv_run *run = f->run + (size_t)h * s->most_runs;
    size_t at = (size_t)(h / per) * room;
    size_t ids = n ? (size_t)(run[n - 1].first + run[n - 1].count) : 0;
    memcpy(to->run + (size_t)h * s->most_runs, run, (size_t)n * sizeof *run);
    memcpy(to->id + at, f->id + at, ids * sizeof *f->id);
  }
  for (int l = 0; l < s->lanes; l++) {
    size_t at = (size_t)l * room;
    to->same[l] = f->same[l];
    memcpy(to->id + at, f->id + at, (size_t)f->same[l] * sizeof *f->id);
  }
}

static void copy_layer(const kv_session *s, const kv_fed *f, kv_fed *to) {
  const kv_shape *p = &s->cell.shape;
  size_t heads = (size_t)p->n_heads, size = kv_dtype_size(p->dtype);
  size_t room = (size_t)p->n_tokens;
  to->arrived = f->arrived;
  to->entered = f->entered;
  to->fault = f->fault;
  memcpy(to->told, f->told, (size_t)s->lanes * sizeof *f->told);
  copy_queries(s, f, to);
  copy_rows(p->n_kv_heads, room, (size_t)p->d * size, f->arrived, f->k, to->k);
  copy_rows(p->n_kv_heads, room, (size_t)p->d_v * size, f->arrived, f->v,
            to->v);
  memcpy(to->out, f->out, heads * (size_t)p->d_v * sizeof *f->out);
  memcpy(to->lse, f->lse, heads * sizeof *f->lse);
  copy_views(s, f, to);
  kv_layer_copy(f->layer, to->layer);
}

/* --- the session -------------------------------------------------------- */

static void fork_copy(const kv_session *s, kv_session *to) {
  for (int i = 0; i < s->trace.n_layers; i++)
    copy_layer(s, &s->fed[i], &to->fed[i]);
  kv_cost_copy(s->cell.cost, to->cell.cost);
  if (s->cell.messages) kv_messages_copy(s->cell.messages, to->cell.messages);
  if (s->given) kv_given_copy(s->given, to->given);
  to->closed = s->closed;
  to->ended = s->ended;
  to->digests = s->digests;
}

kv_rc kv_session_fork(const kv_session *s, kv_session **out, kv_err *e) {
  kv_session *to = NULL;
  if (!out) return kv_fail(e, KV_USAGE, "the pointer for the session is NULL");
  *out = NULL;
  if (!s) return kv_session_none(e);
  kv_rc rc = open_like(s, &to, e);
  if (rc) return rc;
  if (!alike(s, to)) {
    kv_session_close(to);
    return kv_fail(
        e, KV_REFUSED,
        "%s has other needs when it is opened again, but its open must depend "
        "only on parameters and shape; feed a second session instead",
        kv_session_spec(s));
  }
  fork_copy(s, to);
  *out = to;
  return KV_OK;
}

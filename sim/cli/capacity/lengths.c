/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cli/capacity/lengths.h"

#include "ref/ground/threads.h"
#include "sim/ask/param.h"
#include "sim/ask/spec.h"
#include "sim/replay/engine/cell.h"
#include "sim/replay/engine/layer.h"
#include "traces/decisions/asset.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static kv_rc lengths_try(const kv_lengths *ask, int value, kv_stored *out,
                         int64_t *bytes, int64_t *dense, kv_err *e);

typedef struct search {
  const kv_lengths *ask;
  const kv_param *knob;
  int tokens;
  int value;        /* of the last probe, and .. */
  kv_stored stored; /* .. what it stored */
} search;

static kv_rc legal(void *self, int place, bool *runs, kv_err *e) {
  const search *s = self;
  int value = kv_knob_value(s->knob, s->tokens, place);
  kv_rc rc = lengths_try(s->ask, value, NULL, NULL, NULL, e);
  *runs = !rc;
  return rc == KV_REFUSED ? KV_OK : rc;
}

static kv_rc probe(void *self, int place, int64_t *bytes, int64_t *dense,
                   kv_err *e) {
  search *s = self;
  s->value = kv_knob_value(s->knob, s->tokens, place);
  return lengths_try(s->ask, s->value, &s->stored, bytes, dense, e);
}

static kv_rc in_bytes(const kv_lengths *ask, kv_stored *out, kv_err *e) {
  search s = {.ask = ask,
              .knob = kv_spec_knob(ask->spec->method),
              .tokens = ask->context + ask->output};
  int most = kv_knob_places(s.knob, s.tokens), least, place;
  char named[KV_TEXT_MAX];
  kv_rc rc = kv_budget_least(most, legal, &s, &least, e);
  if (rc) return rc;
  kv_knob_text(s.knob, kv_knob_value(s.knob, s.tokens, least), named);
  rc = kv_budget_search(ask->budget, least, most, named, probe, &s, &place, e);
  if (rc) return rc;
  int value = kv_knob_value(s.knob, s.tokens, place);
  if (value != s.value) return lengths_try(ask, value, out, NULL, NULL, e);
  *out = s.stored;
  return KV_OK;
}

kv_rc kv_lengths_replay(const kv_lengths *ask, kv_stored *out, kv_err *e) {
  const kv_budget *b = ask->budget;
  if (b && kv_budget_in_bytes(b) && kv_knob_takes(ask->spec, b))
    return in_bytes(ask, out, e);
  return lengths_try(ask, -1, out, NULL, NULL, e);
}

#define _GNU_SOURCE 1

enum { PIECE = 4 << 20 }; /* bytes; whole pages, of any size in use */

/* Layers that hold the same after the prompt; one of them decodes for all. */
typedef struct kind {
  int first;      /* index of the decoding layer */
  int layers;     /* of this kind */
  kv_bytes *lane; /* [lanes] after the prompt */
  int64_t *end;   /* [lanes] bytes after the last step */
} kind;

typedef struct work {
  const kv_lengths *ask;
  kv_trace trace;
  void *rows; /* [size] K, then V, of every layer */
  size_t size;
  kv_cell cell, *cells[1];
  kv_layer *layer;
  kv_worker *worker; /* [ask->threads] */
  int lanes, kinds;
  kind *kind;       /* [trace.n_layers] */
  kv_bytes *now;    /* [lanes] of the current layer */
  size_t part_size; /* bytes of a layer's ledger */
  char *part;
} work;

/* --- the request --------------------------------------------------------- */

/* Numbers from 0.5 to 1 with either sign, in the type's own bits. Neighbors
 * differ, so no two neighboring keys are alike. */
static void draw(kv_dtype type, char *out) {
  uint32_t x = 1;
  for (size_t i = 0; i < PIECE; i += kv_dtype_size(type)) {
    x = x * 1664525 + 1013904223;
    uint32_t f32 = 0x3f000000 | (x & 0x807fffff), bits = x >> 16;
    uint16_t half = (uint16_t)(type == KV_F16 ? 0x3800 | (bits & 0x83ff)
                                              : 0x3f00 | (bits & 0x807f));
    memcpy(out + i, type == KV_F32 ? (void *)&f32 : (void *)&half,
           kv_dtype_size(type));
  }
}

/* Maps one piece of such numbers over and over, so that keys and values of any
 * length take the memory of one piece. */
static kv_rc map_pieces(work *w, int file) {
  char *piece = mmap(NULL, PIECE, PROT_WRITE, MAP_SHARED, file, 0);
  if (piece == MAP_FAILED) return KV_RESOURCE;
  draw(w->trace.shape.dtype, piece);
  munmap(piece, PIECE);
  for (size_t at = 0; at < w->size; at += PIECE)
    if (mmap((char *)w->rows + at, PIECE, PROT_READ, MAP_SHARED | MAP_FIXED,
             file, 0) == MAP_FAILED)
      return KV_RESOURCE;
  return KV_OK;
}

static kv_rc take_rows(work *w, kv_err *e) {
  const kv_shape *s = &w->trace.shape;
  size_t size = (size_t)s->n_kv_heads * (size_t)s->n_tokens *
                (size_t)(s->d + s->d_v) * kv_dtype_size(s->dtype);
  w->size = (size + PIECE - 1) / PIECE * PIECE;
  w->rows = mmap(NULL, w->size, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (w->rows == MAP_FAILED) w->rows = NULL;
  int file = memfd_create("kvreplay", 0);
  kv_rc rc = KV_RESOURCE;
  if (w->rows && file >= 0 && ftruncate(file, PIECE) == 0)
    rc = map_pieces(w, file);
  if (file >= 0) close(file);
  return rc ? kv_no_memory(e, "addresses of a request", w->size) : KV_OK;
}

static kv_rc make_trace(work *w, kv_err *e) {
  const kv_served *m = w->ask->model;
  kv_trace *t = &w->trace;
  t->path = t->name = m->name;
  t->shape = m->shape;
  t->shape.prompt_len = w->ask->context;
  t->shape.n_tokens = w->ask->context + w->ask->output;
  t->shape.scale = (float)(1.0 / sqrt((double)m->shape.d));
  t->rope = (kv_rope){.inv_freq = m->inv_freq};
  t->rope_scale = 1;
  t->reads = &kv_asset_reads;
  t->n_layers = m->n_layers;
  t->layer = kv_zalloc((size_t)t->n_layers, sizeof *t->layer);
  uint8_t *windowed = kv_zalloc((size_t)m->shape.n_layers, 1);
  if (!t->layer || !windowed) {
    free(windowed);
    return kv_no_memory(e, "layers", (size_t)t->n_layers * sizeof *t->layer);
  }
  t->shape.windowed = windowed;
  kv_rc rc = take_rows(w, e);
  size_t v = (size_t)t->shape.n_kv_heads * (size_t)t->shape.n_tokens *
             (size_t)t->shape.d * kv_dtype_size(t->shape.dtype);
  for (int i = 0; !rc && i < t->n_layers; i++) {
    windowed[m->layer[i]] = m->window[i] > 0;
    t->layer[i].data = (kv_layer_data){.layer = m->layer[i],
                                       .k = w->rows,
                                       .v = (char *)w->rows + v,
                                       .n_rows = t->shape.n_tokens,
                                       .window = m->window[i]};
  }
  return rc;
}

/* value: of the knob; -1: set by the budget. */
static kv_rc open_cell(work *w, int value, kv_err *e) {
  const kv_lengths *a = w->ask;
  const kv_budget *b = a->budget;
  kv_asked_cell asked = {.spec = a->spec, .budget = b, .entries = value};
  kv_rc rc = KV_OK;
  if (b && !b->layers && value < 0)
    rc = kv_budget_entries(b, a->context, &asked.entries, e);
  if (!rc)
    rc = kv_cell_open(&w->trace, 0, kv_kernels_best(), &asked, &w->cell, e);
  if (rc) return rc;
  if (!w->cell.runs) return kv_fail(e, KV_REFUSED, "%s", w->cell.result.reason);
  const kv_plan *plan = &w->cell.plan;
  if (plan->needs.lengths &&
      !(b && kv_basis_reads(b->basis) && plan->method->view))
    return KV_OK;
  return kv_fail(e, KV_REFUSED, "needs traces: what %s %s depends on them",
                 a->spec->method->name,
                 plan->needs.lengths ? "reads" : "stores");
}

static kv_rc take_memory(work *w, kv_err *e) {
  const kv_plan *plan = &w->cell.plan;
  size_t layers = (size_t)w->trace.n_layers, team = (size_t)w->ask->threads;
  kv_copier count = {0};
  kv_rc rc = kv_cell_prepare(&w->cell, false, true, e);
  if (rc) return rc;
  w->cells[0] = &w->cell;
  w->lanes = kv_lane_count(&plan->needs, &w->cell.shape);
  kv_cost_layer_copy(w->cell.cost, 0, &count);
  w->part_size = count.size;
  w->kind = kv_zalloc(layers, sizeof *w->kind);
  w->now = kv_zalloc((size_t)w->lanes, sizeof *w->now);
  w->part = kv_zalloc(count.size, 1);
  w->worker = kv_zalloc(team, sizeof *w->worker);
  if (!w->kind || !w->now || !w->part || !w->worker)
    return kv_no_memory(e, "a request", count.size);
  rc = kv_layer_open(&kv_backend_blind, w->cells, 1, NULL, &w->layer, e);
  for (size_t i = 0; !rc && i < team; i++)
    rc = kv_worker_open(&kv_backend_blind, &w->cell.shape, &plan, 1,
                        &w->worker[i], e);
  return rc;
}

/* --- layers -------------------------------------------------------------- */

static void look(work *w) {
  for (int i = 0; i < w->lanes; i++) {
    w->now[i] = (kv_bytes){0};
    kv_lane_bytes(kv_layer_lane(w->layer, 0, i), &w->now[i]);
  }
}

/* The kind of the current layer after its prompt, or a new one. NULL: no
 * memory. */
static kind *kind_of(work *w, int index) {
  size_t size = (size_t)w->lanes * sizeof *w->now;
  const int *window = w->ask->model->window;
  look(w);
  for (int i = 0; i < w->kinds && !w->ask->each; i++)
    if (window[w->kind[i].first] == window[index] &&
        memcmp(w->kind[i].lane, w->now, size) == 0)
      return &w->kind[i];
  kind *x = &w->kind[w->kinds];
  x->first = index;
  w->kinds++;
  x->lane = kv_zalloc((size_t)w->lanes, sizeof *x->lane);
  x->end = kv_zalloc((size_t)w->lanes, sizeof *x->end);
  if (!x->lane || !x->end) return NULL;
  memcpy(x->lane, w->now, size);
  return x;
}

static kv_rc decode(work *w, const kv_team *team, kv_err *e) {
  const kv_shape *s = &w->cell.shape;
  for (int t = s->prompt_len; t < s->n_tokens; t++) {
    if (team->stop && team->stop())
      return kv_fail(e, KV_RESOURCE, "interrupted");
    kv_layer_step(w->layer, t, team);
  }
  return kv_layer_end(w->layer, e);
}

/* The layer does not decode: it gets the ledger of the layer `first`. */
static void repeat(work *w, int index, int first) {
  kv_copier out = {.out = w->part}, in = {.from = w->part};
  kv_cost_layer_copy(w->cell.cost, first, &out);
  kv_cost_layer_begin(w->cell.cost, index);
  kv_cost_layer_copy(w->cell.cost, index, &in);
}

static kv_rc walk_layer(work *w, int index, const kv_team *team, kv_err *e) {
  kv_layer_begin(w->layer, index);
  kv_layer_prompt(w->layer, team);
  kind *x = kind_of(w, index);
  if (!x) return kv_no_memory(e, "a layer", (size_t)w->lanes * sizeof *w->now);
  x->layers++;
  if (x->first != index) {
    repeat(w, index, x->first);
    return KV_OK;
  }
  kv_rc rc = decode(w, team, e);
  look(w);
  for (int i = 0; i < w->lanes; i++) x->end[i] = kv_bytes_total(&w->now[i]);
  if (!rc && w->cell.fault[index].rc)
    rc = kv_fail(e, KV_REFUSED, "%s", w->cell.fault[index].text);
  return rc;
}

static kv_rc walk(work *w, kv_err *e) {
  kv_team team = {w->worker, w->ask->threads, w->ask->stop};
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < w->trace.n_layers; i++)
    rc = walk_layer(w, i, &team, e);
  return rc;
}

/* --- sums --------------------------------------------------------------- */

/* Bytes that a rank holds of the request at its end. */
static int64_t of_rank(const work *w, int rank) {
  int heads = w->cell.shape.n_kv_heads, each = heads / w->ask->tp;
  int64_t sum = 0;
  for (int i = 0; i < w->lanes; i++) {
    int head = i / (w->lanes / heads);
    for (int k = 0; head / each == rank && k < w->kinds; k++)
      sum += w->kind[k].layers * w->kind[k].end[i];
  }
  return sum;
}

static void sum_up(const work *w, kv_stored *out) {
  const kv_result *r = &w->cell.result;
  const kv_method *m = w->cell.spec.method;
  for (int i = 0; i < r->n_steps; i++) {
    const kv_step_cost *x = &r->step[i];
    if (i && x->bytes > out->all.steady) out->all.steady = x->bytes;
    if (i && x->codes > out->codes.steady) out->codes.steady = x->codes;
  }
  out->all.peak = r->totals.peak;
  out->codes.peak = r->totals.codes_peak;
  out->read = m->view ? NAN : r->totals.read + r->totals.scanned;
  out->attended = m->view ? NAN : r->totals.attended;
  for (int i = 0; i < w->ask->tp; i++) {
    int64_t held = of_rank(w, i);
    if (held > out->fullest) out->fullest = held;
    out->of += held;
  }
  snprintf(out->spec, sizeof out->spec, "%s", r->spec);
}

static void release(work *w) {
  for (int i = 0; w->worker && i < w->ask->threads; i++)
    kv_worker_close(&kv_backend_blind, &w->worker[i]);
  kv_layer_close(w->layer);
  for (int i = 0; i < w->kinds; i++) {
    free(w->kind[i].lane);
    free(w->kind[i].end);
  }
  kv_cell_close(&w->cell);
  if (w->rows) munmap(w->rows, w->size);
  free((void *)w->trace.shape.windowed);
  void *const block[] = {w->worker, w->kind, w->now, w->part, w->trace.layer};
  for (size_t i = 0; i < sizeof block / sizeof *block; i++) free(block[i]);
}

/* kv_lengths_replay, but with the knob at `value` (kv_knob_value); -1: set by
 * the budget, which is then not in bytes. bytes and dense (both or neither
 * NULL) receive the result in the budget's basis, then one of bytes. out NULL:
 * only checks whether it is refused, without a replay. */
static kv_rc lengths_try(const kv_lengths *ask, int value, kv_stored *out,
                         int64_t *bytes, int64_t *dense, kv_err *e) {
  work w = {.ask = ask};
  kv_rc rc = make_trace(&w, e);
  if (!rc) rc = open_cell(&w, value, e);
  if (!rc && out) {
    *out = (kv_stored){0};
    rc = take_memory(&w, e);
    if (!rc) rc = walk(&w, e);
    if (!rc) rc = kv_cell_finish(&w.cell, e);
    if (!rc) sum_up(&w, out);
    if (!rc && bytes)
      kv_cell_in_basis(&w.cell, ask->budget->basis, bytes, dense);
  }
  release(&w);
  return rc;
}

int64_t kv_served_dense(const kv_served *m, int t) {
  int64_t sum = 0;
  for (int i = 0; i < m->n_layers; i++) {
    int held = m->window[i] && t >= m->window[i] ? m->window[i] - 1 : t;
    sum += held * (int64_t)m->shape.n_kv_heads * kv_token_bytes(&m->shape);
  }
  return sum;
}

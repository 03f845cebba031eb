/* SPDX-License-Identifier: Apache-2.0
 *
 * Two backends side by side on one layer: sim/compare.h.
 */
#include "sim/compare_part.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct side {
  const kv_backend *backend;
  kv_store *store;
  kv_scratch *scratch;
} side;

typedef struct walk {
  const kv_cell *cell;
  const kv_layer_data *data;
  side side[2];
  int closings; /* blocks of the prompt, then decode steps */
  bool bytes;   /* digests agree: the ledgers do not */
  bool (*stop)(void);
  bool stopped;
  kv_look look;
} walk;

/* --- life --------------------------------------------------------------- */

static void close_walk(walk *w) {
  for (int i = 0; i < 2; i++) {
    side *s = &w->side[i];
    s->backend->close(s->store);
    s->backend->scratch_close(s->scratch);
    free(w->look.row[i]);
  }
}

static kv_rc open_walk(walk *w, kv_err *e) {
  const kv_plan *plan = &w->cell->plan;
  const kv_shape *shape = plan->shape;
  size_t wide = (size_t)(shape->d > shape->d_v ? shape->d : shape->d_v);
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < 2; i++) {
    side *s = &w->side[i];
    w->look.row[i] = kv_zalloc(wide, sizeof(float));
    if (!w->look.row[i]) return kv_no_memory(e, "a row", wide * sizeof(float));
    rc = s->backend->open(plan, &s->store, e);
    if (!rc) rc = s->backend->scratch_open(shape, &plan, 1, &s->scratch, e);
  }
  return rc;
}

/* --- the calls of sim/layer.c ------------------------------------------- */

static int lanes_of(const walk *w, int g, int *first) {
  const side *s = &w->side[0];
  int per_head = s->backend->lanes(s->store) / w->cell->shape.n_kv_heads;
  *first = g * per_head;
  return per_head;
}

static void enter(const walk *w, side *s, int g, int from, int count) {
  int first, n = lanes_of(w, g, &first);
  for (int i = first; i < first + n; i++)
    s->backend->append(s->store, i, from, count, s->scratch);
  s->backend->evidence(&s->store, 1, g, from, count, s->scratch);
}

static const kv_lane *lane_of(const walk *w, int x, int i) {
  const side *s = &w->side[x];
  return s->backend->lane(s->store, i);
}

static bool look_bytes(const walk *w, int i, const char *when) {
  return w->bytes &&
         kv_look_bytes(&w->look, lane_of(w, 0, i), lane_of(w, 1, i), when);
}

static const char before[] = " before settling";

/* The block's tokens enter; where bytes are looked at, those of the lanes
 * before they settle. */
static bool enter_both(walk *w, int g, int from, int count, bool looks) {
  int first, n = lanes_of(w, g, &first);
  bool found = false;
  for (int x = 0; x < 2; x++) enter(w, &w->side[x], g, from, count);
  for (int i = first; looks && !found && i < first + n; i++)
    found = look_bytes(w, i, before);
  for (int x = 0; x < 2; x++)
    for (int i = first; i < first + n; i++)
      w->side[x].backend->settle(w->side[x].store, i, w->side[x].scratch);
  return found;
}

/* Attends lane i in both; the first of its rows that differ, once a step. */
static bool attend(walk *w, int i, int t, bool known) {
  kv_seen seen[2];
  for (int x = 0; x < 2; x++) {
    side *s = &w->side[x];
    s->backend->append(s->store, i, t, 1, s->scratch);
    s->backend->attend(s->store, i, t, NULL, s->scratch);
    seen[x] = s->backend->seen(s->store, i, s->scratch);
  }
  bool differs = !known && (kv_look_seen(&w->look, w->cell->shape.d_v, &seen[0],
                                         &seen[1]) ||
                            look_bytes(w, i, before));
  for (int x = 0; x < 2; x++)
    w->side[x].backend->settle(w->side[x].store, i, w->side[x].scratch);
  return differs;
}

static int lanes(const walk *w) {
  return w->side[0].backend->lanes(w->side[0].store);
}

static bool look_lanes(walk *w) {
  bool found = false;
  for (int i = 0; !found && i < lanes(w); i++)
    found = kv_look_state(&w->look, lane_of(w, 0, i), lane_of(w, 1, i));
  return found;
}

/* Views come before outputs, outputs before verbs, verbs before what they
 * leave. An output that differs is described already. */
static bool look_step(walk *w, bool output) {
  bool found = false;
  for (int i = 0; !found && i < lanes(w); i++)
    found = kv_look_records(&w->look, i, &lane_of(w, 0, i)->views,
                            &lane_of(w, 1, i)->views);
  if (found || output) return true;
  for (int i = 0; !found && i < lanes(w); i++)
    found = kv_look_records(&w->look, i, &lane_of(w, 0, i)->verbs,
                            &lane_of(w, 1, i)->verbs);
  found = found || look_lanes(w);
  for (int i = 0; !found && i < lanes(w); i++) found = look_bytes(w, i, "");
  return found;
}

/* The n-th closing: a block of the prompt or a decode step. */
static bool advance(walk *w, int n, bool looks) {
  const kv_shape *shape = &w->cell->shape;
  int block = w->cell->plan.needs.block, p = shape->prompt_len;
  bool decode = n >= w->cell->blocks, found = false, output = false;
  int from = decode ? p + n - w->cell->blocks : n * block;
  int count =
      decode || (block && from + block < p) ? (decode ? 1 : block) : p - from;
  w->look.step = from + count;
  for (int g = 0; g < shape->n_kv_heads; g++) {
    int first, lanes = lanes_of(w, g, &first);
    if (!decode)
      output = enter_both(w, g, from, count, looks && !output) || output;
    for (int i = first; decode && i < first + lanes; i++)
      output = attend(w, i, from, output || !looks) || output;
  }
  for (int x = 0; x < 2; x++)
    w->side[x].backend->settle_layer(w->side[x].store, w->side[x].scratch);
  if (looks) found = look_step(w, output);
  for (int x = 0; x < 2; x++) w->side[x].backend->end_step(w->side[x].store);
  return found;
}

/* The layer from its beginning to the end of `closings`; returns how many
 * were made: fewer where a look found a difference (or it was stopped). */
static int run(walk *w, int closings, bool looks, kv_layer_digests out[2]) {
  for (int x = 0; x < 2; x++)
    w->side[x].backend->begin(w->side[x].store, w->data);
  for (int n = 0; n < closings; n++) {
    w->stopped = w->stopped || (w->stop && w->stop());
    if (w->stopped || advance(w, n, looks)) return n;
  }
  for (int x = 0; x < 2; x++)
    out[x] = w->side[x].backend->finish(w->side[x].store);
  return closings;
}

/* --- what only digests show --------------------------------------------- */

static const kv_digest *nth(const kv_layer_digests *d, int i) {
  const kv_digest *all[] = {&d->journal, &d->state, &d->output};
  return all[i];
}

/* Which of journal, state and output differs, first; -1: none. */
static int differing(const kv_layer_digests *d) {
  for (int i = 0; i < 3; i++)
    if (memcmp(nth(&d[0], i), nth(&d[1], i), sizeof(kv_digest))) return i;
  return -1;
}

static void tell_digests(walk *w, const kv_layer_digests *d, const char *why) {
  static const char *const name[] = {"journal", "state", "output"};
  int i = differing(d);
  kv_look_at at = {.what = name[i], .lane = -1, .head = -1, .index = -1};
  kv_look_digests(&w->look, &at, nth(&d[0], i), nth(&d[1], i),
                  "the digest of the %s, %s", name[i], why);
}

/* Of the prefixes of `least` and `most` closings the first has equal digests
 * and the second has not; halving finds neighbours of that kind. A prefix
 * ends as a layer does: with the state of every lane, columns included. */
static int halve(walk *w, int least, int most) {
  while (least + 1 < most && !w->stopped) {
    int middle = least + (most - least) / 2;
    kv_layer_digests d[2];
    run(w, middle, false, d);
    if (!w->stopped && differing(d) < 0)
      least = middle;
    else
      most = middle;
  }
  return most;
}

/* Something parted before the look of step `seen` saw it: columns, or what
 * the settling dropped at once. */
static void find_hidden(walk *w, int seen) {
  kv_layer_digests d[2];
  bool told = w->look.out->found;
  int n = halve(w, 0, seen);
  if (w->stopped || (told && n == seen)) return;
  run(w, n, false, d); /* leaves the step where it is */
  if (w->stopped || differing(d) < 0) return;
  w->look.columns = true;
  if (!look_lanes(w)) tell_digests(w, d, "which the step no longer shows");
}

/* Looks at every step; then at prefixes; then it was chance, or company. */
static void find(walk *w, const kv_layer_digests replayed[2]) {
  kv_layer_digests alone[2];
  const bool *found = &w->look.out->found;
  int n = run(w, w->closings, true, alone);
  if (w->stopped) return;
  if (*found ? w->cell->plan.needs.columns > 0 : differing(alone) >= 0)
    find_hidden(w, *found ? n + 1 : n);
  if (*found || w->stopped) return;
  w->look.step = -1;
  tell_digests(w, replayed, "which agrees when the cell runs alone");
}

/* --- the cell ----------------------------------------------------------- */

static bool failed(const kv_compared *x) {
  return x->cell->result.status == KV_CELL_FAILED;
}

/* Whoever could not go on says why; "": it could. */
static void failure(const kv_compared *x, int most, size_t size, char *out) {
  out[0] = 0;
  if (failed(x))
    snprintf(out, size, "%.24s failed: %.*s", x->backend->name, most,
             x->cell->result.reason);
}

static void tell_failure(const kv_compared *x, kv_difference *out) {
  const kv_cell *c = x->cell;
  *out = (kv_difference){.what = "failed",
                         .layer = c->trace->layer[c->fault_at].data.layer,
                         .step = -1,
                         .lane = -1,
                         .head = -1,
                         .index = -1};
  failure(x, 440, sizeof out->sentence, out->sentence);
}

void kv_compare_failed(const kv_compared *x, const kv_compared *y,
                       kv_difference *out) {
  char say[2][248];
  const kv_compared *of[2] = {x, y};
  tell_failure(failed(x) ? x : y, out);
  for (int i = 0; i < 2; i++) {
    failure(of[i], 200, sizeof say[i], say[i]);
    if (!say[i][0])
      snprintf(say[i], sizeof say[i], "%.24s ran", of[i]->backend->name);
  }
  snprintf(out->sentence, sizeof out->sentence, "%s; %s", say[0], say[1]);
}

/* Looks at one layer: at what `digests` tell apart, or (NULL) at bytes. */
static kv_rc walk_layer(walk *w, int index, const kv_layer_digests *digests,
                        kv_err *e) {
  const kv_trace *t = w->cell->trace;
  kv_layer_digests alone[2];
  kv_rc rc = kv_trace_scan_layer(t, index, e);
  if (rc) return rc;
  w->data = &t->layer[index].data;
  w->look.layer = w->data->layer;
  rc = open_walk(w, e);
  w->bytes = !digests;
  if (!rc && digests) find(w, digests);
  if (!rc && !digests) run(w, w->closings, true, alone);
  for (int x = 0; !rc && x < 2; x++) {
    const kv_err *f = w->side[x].backend->fault(w->side[x].store);
    if (f && f->rc == KV_RESOURCE) rc = kv_fail(e, f->rc, "%s", f->text);
  }
  close_walk(w);
  for (int x = 0; x < 2; x++) w->look.row[x] = NULL, w->side[x].store = NULL;
  if (!rc) rc = kv_trace_damaged(t, e);
  kv_trace_release_layer(t, index);
  return rc;
}

/* The lane and the step that the ledgers part at; else the total that does,
 * for a walk of the cell alone may agree. */
static kv_rc compare_ledgers(walk *w, const kv_result *x, const kv_result *y,
                             kv_err *e) {
  kv_rc rc = KV_OK;
  kv_difference *out = w->look.out;
  if (!kv_look_ledger(&w->look, x, y)) return KV_OK;
  kv_difference total = *out;
  out->found = false;
  for (int i = 0; !rc && !w->stopped && !out->found && i < x->n_layers; i++)
    rc = walk_layer(w, i, NULL, e);
  if (w->stopped || rc) return rc;
  if (!out->found) *out = total;
  out->ledger = true;
  return rc;
}

kv_rc kv_compare_cells(const kv_compared *x, const kv_compared *y,
                       bool (*stop)(void), bool *stopped, kv_difference *out,
                       kv_err *e) {
  char again[32];
  const kv_shape *shape = &x->cell->shape;
  walk w = {.cell = x->cell,
            .side = {{.backend = x->backend}, {.backend = y->backend}},
            .closings = x->cell->blocks + shape->n_tokens - shape->prompt_len,
            .stop = stop,
            .look = {.name = {x->backend->name, y->backend->name}, .out = out}};
  *out = (kv_difference){.found = false};
  *stopped = false;
  if (failed(y)) {
    tell_failure(y, out);
    out->found = true;
    return KV_OK;
  }
  if (!strcmp(x->backend->name, y->backend->name)) {
    snprintf(again, sizeof again, "%.20s again", y->backend->name);
    w.look.name[1] = again;
  }
  kv_float_ground();
  kv_rc rc = KV_OK;
  bool parted = false;
  for (int i = 0; !parted && i < x->cell->trace->n_layers; i++) {
    kv_layer_digests d[2] = {x->cell->digest[i], y->cell->digest[i]};
    parted = differing(d) >= 0;
    if (parted) rc = walk_layer(&w, i, d, e);
  }
  if (!parted) rc = compare_ledgers(&w, &x->cell->result, &y->cell->result, e);
  *stopped = w.stopped;
  return rc;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Two backends side by side on one layer: contract in sim/compare/compare.h.
 */
#include "sim/compare/compare_walk.h"
#include "traces/trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef kv_compare_side side;
typedef kv_compare_walk walk;

/* --- life --------------------------------------------------------------- */

static void close_walk(walk *w) {
  for (int i = 0; i < 2; i++) {
    side *s = &w->side[i];
    s->backend->close(s->store);
    s->backend->scratch_close(s->scratch);
    kv_look_shown_close(&s->shown);
    kv_messages_close(s->above);
    kv_messages_close(s->here);
    free(w->look.row[i]);
  }
}

static kv_rc open_messages(const walk *w, side *s, kv_err *e) {
  size_t bytes = w->plan->needs.message;
  if (bytes == 0) return KV_OK;
  kv_rc rc = kv_messages_open(bytes, w->closings, &s->above, e);
  return rc ? rc : kv_messages_open(bytes, w->closings, &s->here, e);
}

static void forget(walk *w, int x) {
  w->look.row[x] = NULL;
  w->side[x].store = NULL;
  w->side[x].scratch = NULL;
  w->side[x].above = w->side[x].here = NULL;
}

static kv_rc open_walk(walk *w, kv_err *e) {
  const kv_shape *shape = w->plan->shape;
  size_t wide = (size_t)(shape->d > shape->d_v ? shape->d : shape->d_v);
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < 2; i++) {
    side *s = &w->side[i];
    w->look.row[i] = kv_zalloc(wide, sizeof(float));
    if (!w->look.row[i]) return kv_no_memory(e, "a row", wide * sizeof(float));
    const kv_plan *plan = &s->plan;
    rc = kv_look_shown_open(w->lanes, &s->shown, e);
    s->plan = *w->plan;
    s->plan.shown = &s->shown.to;
    if (!rc) rc = open_messages(w, s, e);
    if (!rc) rc = s->backend->open(plan, &s->store, e);
    if (!rc) rc = s->backend->scratch_open(shape, &plan, 1, &s->scratch, e);
  }
  return rc;
}

/* --- the layer ------------------------------------------------------------ */

/* Replays the layer from its beginning through `closings` closings and takes
 * digests. Returns how many were made: fewer if a comparison found a
 * difference, or it was stopped. */
static int run(walk *w, int closings, bool looks, kv_layer_digests out[2]) {
  for (int x = 0; x < 2; x++)
    w->side[x].backend->begin(w->side[x].store, w->data);
  for (int x = 0; x < 2 && w->side[x].here; x++)
    kv_messages_clear(w->side[x].here);
  for (int x = 0; x < 2; x++) w->side[x].shown.looks = looks;
  for (int n = 0; n < closings; n++) {
    w->stopped = w->stopped || (w->stop && w->stop());
    if (w->stopped || kv_compare_advance(w, n, looks)) return n;
  }
  for (int x = 0; x < 2; x++)
    out[x] = w->side[x].backend->finish(w->side[x].store);
  return closings;
}

/* --- what only digests show --------------------------------------------- */

enum { DIGESTS = 4 };

static const kv_digest *nth(const kv_layer_digests *d, int i) {
  const kv_digest *all[DIGESTS] = {&d->journal, &d->state, &d->output,
                                   &d->scores};
  return all[i];
}

/* Index of the first of journal, state, output and scores that differs; -1:
 * none. */
static int differing(const kv_layer_digests *d) {
  for (int i = 0; i < DIGESTS; i++)
    if (memcmp(nth(&d[0], i), nth(&d[1], i), sizeof(kv_digest))) return i;
  return -1;
}

static void tell_digests(walk *w, const kv_layer_digests *d, const char *why) {
  static const char *const name[DIGESTS] = {"journal", "state", "output",
                                            "scores"};
  int i = differing(d);
  kv_look_at at = {.what = name[i], .lane = -1, .head = -1, .index = -1};
  kv_look_digests(&w->look, &at, nth(&d[0], i), nth(&d[1], i),
                  "the digest of the %s, %s", name[i], why);
}

/* Bisection: the prefix of `least` closings has equal digests, that of `most`
 * has not; finds two neighbours of that kind and returns the longer. A prefix
 * ends as a layer does, with the state of every lane, columns included. */
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

/* The two sides diverged at or before step `seen` in state that the comparison
 * after each step cannot see: columns, or entries that the same compression
 * dropped. Finds the step. */
static void find_hidden(walk *w, int seen) {
  kv_layer_digests d[2];
  bool told = w->look.out->found;
  int n = halve(w, 0, seen);
  if (w->stopped || (told && n == seen)) return;
  run(w, n, false, d); /* stays at that step */
  if (w->stopped || differing(d) < 0) return;
  w->look.columns = true;
  if (!kv_compare_lanes(w))
    tell_digests(w, d, "which the step no longer shows");
}

/* Finds the first difference. First compares after every step. If only digests
 * differ, bisects over prefixes of the layer. If a replay of this cell alone
 * agrees, reports that the difference needs the other cells or is not
 * deterministic. */
static void find(walk *w, const kv_layer_digests replayed[2]) {
  kv_layer_digests alone[2];
  const bool *found = &w->look.out->found;
  int n = run(w, w->closings, true, alone);
  if (w->stopped) return;
  if (*found ? w->plan->needs.columns > 0 : differing(alone) >= 0)
    find_hidden(w, *found ? n + 1 : n);
  if (*found || w->stopped) return;
  w->look.step = -1;
  tell_digests(w, replayed, "which agrees when the cell runs alone");
}

/* --- the cell ----------------------------------------------------------- */

/* Replays the layers above the index-th, for what they publish. */
static kv_rc walk_above(walk *w, int index, kv_err *e) {
  const kv_trace *t = w->cell->trace;
  kv_layer_digests ignored[2];
  kv_rc rc = KV_OK;
  w->above = true;
  for (int i = 0; !rc && !w->stopped && i < index; i++) {
    if (kv_cell_leaves(w->cell, i)) continue; /* publishes nothing */
    rc = kv_trace_scan_layer(t, i, e);
    w->data = &t->layer[i].data;
    if (!rc) run(w, w->closings, false, ignored);
    kv_trace_release_layer(t, i);
  }
  w->above = false;
  return rc;
}

/* Compares one layer: what `digests` tell apart, or, if NULL, bytes. */
static kv_rc walk_layer(walk *w, int index, const kv_layer_digests *digests,
                        kv_err *e) {
  const kv_trace *t = w->cell->trace;
  kv_layer_digests alone[2];
  w->plan = kv_cell_lead(w->cell, index);
  w->lanes = kv_lane_count(&w->plan->needs, &w->cell->shape);
  kv_rc rc = open_walk(w, e);
  if (!rc && w->side[0].above) rc = walk_above(w, index, e);
  if (!rc) rc = kv_trace_scan_layer(t, index, e);
  w->data = &t->layer[index].data;
  w->look.layer = w->data->layer;
  w->bytes = !digests;
  if (!rc && digests) find(w, digests);
  if (!rc && !digests) run(w, w->closings, true, alone);
  for (int x = 0; !rc && x < 2; x++) {
    const kv_err *f = w->side[x].backend->fault(w->side[x].store);
    if (f && f->rc == KV_RESOURCE) rc = kv_fail(e, f->rc, "%s", f->text);
    if (!rc && w->side[x].shown.no_memory) rc = kv_no_memory(e, "scores", 1);
  }
  close_walk(w);
  for (int x = 0; x < 2; x++) forget(w, x);
  if (!rc) rc = kv_trace_damaged(t, e);
  kv_trace_release_layer(t, index);
  return rc;
}

/* Finds the lane and the step at which the ledgers differ. If none does,
 * because the cell alone may agree, reports the total that differs. */
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
  if (kv_compare_has_failed(y)) {
    kv_compare_tell_failure(y, out);
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

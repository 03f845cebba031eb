/* SPDX-License-Identifier: Apache-2.0
 *
 * Two backends side by side on one layer: contract in
 * sim/run/compare/compare.h. Walks two stores through the engine's calls. Finds
 * the first record that differs between the two journals, and in it the first
 * word, named by its meaning (ref/lane/journal.h). Reports why a replay could
 * not continue.
 */
#include "ref/lane/records.h"
#include "sim/replay/engine/order.h"
#include "sim/run/compare/compare_part.h"
#include "traces/trace/trace.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct kv_compare_side {
  const kv_backend *backend;
  kv_plan plan; /* the cell's, with `shown` to receive scores */
  kv_look_shown shown;
  kv_store *store;
  kv_scratch *scratch;
  /* If layers read messages: those of the layers above, and the current
   * layer's; else NULL. */
  kv_messages *above, *here;
} kv_compare_side;

typedef struct kv_compare_walk {
  const kv_cell *cell;
  const kv_layer_data *data;
  const kv_plan *plan; /* the layer's plan, with which the stores are opened */
  kv_compare_side side[2];
  int closings; /* blocks of the prompt, then decode steps */
  int lanes;
  int closing; /* the current one */
  bool above;  /* does it belong to a layer above the compared one? */
  bool bytes;  /* only ledgers differ: compare bytes */
  bool (*stop)(void);
  bool stopped;
  bool decodes, looks; /* the closing is a decode step; is compared */
  bool row;            /* a row of a later chunk is running */
  bool output, found;  /* does its output differ; does anything */
  kv_seen seen[2];
  kv_look look;
} kv_compare_walk;

static bool tell(const kv_look *l, int lane, const char *what, uint64_t a,
                 uint64_t b, const char *when) {
  kv_look_at at = {.what = what,
                   .lane = lane,
                   .head = -1,
                   .index = -1,
                   .value = {a, b},
                   .digits = {16, 16}};
  return a != b && kv_look_tell(l, &at, "ledger, %s%s", what, when);
}

static bool differ(const kv_look *l, int lane, const char *what, int64_t a,
                   int64_t b, const char *when) {
  return tell(l, lane, what, (uint64_t)a, (uint64_t)b, when);
}

static bool look(const kv_look *l, int lane, const kv_bytes *x,
                 const kv_bytes *y, const char *when) {
  for (int i = 0; i < KV_N_BYTE_KINDS; i++)
    if (differ(l, lane, kv_byte_kind_at(i)->name, kv_bytes_get(x, i),
               kv_bytes_get(y, i), when))
      return true;
  return false;
}

/* Compares the bytes of a lane as the ledger counts them, kind by kind; `when`
 * ends the sentence (" before compression", or ""). */
static bool kv_look_bytes(const kv_look *l, const kv_lane *a, const kv_lane *b,
                          const char *when) {
  kv_bytes x = {0}, y = {0};
  kv_lane_bytes(a, &x);
  kv_lane_bytes(b, &y);
  return look(l, a->lane, &x, &y, when);
}

static bool look_steps(kv_look *l, const kv_result *a, const kv_result *b) {
  for (int i = 0; i < a->n_steps && i < b->n_steps; i++) {
    const kv_step_cost *x = &a->step[i], *y = &b->step[i];
    l->step = x->step;
    if (differ(l, -1, "bytes", x->bytes, y->bytes, "") ||
        differ(l, -1, "codes", x->codes, y->codes, "") ||
        differ(l, -1, "read", x->read, y->read, "") ||
        differ(l, -1, "scanned", x->scanned, y->scanned, ""))
      return true;
  }
  l->step = -1;
  return differ(l, -1, "steps", a->n_steps, b->n_steps, "");
}

/* Compares the bytes of each step and the totals of two results of one cell.
 * This is about the whole cell: sets l->layer to -1, and l->step to the step
 * that differs, or -1. */
static bool look_ledger(kv_look *l, const kv_result *a, const kv_result *b) {
  const kv_totals *x = &a->totals, *y = &b->totals;
  l->layer = -1;
  if (look_steps(l, a, b) || look(l, -1, &x->end, &y->end, " at the end"))
    return true;
  for (int i = 0; i < kv_n_scalars; i++) {
    const kv_scalar *s = &kv_scalars[i];
    if (s->combine == KV_COMBINE_EXACT &&
        differ(l, -1, s->name, kv_scalar_bits(x, s), kv_scalar_bits(y, s), ""))
      return true;
  }
  return false;
}

/* --- failed -------------------------------------------------------------- */

/* Did the cell of x fail in its replay? The next function writes that error
 * into *out as the difference "failed", with x's backend in the sentence. */
static bool compare_has_failed(const kv_compared *x) {
  return x->cell->result.status == KV_CELL_FAILED;
}

/* Why the replay failed; "" if it did not. */
static void failure(const kv_compared *x, int most, size_t size, char *out) {
  out[0] = 0;
  if (compare_has_failed(x))
    snprintf(out, size, "%.24s failed: %.*s", x->backend->name, most,
             x->cell->result.reason);
}

static void compare_tell_failure(const kv_compared *x, kv_difference *out) {
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
  compare_tell_failure(compare_has_failed(x) ? x : y, out);
  for (int i = 0; i < 2; i++) {
    failure(of[i], 200, sizeof say[i], say[i]);
    if (!say[i][0])
      snprintf(say[i], sizeof say[i], "%.24s ran", of[i]->backend->name);
  }
  snprintf(out->sentence, sizeof out->sentence, "%s; %s", say[0], say[1]);
}

/* --- record -------------------------------------------------------------- */

enum { HEAD = KV_RECORD_HEAD, KIND = 0, WHO = 3, COUNT = 4 };

static const char *const header[HEAD] = {"kind", "layer", "step", "head",
                                         "count"};

static const char *kind_of(uint32_t kind) {
  const kv_record_kind *k = kv_record_kind_of(kind);
  return k ? k->name : "no known record";
}

/* Describes word i of the records a and b, the first that differs. */
static bool tell_word(const kv_look *l, int lane, int nth, const uint32_t *a,
                      const uint32_t *b, size_t i) {
  char name[KV_RECORD_MEANING];
  bool view = a[KIND] == KV_VIEW;
  kv_look_at at = {.what = kind_of(a[KIND]),
                   .lane = lane,
                   .head = view ? (int)a[WHO] : -1,
                   .index = i < HEAD ? -1 : (int)(i - HEAD),
                   .value = {a[i], b[i]},
                   .digits = {8, 8}};
  if (i == KIND)
    return kv_look_tell(l, &at, "record %d is a %s and a %s", nth,
                        kind_of(a[KIND]), kind_of(b[KIND]));
  if (i < HEAD)
    snprintf(name, sizeof name, "%s", header[i]);
  else
    kv_record_word(a, i - HEAD, name);
  return kv_look_tell(l, &at, "record %d, %s: %s", nth, at.what, name);
}

/* Describes records that only one stream has. */
static bool tell_more(const kv_look *l, int lane, int nth, const kv_words *a,
                      const kv_words *b, size_t from) {
  int longer = a->n < b->n;
  const kv_words *w = longer ? b : a;
  const uint32_t *r = w->word + from;
  kv_look_at at = {.what = "journal",
                   .lane = lane,
                   .head = -1,
                   .index = -1,
                   .none = "no such record"};
  if (from + HEAD < w->n) {
    at.what = kind_of(r[KIND]);
    at.head = r[KIND] == KV_VIEW ? (int)r[WHO] : -1;
    at.value[longer] = r[HEAD];
    at.digits[longer] = 8;
  }
  return kv_look_tell(l, &at, "record %d, %s: its first word", nth, at.what);
}

/* Compares a lane's records in this step: views, or memory operations. */
static bool look_records(const kv_look *l, int lane, const kv_words *a,
                         const kv_words *b) {
  size_t least = a->n < b->n ? a->n : b->n, at = 0;
  if (a->n == b->n && !memcmp(a->word, b->word, a->n * sizeof *a->word))
    return false;
  for (int nth = 0;; nth++) {
    if (at + HEAD > least) return tell_more(l, lane, nth, a, b, at);
    const uint32_t *x = a->word + at, *y = b->word + at;
    size_t words = (size_t)HEAD + x[COUNT];
    if (at + words > least)
      words = least - at; /* the count exceeds the stream */
    for (size_t i = 0; i < words; i++)
      if (x[i] != y[i]) return tell_word(l, lane, nth, x, y, i);
    at += words;
  }
}

/* Compares the layer's messages; each is NULL or has `bytes` bytes. */
static bool look_message(const kv_look *l, size_t bytes, const kv_message *a,
                         const kv_message *b) {
  const unsigned char *x = a ? a->data : NULL, *y = b ? b->data : NULL;
  kv_look_at at = {.what = "message",
                   .lane = -1,
                   .head = -1,
                   .index = 0,
                   .digits = {x ? 2 : 0, y ? 2 : 0},
                   .none = "no message"};
  size_t i = 0;
  if (!x && !y) return false;
  while (x && y && i < bytes && x[i] == y[i]) i++;
  if (x && y && i == bytes) return false;
  at.index = (int)i;
  if (x) at.value[0] = x[i];
  if (y) at.value[1] = y[i];
  return kv_look_tell(l, &at, "byte %zu of the message to the layers below", i);
}

/* --- walk ---------------------------------------------------------------- */

typedef kv_compare_side side;
typedef kv_compare_walk walk;

static const kv_lane *lane_of(const walk *w, int x, int i) {
  const side *s = &w->side[x];
  return s->backend->lane(s->store, i);
}

static bool look_bytes(const walk *w, int i, const char *when) {
  return w->bytes &&
         kv_look_bytes(&w->look, lane_of(w, 0, i), lane_of(w, 1, i), when);
}

static bool look_output(walk *w) {
  return kv_look_seen(&w->look, w->cell->shape.d_v, &w->seen[0], &w->seen[1]);
}

static void keep_seen(void *self, int who, const kv_seen *seen) {
  walk *w = self;
  w->seen[who] = *seen;
  if (who && w->row && w->looks && !w->output) w->output = look_output(w);
}

/* Both have attended, or stored the prompt's block, and neither has compressed:
 * compares outputs and bytes, once a step. */
static void look_before(void *self, int who, int lane) {
  walk *w = self;
  if (who > 0 || !w->looks || w->output) return;
  w->output = (w->decodes && look_output(w)) ||
              look_bytes(w, lane, " before compression");
}

/* Describes the difference between the lanes of the two, if there is one. */
static bool compare_lanes(walk *w) {
  bool found = false;
  for (int i = 0; !found && i < w->lanes; i++)
    found = kv_look_state(&w->look, lane_of(w, 0, i), lane_of(w, 1, i));
  return found;
}

static bool look_scores(const walk *w, bool views) {
  return kv_look_scores(&w->look, &w->side[0].shown, &w->side[1].shown, views);
}

static bool look_messages(const walk *w) {
  const side *s = w->side;
  return s[0].here && look_message(&w->look, w->plan->needs.message,
                                   kv_messages_at(s[0].here, w->closing),
                                   kv_messages_at(s[1].here, w->closing));
}

/* Compares a compressed step in the order in which values arise: scores before
 * the views that they decide, views before outputs, scores before memory
 * operations, operations before what they leave. A different output has already
 * been described. */
static bool look_step(walk *w, bool output) {
  bool found = look_scores(w, true);
  for (int i = 0; !found && i < w->lanes; i++)
    found = look_records(&w->look, i, &lane_of(w, 0, i)->views,
                         &lane_of(w, 1, i)->views);
  if (found || output) return true;
  found = look_scores(w, false);
  for (int i = 0; !found && i < w->lanes; i++)
    found = look_records(&w->look, i, &lane_of(w, 0, i)->verbs,
                         &lane_of(w, 1, i)->verbs);
  found = found || compare_lanes(w);
  found = found || look_messages(w);
  for (int i = 0; !found && i < w->lanes; i++) found = look_bytes(w, i, "");
  return found;
}

/* Both have compressed. */
static void look_after(void *self, int who) {
  walk *w = self;
  if (who == 0 && w->looks) w->found = look_step(w, w->output);
}

static bool look_views(walk *w) {
  bool found = false;
  for (int i = 0; !found && i < w->lanes; i++)
    found = look_records(&w->look, i, &lane_of(w, 0, i)->views,
                         &lane_of(w, 1, i)->views);
  return found;
}

/* Runs a later chunk of the prompt, row by row. Compares all rows but the last,
 * views before outputs. */
static void advance_rows(walk *w, const kv_order *o, int first, int count) {
  w->row = true;
  for (int t = first; t < first + count && !w->found; t++) {
    w->look.step = t + 1;
    for (int g = 0; g < o->heads; g++) kv_order_row(o, g, t);
    if (t + 1 == first + count) break;
    if (w->looks) w->found = look_scores(w, true) || look_views(w) || w->output;
    for (int x = 0; x < 2; x++) kv_look_shown_forget(&w->side[x].shown);
    kv_order_row_close(o);
  }
  w->row = false;
  for (int g = 0; g < o->heads && !w->found; g++)
    kv_order_rows_end(o, g, first, count);
}

/* Tokens from `from` on enter as a prompt's block, or as a block of one. */
static void advance_prompt(walk *w, const kv_order *o, int from, int count) {
  const kv_shape *s = &w->cell->shape;
  const kv_asking *q = kv_cell_asks(w->cell, from);
  int end = q                                  ? q->first + q->count
            : s->chunk && from < s->prompt_len ? from + count
                                               : 0;
  for (int x = 0; end && x < 2; x++)
    w->side[x].backend->prompt(w->side[x].store, end);
  kv_order_receive(o);
  if (kv_row_attends(s, from + count) && !q) {
    advance_rows(w, o, from, count);
    return;
  }
  for (int g = 0; g < o->heads; g++) kv_order_prompt(o, g, from, count);
}

/* Runs the n-th closing (a block or chunk of the prompt, or a decode step) on
 * both; looks: compares it. True if a difference was found. */
static bool compare_advance(walk *w, int n, bool looks) {
  const kv_shape *shape = &w->cell->shape;
  int from, count;
  bool decodes;
  kv_rider rider[2];
  if (!kv_cell_closing(w->cell, n, &from, &count, &decodes)) return false;
  for (int x = 0; x < 2; x++)
    rider[x] =
        (kv_rider){.backend = w->side[x].backend,
                   .store = w->side[x].store,
                   .scratch = w->side[x].scratch,
                   .above = w->side[x].above,
                   .below = w->above ? w->side[x].above : w->side[x].here,
                   .alone = true};
  kv_order o = {.riders = 2,
                .rider = rider,
                .heads = shape->n_kv_heads,
                .closing = n,
                .self = w,
                .attended = keep_seen,
                .compresses = look_before,
                .closes = look_after};
  w->closing = n;
  w->decodes = decodes;
  w->looks = looks;
  w->output = w->found = false;
  w->look.step = from + count;
  for (int x = 0; x < 2; x++) kv_look_shown_forget(&w->side[x].shown);
  if (decodes) kv_order_receive(&o);
  for (int g = 0; g < shape->n_kv_heads && decodes; g++)
    kv_order_decode(&o, g, from);
  if (!decodes) advance_prompt(w, &o, from, count);
  if (!w->found) kv_order_close(&o);
  return w->found;
}

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

/* --- the layer ----------------------------------------------------------- */

/* Replays the layer from its beginning through `closings` closings and takes
 * digests. Returns the number of closings made: fewer if a comparison found a
 * difference, or it was stopped. */
static int run(walk *w, int closings, bool looks, kv_layer_digests out[2]) {
  for (int x = 0; x < 2; x++)
    w->side[x].backend->begin(w->side[x].store, w->data);
  for (int x = 0; x < 2 && w->side[x].here; x++)
    kv_messages_clear(w->side[x].here);
  for (int x = 0; x < 2; x++) w->side[x].shown.looks = looks;
  for (int n = 0; n < closings; n++) {
    w->stopped = w->stopped || (w->stop && w->stop());
    if (w->stopped || compare_advance(w, n, looks)) return n;
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

/* Index of the first of journal, state, output, scores that differs, or -1. */
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
 * not. Finds two such neighbours and returns the longer. A prefix ends as a
 * layer does, with the state of every lane, columns included. */
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
  run(w, n, false, d); /* stops at that step */
  if (w->stopped || differing(d) < 0) return;
  w->look.columns = true;
  if (!compare_lanes(w)) tell_digests(w, d, "which the step no longer shows");
}

/* Finds the first difference. First compares after every step. If only digests
 * differ, bisects over prefixes of the layer. If a replay of this cell alone
 * agrees, the difference needs the other cells or is not deterministic. */
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

/* Replays the layers above the index-th, for their messages. */
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

/* Compares one layer: why `digests` differ or, if NULL, its bytes. */
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

/* Finds the lane and the step at which the ledgers differ. If there is none,
 * because the cell alone may agree, reports the total that differs. */
static kv_rc compare_ledgers(walk *w, const kv_result *x, const kv_result *y,
                             kv_err *e) {
  kv_rc rc = KV_OK;
  kv_difference *out = w->look.out;
  if (!look_ledger(&w->look, x, y)) return KV_OK;
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
  if (compare_has_failed(y)) {
    compare_tell_failure(y, out);
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's calls on two backends side by side, looked at:
 * sim/compare/compare_walk.h.
 */
#include "sim/compare/compare_walk.h"

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

/* Both have attended, or the prompt's block is stored, and neither is
 * compressed: compares outputs and bytes, once a step. */
static void look_before(void *self, int who, int lane) {
  walk *w = self;
  if (who > 0 || !w->looks || w->output) return;
  w->output = (w->decodes && look_output(w)) ||
              look_bytes(w, lane, " before compression");
}

bool kv_compare_lanes(walk *w) {
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
  return s[0].here && kv_look_message(&w->look, w->plan->needs.message,
                                      kv_messages_at(s[0].here, w->closing),
                                      kv_messages_at(s[1].here, w->closing));
}

/* Compares a compressed step in the order in which values come about: scores
 * before the views that they decide, views before outputs, scores before memory
 * operations, operations before what they leave. An output that differs has
 * been described already. */
static bool look_step(walk *w, bool output) {
  bool found = look_scores(w, true);
  for (int i = 0; !found && i < w->lanes; i++)
    found = kv_look_records(&w->look, i, &lane_of(w, 0, i)->views,
                            &lane_of(w, 1, i)->views);
  if (found || output) return true;
  found = look_scores(w, false);
  for (int i = 0; !found && i < w->lanes; i++)
    found = kv_look_records(&w->look, i, &lane_of(w, 0, i)->verbs,
                            &lane_of(w, 1, i)->verbs);
  found = found || kv_compare_lanes(w);
  found = found || look_messages(w);
  for (int i = 0; !found && i < w->lanes; i++) found = look_bytes(w, i, "");
  return found;
}

/* Both are compressed. */
static void look_after(void *self, int who) {
  walk *w = self;
  if (who == 0 && w->looks) w->found = look_step(w, w->output);
}

static bool look_views(walk *w) {
  bool found = false;
  for (int i = 0; !found && i < w->lanes; i++)
    found = kv_look_records(&w->look, i, &lane_of(w, 0, i)->views,
                            &lane_of(w, 1, i)->views);
  return found;
}

/* A later chunk of the prompt, row by row; all but the last are compared here,
 * by views before outputs. */
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

/* Tokens from.. enter as a prompt, or as a block of one. */
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

bool kv_compare_advance(walk *w, int n, bool looks) {
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

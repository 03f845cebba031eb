/* SPDX-License-Identifier: Apache-2.0
 *
 * Feeding layouts: a replica of every lane of a layer in flight reports rows
 * written and left, and classes, to the states of the layouts.
 */
#include "sim/layout/layouts_part.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct kv_layouts_flight {
  kv_layouts *of;
  int layer, block, step, lanes;
  kv_replica *replica;             /* [lanes] */
  kv_layout_state **state;         /* [of->n] */
  kv_layout_state *before;         /* [of->n] as it was before compression */
  int64_t row[KV_SIDES][KV_SLABS]; /* bytes */
  int64_t vacated;                 /* in this block */
  kv_rows_listener listener;
  kv_err fault; /* rc 0: none */
};

/* --- rows --------------------------------------------------------------- */

static void write_row(void *self, int lane, int side, int format,
                      int32_t place) {
  const kv_layouts_flight *f = self;
  for (int i = 0; i < f->of->n; i++)
    f->of->of[i].asked->layout->write(f->state[i], lane, side, format, place);
}

static void leave_row(void *self, int lane, int side, int format,
                      int32_t place) {
  kv_layouts_flight *f = self;
  f->vacated += f->row[side][format];
  for (int i = 0; i < f->of->n; i++)
    f->of->of[i].asked->layout->leave(f->state[i], lane, side, format, place);
}

static void retier(void *self, int lane, int32_t place, int to) {
  const kv_layouts_flight *f = self;
  for (int i = 0; i < f->of->n; i++) {
    const kv_layout *layout = f->of->of[i].asked->layout;
    if (layout->retier) layout->retier(f->state[i], lane, place, to);
  }
}

/* --- life --------------------------------------------------------------- */

void kv_layouts_flight_close(kv_layouts_flight *f) {
  if (!f) return;
  for (int i = 0; f->state && i < f->of->n; i++)
    f->of->of[i].asked->layout->close(f->state[i]);
  for (int i = 0; f->replica && i < f->lanes; i++)
    kv_replica_close(&f->replica[i]);
  free(f->replica);
  free(f->state);
  free(f->before);
  free(f);
}

static kv_rc open_parts(kv_layouts_flight *f, kv_err *e) {
  const kv_layouts *l = f->of;
  const kv_layout_room room = {l->shape, l->needs, l->lanes, l->layers,
                               l->points};
  kv_rc rc = KV_OK;
  f->replica = kv_zalloc((size_t)l->lanes, sizeof *f->replica);
  f->state = kv_zalloc((size_t)l->n, sizeof *f->state);
  f->before = kv_zalloc((size_t)l->n, sizeof *f->before);
  if (!f->replica || !f->state || !f->before)
    rc = kv_no_memory(e, "layouts", (size_t)l->lanes * sizeof *f->replica);
  for (int i = 0; !rc && i < l->lanes; i++, f->lanes++)
    rc = kv_replica_open(l->shape->n_tokens, l->needs->codings, &f->replica[i],
                         e);
  for (int i = 0; !rc && i < l->n; i++)
    rc = l->of[i].asked->layout->open(l->of[i].asked, &room, &f->state[i], e);
  return rc;
}

kv_rc kv_layouts_flight_open(kv_layouts *l, kv_layouts_flight **out,
                             kv_err *e) {
  kv_layouts_flight *f = kv_zalloc(1, sizeof *f);
  *out = NULL;
  if (!f) return kv_no_memory(e, "layouts", sizeof *f);
  f->of = l;
  f->listener = (kv_rows_listener){f, write_row, leave_row, retier};
  for (int side = 0; side < KV_SIDES; side++)
    for (int i = 0; i < KV_CODED + l->needs->codings; i++)
      f->row[side][i] = (int64_t)kv_row_bytes(l->shape, l->needs, side, i);
  kv_rc rc = open_parts(f, e);
  if (rc)
    kv_layouts_flight_close(f);
  else
    *out = f;
  return rc;
}

void kv_layouts_flight_begin(kv_layouts_flight *f, int layer) {
  f->layer = layer;
  f->fault = (kv_err){0};
  for (int i = 0; i < f->lanes; i++)
    kv_replica_begin(&f->replica[i], i, &f->listener);
  for (int i = 0; i < f->of->n; i++)
    f->of->of[i].asked->layout->begin(f->state[i]);
}

/* --- a block ------------------------------------------------------------ */

void kv_layouts_flight_enter(kv_layouts_flight *f, int block, int step) {
  f->block = block;
  f->step = step;
  f->vacated = 0;
  for (int i = 0; i < f->of->n; i++) f->state[i]->block = block;
  for (int i = 0; i < f->lanes; i++) kv_replica_enter(&f->replica[i], step);
  for (int i = 0; i < f->of->n; i++) {
    const kv_layout *layout = f->of->of[i].asked->layout;
    if (layout->entered) layout->entered(f->state[i], step);
    f->before[i] = *f->state[i];
  }
}

void kv_layouts_flight_follow(kv_layouts_flight *f, const kv_lane *lane) {
  assert(lane->lane < f->lanes && "lanes are numbered as in the layer");
  if (!f->fault.rc) kv_replica_follow(&f->replica[lane->lane], lane, &f->fault);
}

static void tell_compressed(kv_layouts_flight *f) {
  for (int i = 0; i < f->of->n && !f->fault.rc; i++) {
    const kv_layout *layout = f->of->of[i].asked->layout;
    if (layout->compressed)
      layout->compressed(f->state[i], f->step, f->replica);
  }
}

/* Layers write apart from each other. */
static void record(const kv_layouts_flight *f, const kv_layout_account *a,
                   const kv_layout_state *s, int64_t moved) {
  size_t at = (size_t)f->layer * (size_t)f->of->points + (size_t)f->block;
  size_t lanes = (size_t)f->lanes;
  memcpy(a->count + at * lanes, s->count, lanes * sizeof *s->count);
  a->moved[at] = moved;
}

static void add_regular(kv_layout_regular *to, const kv_regular_layer *s) {
  kv_counter_add(&to->kept, s->kept);
  kv_counter_raise(&to->fullest, s->fullest);
  kv_counter_add(&to->longest, s->fullest);
  kv_counter_add(&to->joined, s->joined);
  kv_counter_raise(&to->widest, s->joined);
  kv_counter_add(&to->stored, s->stored);
  kv_counter_add(&to->masked, s->masked);
  kv_counter_add(&to->vacated, s->vacated);
  if (!s->changed) return;
  kv_counter_add(&to->changed, 1);
  kv_counter_add(&to->changed_kept, s->kept);
  kv_counter_add(&to->changed_joined, s->joined);
}

void kv_layouts_flight_close_block(kv_layouts_flight *f) {
  const kv_layouts *l = f->of;
  int row = kv_layouts_row(l, f->layer);
  tell_compressed(f);
  for (int i = 0; i < l->n; i++) {
    const kv_layout_account *a = &l->of[i];
    const kv_layout_state *s = f->state[i], *was = &f->before[i];
    kv_layout_block *b = kv_layout_block_of(l, a, row, f->block);
    kv_counter_add(&b->vacated, f->vacated);
    kv_counter_add(&b->pages, s->pages);
    kv_counter_add(&b->bytes, s->bytes);
    kv_counter_add(&b->unused, s->unused);
    for (int k = 0; k < a->ranks && s->regular; k++)
      add_regular(kv_layout_regular_of(l, a, row, f->block, k), &s->regular[k]);
    if (a->count) record(f, a, s, s->moved - was->moved);
    kv_counter_raise(&b->more_pages,
                     kv_larger(was->pages, s->most_pages) - s->pages);
    kv_counter_raise(&b->more_bytes,
                     kv_larger(was->bytes, s->most_bytes) - s->bytes);
    kv_layout_bits *held = kv_layout_bits_of(l, a, row, f->block);
    for (size_t w = 0; w < a->words; w++)
      atomic_fetch_or_explicit(&held[w], s->held[w], memory_order_relaxed);
  }
}

kv_rc kv_layouts_flight_end(kv_layouts_flight *f, kv_err *e) {
  const kv_layouts *l = f->of;
  int row = kv_layouts_row(l, f->layer);
  if (f->fault.rc) return kv_fail(e, KV_INTERNAL, "%s", f->fault.text);
  for (int i = 0; i < l->n; i++) {
    const kv_layout_account *a = &l->of[i];
    const kv_layout *layout = a->asked->layout;
    kv_layout_state *s = f->state[i];
    if (s->fault) return kv_fail(e, KV_USAGE, "%s", s->fault);
    if (layout->end) layout->end(s);
    if (!layout->sound(s))
      return kv_fail(e, KV_INTERNAL, "layout %s: its books do not agree",
                     a->asked->name);
    for (int b = 0; b < l->points; b++)
      kv_counter_add(&kv_layout_block_of(l, a, row, b)->freed, s->freed[b]);
    kv_layout_tables *t = &a->tables[row];
    kv_counter_add(&t->moved, s->moved);
    kv_counter_add(&t->operations, s->operations);
    kv_counter_add(&t->entries, s->entries);
    if (a->tier)
      memcpy(a->tier + f->layer * KV_TIERS, s->tier,
             KV_TIERS * sizeof *s->tier);
    size_t pages = (size_t)a->shared.pages, first = (size_t)row * pages;
    for (size_t p = 0; p < pages; p++) {
      kv_counter_add(&a->wrote[first + p], s->wrote[p]);
      kv_counter_raise(&a->left[first + p], s->left[p]);
    }
  }
  return KV_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Summing up the account of a layout of regular indices for a row of results:
 * counts of a block over all layers, put into the formulas of
 * sim/layout/regular.h.
 */
#include "sim/layout/layouts_part.h"

#include <string.h>

/* What the store holds after a block, and while it was compressed. */
typedef struct held {
  int64_t before, after; /* slots: of what was there and entered; compressed */
  int64_t moves;         /* slots that a rewrite fills meanwhile */
  bool changed;
  int64_t all, mask; /* slots of a store that drops nothing; bytes of masks */
} held;

/* Bytes of a slot: the largest rows of K and of V that an entry may have, for
 * indices that are alike ask for places that are. */
static int64_t slot_of(const kv_layouts *l) {
  int64_t sum = 0;
  for (int side = 0; side < KV_SIDES; side++) {
    int64_t most = 0;
    for (int f = 0; f < KV_CODED + l->needs->codings; f++)
      if (f != KV_MERGED || l->needs->merges)
        most =
            kv_larger(most, (int64_t)kv_row_bytes(l->shape, l->needs, side, f));
    sum += most;
  }
  return sum;
}

/* The bits below n, of word w. */
static uint64_t below(size_t n, size_t w) {
  if (n >= 64 * (w + 1)) return ~0ull;
  return n > 64 * w ? (1ull << (n - 64 * w)) - 1 : 0;
}

/* Tokens that any lane of any layer holds; joined[0] of this block, [1] of the
 * one before. Is one gone that was held or entered, or another back? */
static void count_all(const kv_layouts *l, const kv_layout_account *a, int b,
                      uint64_t *const joined[2], kv_regular_counts *c) {
  uint64_t *now = joined[0], *before = joined[1];
  size_t seen = b ? (size_t)kv_layouts_seen(l, b - 1) : 0;
  memcpy(before, now, a->words * sizeof *now);
  memset(now, 0, a->words * sizeof *now);
  for (int r = 0; r < l->rows; r++) {
    const kv_layout_bits *bit = kv_layout_bits_of(l, a, r, b);
    for (size_t w = 0; w < a->words; w++)
      now[w] |= atomic_load_explicit(&bit[w], memory_order_relaxed);
  }
  for (size_t w = 0; w < a->words; w++) {
    uint64_t entered = below((size_t)c->seen, w) & ~below(seen, w);
    c->all += __builtin_popcountll(now[w]);
    c->changed_all = c->changed_all || now[w] != (before[w] | entered);
  }
}

static kv_regular_counts counts_of(const kv_layouts *l,
                                   const kv_layout_account *a, int b,
                                   uint64_t *const joined[2]) {
  kv_regular_counts c = {
      .layers = l->layers, .lanes = l->lanes, .seen = kv_layouts_seen(l, b)};
  for (int r = 0; r < l->rows; r++) {
    const kv_layout_regular *at =
        &a->regular[(size_t)r * (size_t)l->points + (size_t)b];
    c.kept += kv_counter_get(&at->kept);
    c.longest += kv_counter_get(&at->longest);
    c.fullest = kv_larger(c.fullest, kv_counter_get(&at->fullest));
    c.widest = kv_larger(c.widest, kv_counter_get(&at->widest));
    c.changed += kv_counter_get(&at->changed);
    c.changed_kept += kv_counter_get(&at->changed_kept);
    c.changed_joined += kv_counter_get(&at->changed_joined);
    c.masked += kv_counter_get(&at->masked);
  }
  if (a->words) count_all(l, a, b, joined, &c);
  return c;
}

/* base has other indices when the union over all lanes has. */
static held held_at(const kv_layout_account *a, const kv_regular_counts *c,
                    const kv_regular_counts *was, int64_t slots) {
  kv_regular_task task = a->asked->layout->task;
  int64_t entered = c->seen - was->seen, lanes = c->layers * c->lanes;
  held h = {.before = slots + lanes * entered,
            .after = kv_regular_slots(task, a->asked->sparse, c),
            .changed =
                task == KV_REGULAR_BASE ? c->changed_all : c->changed > 0,
            .all = lanes * c->seen,
            .mask = kv_regular_mask(c)};
  if (h.changed && !a->asked->sparse) h.moves = kv_regular_moves(task, c);
  return h;
}

/* The part of a block that only rewrites and decode steps have. */
static void race(kv_regular_race *race, const held *h, int64_t slot,
                 bool decodes) {
  int64_t all = h->all * slot + h->mask;
  if (decodes) kv_regular_step(race, h->before * slot, all);
  if (h->changed)
    kv_regular_rewrite(race, (h->before + h->moves) * slot, h->moves * slot,
                       all, h->mask);
}

/* Adds what every block has. */
static void take(kv_layout_result *r, const held *h, int64_t slot, int64_t mask,
                 int64_t vacated) {
  kv_layout_regular_result *g = &r->regular;
  int64_t most = kv_larger(h->before, h->after) + h->moves;
  int64_t back = (h->all - h->after) * slot;
  r->vacated += vacated;
  r->freed = kv_larger(r->freed, back < r->vacated ? back : r->vacated);
  r->pages_peak = kv_larger(r->pages_peak, KV_SIDES * most);
  r->peak = kv_larger(r->peak, most * slot + mask);
  g->rewrites += h->changed;
  g->moves += h->moves;
  g->moved += h->moves * slot;
}

/* Adds what a step of the row has. */
static void take_step(kv_layout_result *r, const kv_regular_counts *c,
                      int64_t bytes, int64_t slots, int64_t payload,
                      kv_layout_step *step) {
  r->regular.mti += bytes;
  r->regular.kept += c->kept;
  r->regular.fullest += c->fullest;
  kv_layouts_take_step(r, KV_SIDES * slots, bytes, bytes - payload, step);
}

static int64_t vacated_at(const kv_layouts *l, const kv_layout_account *a,
                          int b) {
  int64_t sum = 0;
  for (int r = 0; r < l->rows; r++)
    sum += kv_counter_get(&kv_layout_block_of(l, a, r, b)->vacated);
  return sum;
}

void kv_layouts_regular(const kv_layouts *l, const kv_layout_account *a,
                        uint64_t *const joined[2], const kv_result *of,
                        kv_layout_result *r) {
  kv_regular_counts was = {0};
  kv_regular_race run;
  int64_t slot = slot_of(l), slots = 0;
  bool sparse = a->asked->sparse;
  kv_regular_begin(&run);
  memset(joined[0], 0, a->words * sizeof *joined[0]);
  r->regular =
      (kv_layout_regular_result){.there = 1,
                                 .lanes = (int64_t)l->layers * l->lanes,
                                 .rewritten = -1,
                                 .break_even = -1};
  for (int b = 0; b < l->points; b++) {
    int i = b - (l->blocks - 1);
    kv_regular_counts c = counts_of(l, a, b, joined);
    held h = held_at(a, &c, &was, slots);
    int64_t mask = sparse ? h.mask : 0;
    race(&run, &h, slot, i > 0);
    if (h.changed && r->regular.rewritten < 0) r->regular.rewritten = c.seen;
    take(r, &h, slot, mask, vacated_at(l, a, b));
    slots = h.after;
    was = c;
    if (i < 0) continue;
    if (i > 0) r->regular.loads += h.before;
    r->regular.mask_end = mask;
    r->step[i].step = of->step[i].step;
    take_step(r, &c, slots * slot + mask, slots, of->step[i].codes - c.masked,
              &r->step[i]);
  }
  if (!sparse && a->asked->layout->task != KV_REGULAR_BASE)
    r->regular.break_even = run.paid_at;
}

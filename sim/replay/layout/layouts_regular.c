/* SPDX-License-Identifier: Apache-2.0
 *
 * Summing up the account of a layout of regular indices for a row of results:
 * counts of a block over all layers, put into the formulas of
 * sim/replay/layout/regular.h, for each rank that has lanes.
 */
#include "sim/replay/layout/layouts_part.h"

#include <string.h>

/* One rank's share of an account: its lanes of all layers. */
typedef struct share {
  const kv_layouts *l;
  const kv_layout_account *a;
  int rank, lanes;        /* lanes of a layer */
  size_t words;           /* words of a bitset of tokens, or 0 */
  uint64_t *now, *before; /* [words] scratch */
} share;

/* What the store holds after a block, and while it was compressed. */
typedef struct held {
  int64_t before, after; /* slots: kept and entered; left after compression */
  int64_t moves;         /* slots that a rewrite fills at that time */
  bool changed;
  int64_t all, mask; /* slots of a store that drops nothing; bytes of masks */
  int64_t own;       /* bytes of masks that the store itself has */
} held;

/* Bytes of a slot: the largest rows of K and of V that an entry may have,
 * because equal indices need equal positions. */
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

/* The bits of word w below n. */
static uint64_t below(size_t n, size_t w) {
  if (n >= 64 * (w + 1)) return ~0ull;
  return n > 64 * w ? (1ull << (n - 64 * w)) - 1 : 0;
}

/* x->now: the tokens that any lane holds; x->before: the same after the block
 * before. Was a held or entered token lost, or did one come back? */
static void count_all(const share *x, int b, kv_regular_counts *c) {
  size_t seen = b ? (size_t)kv_layouts_seen(x->l, b - 1) : 0;
  memcpy(x->before, x->now, x->words * sizeof *x->now);
  memset(x->now, 0, x->words * sizeof *x->now);
  for (int r = 0; r < x->l->rows; r++) {
    const kv_layout_bits *bit = kv_layout_bits_of(x->l, x->a, r, b);
    bit += (size_t)x->rank * x->words;
    for (size_t w = 0; w < x->words; w++)
      x->now[w] |= atomic_load_explicit(&bit[w], memory_order_relaxed);
  }
  for (size_t w = 0; w < x->words; w++) {
    uint64_t entered = below((size_t)c->seen, w) & ~below(seen, w);
    c->all += __builtin_popcountll(x->now[w]);
    c->changed_all = c->changed_all || x->now[w] != (x->before[w] | entered);
  }
}

static kv_regular_counts counts_of(const share *x, int b) {
  kv_regular_counts c = {.layers = x->l->layers,
                         .lanes = x->lanes,
                         .seen = kv_layouts_seen(x->l, b)};
  for (int r = 0; r < x->l->rows; r++) {
    const kv_layout_regular *at =
        kv_layout_regular_of(x->l, x->a, r, b, x->rank);
    c.kept += kv_counter_get(&at->kept);
    c.longest += kv_counter_get(&at->longest);
    c.joined += kv_counter_get(&at->joined);
    c.fullest = kv_larger(c.fullest, kv_counter_get(&at->fullest));
    c.widest = kv_larger(c.widest, kv_counter_get(&at->widest));
    c.changed += kv_counter_get(&at->changed);
    c.changed_kept += kv_counter_get(&at->changed_kept);
    c.changed_joined += kv_counter_get(&at->changed_joined);
    c.stored += kv_counter_get(&at->stored);
    c.masked += kv_counter_get(&at->masked);
    c.vacated += kv_counter_get(&at->vacated);
  }
  if (x->words) count_all(x, b, &c);
  return c;
}

/* The indices of base change with the union over all lanes. */
static held held_at(const kv_layout_account *a, const kv_regular_counts *c,
                    const kv_regular_counts *was, int64_t slots) {
  kv_regular_task task = a->asked->layout->task;
  int64_t entered = c->seen - was->seen, lanes = c->layers * c->lanes;
  held h = {.before = slots + lanes * entered,
            .after = kv_regular_slots(task, a->asked->sparse, c),
            .changed =
                task == KV_REGULAR_BASE ? c->changed_all : c->changed > 0,
            .all = lanes * c->seen,
            .mask = kv_regular_mask(a->asked->one_mask, c)};
  if (a->asked->sparse || a->asked->stays) h.own = h.mask;
  if (h.changed && !a->asked->sparse) h.moves = kv_regular_moves(task, c);
  return h;
}

/* Counts the rewrite or decode step of a block. */
static void race(kv_regular_race *race, const held *h, int64_t slot,
                 bool decodes) {
  int64_t all = h->all * slot + h->mask;
  if (decodes) kv_regular_step(race, h->before * slot + h->own, all);
  if (h->changed)
    kv_regular_rewrite(race, (h->before + h->moves) * slot + h->own,
                       h->moves * slot, all, h->mask);
}

/* Adds what every block counts. */
static void take(kv_layout_result *r, const held *h, int64_t slot,
                 int64_t vacated) {
  kv_layout_regular_result *g = &r->regular;
  int64_t most = kv_larger(h->before, h->after) + h->moves;
  int64_t back = (h->all - h->after) * slot;
  r->vacated += vacated;
  r->freed = kv_larger(r->freed, back < r->vacated ? back : r->vacated);
  r->pages_peak = kv_larger(r->pages_peak, KV_SIDES * most);
  r->peak = kv_larger(r->peak, most * slot + h->own);
  g->rewrites += h->changed;
  g->moves += h->moves;
  g->moved += h->moves * slot;
}

/* Adds what a step of the row counts. */
static void take_step(kv_layout_result *r, bool one_mask,
                      const kv_regular_counts *c, int64_t bytes, int64_t slots,
                      kv_layout_step *step) {
  r->regular.mti += bytes;
  r->regular.kept += kv_regular_kept(one_mask, c);
  r->regular.fullest += kv_regular_fullest(one_mask, c);
  kv_layouts_take_step(r, KV_SIDES * slots, bytes,
                       bytes - (c->stored - c->masked), step);
}

/* Fills in the numbers that are 0 in r. */
static void fill(const share *x, const kv_result *of, kv_layout_result *r) {
  const kv_layouts *l = x->l;
  kv_regular_counts was = {0};
  kv_regular_race run;
  int64_t slot = slot_of(l), slots = 0;
  bool sparse = x->a->asked->sparse;
  kv_regular_begin(&run);
  memset(x->now, 0, x->words * sizeof *x->now);
  r->regular =
      (kv_layout_regular_result){.there = 1,
                                 .lanes = (int64_t)l->layers * x->lanes,
                                 .rewritten = -1,
                                 .break_even = -1};
  for (int b = 0; b < l->points; b++) {
    int i = b - (l->blocks - 1);
    kv_regular_counts c = counts_of(x, b);
    held h = held_at(x->a, &c, &was, slots);
    race(&run, &h, slot, i > 0);
    if (h.changed && r->regular.rewritten < 0) r->regular.rewritten = c.seen;
    take(r, &h, slot, c.vacated);
    slots = h.after;
    was = c;
    if (i < 0) continue;
    if (i > 0) r->regular.loads += h.before;
    r->regular.mask_end = h.own;
    r->step[i].step = of->step[i].step;
    take_step(r, x->a->asked->one_mask, &c, slots * slot + h.own, slots,
              &r->step[i]);
  }
  if (!sparse && x->a->asked->layout->task != KV_REGULAR_BASE)
    r->regular.break_even = run.paid_at;
}

void kv_layouts_regular(const kv_layouts *l, const kv_layout_account *a,
                        uint64_t *const joined[2], const kv_result *of,
                        kv_layout_result *r) {
  const kv_layout_result empty = *r;
  share x = {.l = l,
             .a = a,
             .lanes = l->lanes / a->ranks,
             .words = a->words / (size_t)a->ranks,
             .now = joined[0],
             .before = joined[1]};
  int64_t most = -1;
  int fullest = 0;
  for (; x.rank < a->ranks; x.rank++) {
    *r = empty;
    fill(&x, of, r);
    if (r->regular.mti > most) {
      most = r->regular.mti;
      fullest = x.rank;
    }
  }
  if (fullest == a->ranks - 1) return; /* r has them */
  x.rank = fullest;
  *r = empty;
  fill(&x, of, r);
}

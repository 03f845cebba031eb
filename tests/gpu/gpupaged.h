/* SPDX-License-Identifier: Apache-2.0
 *
 * For check_gpu_paged: lanes of the reference whose rows are copied, byte for
 * byte, into unified pages in the executor's memory, as attention over pages
 * expects them (gpu/shared/paged.h). Page manager and tables are the device's
 * own; entries take numbers of their tier in any order, and some numbers stay
 * unused. The test makes a world with h, c, r, seed and, of the layer l, shape,
 * lanes, lane and what take_attention (tests/gpu/gpuroom.h) sets; calls fill;
 * and at the end kv_gpu_unified_close and give_all. Any failure fails the test.
 */
#ifndef KV_TESTS_GPU_PAGED_H
#define KV_TESTS_GPU_PAGED_H

#include "gpu/emu/emu.h"
#include "gpu/formats/format.h"
#include "gpu/host/unified.h"

#define _Thread_local __thread /* in headers that are C's alone */
extern "C" {
#include "ref/backend/attend.h"
#include "ref/pages/pages.h"
#include "tests/support/bundled.h"
#include "tests/support/draw.h"
#include "tests/support/rig.h"
}
#undef _Thread_local
#include "tests/gpu/gpuroom.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_LANES = 8 }; /* of a world */

typedef struct how {
  kv_page_config tier[KV_TIERS]; /* codes of the high and of the low tier */
  bool fast[KV_SIDES];           /* is the side read whole rows at a time? */
  const char *alpha; /* parameters of leankv that leave entries in both tiers */
} how;

struct world : gpuroom {
  const how *h;
  const rig_case *c; /* the request, .. */
  const rig *r;      /* .. replayed on the reference: its lanes are copied */
  uint64_t seed;     /* of the order of numbers */
  kv_gpu_layer l;
  kv_gpu_paged p;
  kv_gpu_unified u;
  kv_pages_count count[MOST_LANES];   /* numbers in use */
  kv_pages_count entries[MOST_LANES]; /* that have one */
  char *pool;
  size_t pool_bytes;
  int32_t *order; /* [lanes][stride] of entry j: 2 * its number + its tier */
};

/* --- pages ---------------------------------------------------------------- */

/* How a coded side of an entry is coded. */
static const kv_minmax *codes_of(const kv_slab *slab, const kv_cell_ref *ref) {
  assert_true(ref->format >= KV_CODED);
  return (const kv_minmax *)slab[ref->format].coding->settings;
}

/* The tier of entry i, by the bits of its codes. */
static int tier_of(const world *w, const kv_lane *l, int i) {
  for (int t = 0; t < KV_TIERS; t++)
    if (codes_of(l->k_slab, &l->k[i])->bits == w->h->tier[t].bits[0] &&
        codes_of(l->v_slab, &l->v[i])->bits == w->h->tier[t].bits[1])
      return t;
  fail_msg("an entry of neither tier");
  return 0;
}

/* slot [l->n]: entries take numbers of their tier in a random order; about
 * every sixth number stays unused. */
static void draw_order(world *w, const kv_lane *l, int32_t *slot) {
  kv_pages_count *n = &w->count[l->lane];
  *n = w->entries[l->lane] = {{0, 0}};
  for (int i = 0; i < l->n; i++) {
    int tier = tier_of(w, l, i);
    n->of[tier] += draw_below(&w->seed, 6) == 0;
    slot[i] = n->of[tier]++ * 2 + tier;
    w->entries[l->lane].of[tier]++;
  }
  for (int i = l->n - 1; i > 0; i--) {
    int j = draw_below(&w->seed, i + 1);
    int32_t other = slot[j];
    if ((slot[i] ^ other) & 1) continue;
    slot[j] = slot[i];
    slot[i] = other;
  }
}

/* How tier t's tokens are stored in pages. */
static kv_gpu_paged_tier tier_with(const world *w, int t) {
  const kv_page_config *c = &w->h->tier[t];
  const int width[] = {w->c->d, w->c->d_v};
  kv_page_token token = kv_page_token_of(width[0], width[1], c);
  kv_gpu_tier_side side[KV_SIDES];
  for (int i = 0; i < KV_SIDES; i++)
    side[i] = {{c->bits[i], (width[i] + c->groups[i] - 1) / c->groups[i],
                KV_RULE_UNROUNDED},
               width[i],
               KV_CODED + 2 * t + i};
  return kv_gpu_paged_tier_of(w->p.page, &token, side);
}

/* Opens the page manager, reserves pages for w->count, and allocates the pool.
 */
static void take_pages(world *w) {
  int lanes = rig_lanes(w->r), n = w->c->n_tokens;
  kv_err e;
  kv_pages_shape s = {KV_PAGES_CODE, 1, lanes, 0, 0, {0, 0}};
  w->p.page = kv_page_bytes(w->c->d, w->c->d_v);
  for (int t = 0; t < KV_TIERS; t++) {
    w->p.tier[t] = tier_with(w, t);
    s.tokens[t] = w->p.tier[t].tokens;
  }
  s.table = kv_pages_table(s.variant, 2 * n, s.tokens, s.tokens[KV_HIGH]);
  s.pages = lanes * s.table;
  assert_int_equal(kv_gpu_unified_open(kv_device_emu(), &s, &w->u, &e), KV_OK);
  kv_pages_job prompt = {KV_PAGES_PROMPT, 0, 2 * n, nullptr, false, 0};
  kv_pages_job compressed = {KV_PAGES_COMPRESSED, 0, 0, w->count, false, 0};
  assert_int_equal(kv_gpu_unified_compact(&w->u, 1, &prompt), 0);
  assert_int_equal(kv_gpu_unified_compact(&w->u, 1, &compressed), 0);
  w->pool_bytes = (size_t)(s.pages * w->p.page);
  w->pool = take<char>(w, w->pool_bytes);
  memset(w->pool, 0x7f, w->pool_bytes); /* scales: NaN */
  w->p.pool = w->pool;
  w->p.entries = s.table;
  w->p.table = w->u.p.table;
  w->p.held = w->u.p.held;
  w->p.where = take<int32_t>(w, (size_t)lanes * KV_TIERS * (size_t)w->l.stride);
}

/* Copies a side of an entry from its block (metadata, then codes) to its page.
 */
static void put_row(world *w, int lane, int32_t slot, int side,
                    const kv_slab *slab, const kv_cell_ref *ref) {
  const kv_gpu_paged_tier *t = &w->p.tier[slot & 1];
  const kv_gpu_paged_side *s = &t->side[side];
  int page = (slot >> 1) / t->tokens, at = (slot >> 1) % t->tokens;
  int entry = slot & 1 ? w->p.entries - 1 - page : page;
  char *to = w->pool + w->p.table[lane * w->p.entries + entry] * w->p.page;
  const kv_slab *of = &slab[ref->format];
  const char *from = of->data + (size_t)ref->block * of->size;
  assert_int_equal(codes_of(slab, ref)->group, s->how.group);
  memcpy(to + s->meta_at + at * s->meta, from, (size_t)s->meta);
  memcpy(to + s->codes_at + at * s->codes, from + s->meta, (size_t)s->codes);
}

/* Attention's input for lane i: references, and the slabs that they name. */
static void refer(world *w, int i) {
  kv_gpu_lane *to = &w->l.lane[i];
  const kv_lane *from = rig_lane(w->r, i);
  size_t n = (size_t)from->n;
  kv_cell_ref *ref[] = {take<kv_cell_ref>(w, n), take<kv_cell_ref>(w, n)};
  to->n = from->n;
  to->k = ref[0];
  to->v = ref[1];
  for (int x = 0; x < (int)KV_TIERS * (int)KV_SIDES; x++) {
    int tier = x / (int)KV_SIDES, side = x % (int)KV_SIDES;
    const kv_gpu_paged_side *s = &w->p.tier[tier].side[side];
    kv_gpu_slab *slab = (side ? to->v_slab : to->k_slab) + s->slab;
    slab->format = KV_GPU_token;
    slab->settings = &s->how;
    slab->width = s->width;
    slab->used = w->count[i].of[tier];
    slab->in = {&w->p, i, tier, side};
    for (int j = 0; j < from->n; j++) {
      int32_t slot = w->order[i * w->l.stride + j];
      if ((slot & 1) == tier) ref[side][j] = {slot >> 1, 0, (uint16_t)s->slab};
    }
  }
}

/* All of it: pages, rows, and attention's input. */
static void fill(world *w) {
  int lanes = rig_lanes(w->r);
  w->order = take<int32_t>(w, (size_t)lanes * (size_t)w->l.stride);
  for (int i = 0; i < lanes; i++)
    draw_order(w, rig_lane(w->r, i), w->order + i * w->l.stride);
  take_pages(w);
  for (int i = 0; i < lanes; i++) {
    const kv_lane *l = rig_lane(w->r, i);
    refer(w, i);
    for (int j = 0; j < l->n; j++) {
      int32_t slot = w->order[i * w->l.stride + j];
      put_row(w, i, slot, KV_SIDE_K, l->k_slab, &l->k[j]);
      put_row(w, i, slot, KV_SIDE_V, l->v_slab, &l->v[j]);
    }
  }
}

#endif

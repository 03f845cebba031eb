/* SPDX-License-Identifier: Apache-2.0
 *
 * The costs of regular indices: sim/layout/regular.h.
 */
#include "sim/layout/regular.h"

int64_t kv_regular_slots(kv_regular_task task, bool sparse,
                         const kv_regular_counts *c) {
  int64_t lanes = c->layers * c->lanes;
  if (sparse) return lanes * c->seen;
  switch (task) {
  case KV_REGULAR_BASE:
    return lanes * c->all;
  case KV_REGULAR_LS:
  case KV_REGULAR_LA:
    return lanes * c->widest;
  case KV_REGULAR_HS:
    return c->lanes * c->longest;
  default:
    return lanes * c->fullest;
  }
}

int64_t kv_regular_mask(bool one, const kv_regular_counts *c) {
  return c->layers * (one ? 1 : c->lanes) * ((c->seen + 7) / 8);
}

int64_t kv_regular_kept(bool one, const kv_regular_counts *c) {
  return one ? c->lanes * c->joined : c->kept;
}

int64_t kv_regular_fullest(bool one, const kv_regular_counts *c) {
  return one ? c->widest : c->fullest;
}

int64_t kv_regular_moves(kv_regular_task task, const kv_regular_counts *c) {
  switch (task) {
  case KV_REGULAR_BASE:
    return 0; /* one table of blocks serves all lanes */
  case KV_REGULAR_LS:
    return c->changed * c->lanes * c->widest;
  case KV_REGULAR_LA:
    return c->lanes * c->changed_joined;
  default:
    return c->changed_kept;
  }
}

void kv_regular_begin(kv_regular_race *r) {
  *r = (kv_regular_race){.paid_at = -1};
}

static kv_regular_wide product(int64_t a, int64_t b) {
  return (kv_regular_wide)a * (kv_regular_wide)b;
}

void kv_regular_rewrite(kv_regular_race *r, int64_t held, int64_t moved,
                        int64_t all, int64_t mask) {
  r->begun = true;
  r->rewritten += product(held, 2 * moved);
  r->masked += product(all, mask);
}

void kv_regular_step(kv_regular_race *r, int64_t held, int64_t all) {
  if (!r->begun) return;
  r->steps++;
  r->rewritten += product(held, held);
  r->masked += product(all, all);
  if (r->paid_at < 0 && r->rewritten <= r->masked) r->paid_at = r->steps;
}

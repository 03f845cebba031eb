/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to ref/pages/pages*.c: what the phases of a compaction hand on.
 */
#ifndef KV_REF_PAGES_PAGES_PART_H
#define KV_REF_PAGES_PAGES_PART_H

#include "ref/pages/pages.h"

/* Heads that one thread plans and moves at a time. */
enum { KV_PAGES_PART = 64 };

/* Pages that such heads give and take, and, once that is known, where those
 * begin in the ring: how many of others come before them. */
typedef struct kv_pages_part {
  int64_t give, take;
} kv_pages_part;

/* How the pages of one head change. */
typedef struct kv_pages_change {
  int32_t turn;           /* pages beyond the high tier that become low ones */
  int32_t give[KV_TIERS]; /* behind those */
  int32_t take[KV_TIERS];
} kv_pages_change;

static inline int32_t kv_pages_above(int32_t a, int32_t b) {
  return a > b ? a - b : 0;
}

static inline kv_pages_change kv_pages_between(const kv_pages_count *now,
                                               const kv_pages_count *goal) {
  int32_t spare = kv_pages_above(now->of[KV_HIGH], goal->of[KV_HIGH]);
  int32_t lacks = kv_pages_above(goal->of[KV_LOW], now->of[KV_LOW]);
  int32_t turn = spare < lacks ? spare : lacks;
  return (kv_pages_change){
      turn,
      {spare - turn, kv_pages_above(now->of[KV_LOW], goal->of[KV_LOW])},
      {kv_pages_above(goal->of[KV_HIGH], now->of[KV_HIGH]), lacks - turn}};
}

#endif

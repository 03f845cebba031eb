/* SPDX-License-Identifier: Apache-2.0
 *
 * The geometry of unified pages: ref/pages/geometry.h.
 */
#include "ref/pages/geometry.h"

#include <stdbool.h>

enum {
  CODES_ALIGN = 32, /* bytes: codes and metadata */
  VALUE_ALIGN = 128,
  VALUES_AT_ONCE = 2,
  SCALE_AND_ZERO = 4, /* bytes of a group: two fp16 */
  SCORE = 4,
  POSITION = 4,
  LEAST_PAGE = 800,
  MOST_PAGE = 8000,
  PAGE_STEP = VALUE_ALIGN /* so that V is aligned in every page of a pool */
};

static int64_t up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

kv_page_token kv_page_token_of(int d, int d_v, const kv_page_config *c) {
  kv_page_token t;
  for (int side = 0; side < 2; side++) {
    int64_t bits = (int64_t)(side ? d_v : d) * c->bits[side];
    t.codes[side] = up(bits, 8) / 8;
    t.meta[side] = (int64_t)SCALE_AND_ZERO * c->groups[side];
  }
  return t;
}

int64_t kv_page_payload(const kv_page_token *t) {
  return t->codes[0] + t->meta[0] + t->codes[1] + t->meta[1] + SCORE + POSITION;
}

kv_page_map kv_page_map_with(int32_t tokens, const kv_page_token *t) {
  int64_t n = tokens, even = up(n, VALUES_AT_ONCE);
  kv_page_map m = {.tokens = tokens};
  int64_t *at = m.at;
  at[KV_PAGE_K_META] = up(n * t->codes[0], CODES_ALIGN);
  at[KV_PAGE_V] =
      up(at[KV_PAGE_K_META] + up(n * t->meta[0], CODES_ALIGN), VALUE_ALIGN);
  at[KV_PAGE_V_META] = at[KV_PAGE_V] + up(even * t->codes[1], CODES_ALIGN);
  at[KV_PAGE_SCORES] = at[KV_PAGE_V_META] + up(even * t->meta[1], CODES_ALIGN);
  at[KV_PAGE_POSITIONS] = at[KV_PAGE_SCORES] + n * SCORE;
  at[KV_PAGE_SEGMENTS] = at[KV_PAGE_POSITIONS] + n * POSITION;
  return m;
}

kv_page_map kv_page_map_of(int64_t page, const kv_page_token *t) {
  int32_t n = (int32_t)(page / kv_page_payload(t));
  kv_page_map m = kv_page_map_with(n, t);
  while (n > 0 && m.at[KV_PAGE_SEGMENTS] > page) m = kv_page_map_with(--n, t);
  return m;
}

/* Bytes of a page that tokens leave unused in the worst configuration; -1: a
 * configuration fits no token. */
static int64_t worst(int64_t page, int d, int d_v) {
  static const kv_page_config of[] = {
      {{8, 4}, {1, 1}}, {{8, 4}, {1, 2}}, {{4, 2}, {1, 1}}, {{4, 2}, {2, 4}}};
  int64_t most = 0;
  for (int i = 0; i < 4; i++) {
    kv_page_token t = kv_page_token_of(d, d_v, &of[i]);
    int64_t n = kv_page_map_of(page, &t).tokens;
    int64_t unused = page - n * kv_page_payload(&t);
    if (n == 0) return -1;
    if (unused > most) most = unused;
  }
  return most;
}

int64_t kv_page_bytes(int d, int d_v) {
  int64_t best = 0, unused = 0;
  for (int64_t page = up(LEAST_PAGE, PAGE_STEP); page <= MOST_PAGE;
       page += PAGE_STEP) {
    int64_t now = worst(page, d, d_v);
    bool better = now >= 0 && (!best || now * best < unused * page);
    if (!better) continue;
    best = page;
    unused = now;
  }
  return best;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The page manager's memory, and what can be asked of it: ref/pages/pages.h.
 *
 * The ring has its count beside its start. The authors' code has a start and an
 * inclusive end instead: with these a list without any free page looks like one
 * of which all are free, and it is taken for the latter.
 */
#include "ref/pages/pages.h"

#include <stdlib.h>
#include <string.h>

int32_t kv_pages_table(kv_pages_variant variant, int32_t most_tokens,
                       const int32_t tokens[KV_TIERS], int32_t fewest) {
  /* The paper has no entry more, as low pages hold more tokens than high ones.
   * But 63 high tokens and a low one of 64 need 3 pages of 32, and not 2. */
  if (variant == KV_PAGES_PAPER)
    return kv_pages_for(most_tokens, tokens[KV_HIGH]) + (tokens[KV_LOW] > 0);
  return kv_pages_for(most_tokens, fewest) + 2;
}

static size_t heads_of(const kv_pages *p) {
  return (size_t)p->shape.requests * (size_t)p->shape.heads;
}

kv_rc kv_pages_open(const kv_pages_shape *shape, int threads, kv_pages *out,
                    kv_err *e) {
  kv_pages *p = out;
  *p = (kv_pages){.shape = *shape, .threads = threads};
  size_t heads = heads_of(p), pages = (size_t)shape->pages;
  p->parts = (shape->heads + KV_PAGES_PART - 1) / KV_PAGES_PART;
  p->ring = kv_zalloc(pages, sizeof *p->ring);
  p->table = kv_zalloc(heads, (size_t)shape->table * sizeof *p->table);
  p->held = kv_zalloc(heads, sizeof *p->held);
  p->store = kv_zalloc(heads, sizeof *p->store);
  p->goal = kv_zalloc(heads, sizeof *p->goal);
  p->part =
      kv_zalloc((size_t)shape->requests * (size_t)p->parts, sizeof *p->part);
  p->mark = kv_zalloc(pages / 64 + 1, sizeof *p->mark);
  if (!p->ring || !p->table || !p->held || !p->store || !p->goal || !p->part ||
      !p->mark) {
    kv_pages_close(p);
    *p = (kv_pages){0};
    return kv_no_memory(e, "tables of pages",
                        heads * (size_t)shape->table * sizeof *p->table);
  }
  kv_pages_reset(p);
  return KV_OK;
}

void kv_pages_close(kv_pages *p) {
  free(p->ring);
  free(p->table);
  free(p->held);
  free(p->store);
  free(p->goal);
  free(p->part);
  free(p->mark);
}

void kv_pages_reset(kv_pages *p) {
  for (int32_t i = 0; i < p->shape.pages; i++) p->ring[i] = i;
  p->start = 0;
  p->count = p->shape.pages;
  memset(p->held, 0, heads_of(p) * sizeof *p->held);
  memset(p->store, 0, heads_of(p) * sizeof *p->store);
  p->books = (kv_pages_books){0};
}

/* --- is it sound? --------------------------------------------------------- */

/* A page is met for the first time. */
static bool first(kv_pages *p, int32_t id) {
  if (id < 0 || id >= p->shape.pages) return false;
  uint64_t bit = 1ull << id % 64, *word = &p->mark[id / 64];
  bool met = *word & bit;
  *word |= bit;
  return !met;
}

static bool sound_head(kv_pages *p, size_t at) {
  const int32_t *row = p->table + at * (size_t)p->shape.table;
  int32_t high = p->held[at].of[KV_HIGH], low = p->held[at].of[KV_LOW];
  if (high < 0 || low < 0 || high + low > p->shape.table) return false;
  for (int tier = 0; tier < KV_TIERS; tier++)
    if (p->held[at].of[tier] <
        kv_pages_for(p->store[at].of[tier], p->shape.tokens[tier]))
      return false;
  for (int32_t i = 0; i < high; i++)
    if (!first(p, row[i])) return false;
  for (int32_t i = 0; i < low; i++)
    if (!first(p, row[p->shape.table - 1 - i])) return false;
  return true;
}

bool kv_pages_sound(kv_pages *p) {
  int32_t pages = p->shape.pages;
  int64_t used = 0;
  memset(p->mark, 0, ((size_t)pages / 64 + 1) * sizeof *p->mark);
  for (int32_t i = 0; i < p->count; i++)
    if (!first(p, p->ring[(p->start + (int64_t)i) % pages])) return false;
  for (size_t at = 0; at < heads_of(p); at++) {
    if (!sound_head(p, at)) return false;
    used += (int64_t)p->held[at].of[KV_HIGH] + p->held[at].of[KV_LOW];
  }
  return used + p->count == pages && p->books.taken - p->books.given == used;
}

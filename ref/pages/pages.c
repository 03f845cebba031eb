/* SPDX-License-Identifier: Apache-2.0
 *
 * The page manager's memory and its queries: ref/pages/pages.h.
 *
 * The ring stores its start and its count. The authors' code stores a start and
 * an inclusive end instead, so an empty list looks like a full one and is
 * treated as full.
 */
#include "ref/pages/pages.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

int32_t kv_pages_table(kv_pages_variant variant, int32_t most_tokens,
                       const int32_t tokens[KV_TIERS], int32_t fewest) {
  /* The paper has no extra entry, because low pages hold more tokens than high
   * ones. But 63 high tokens and a low one need 3 pages, where 64 tokens at 32
   * a page need 2. */
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

/* --- soundness ----------------------------------------------------------- */

/* Marks the page. Returns whether it was not marked before. */
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

/* Compaction: plan per head, coordinate by prefix sums, act per head
 * (ref/pages/pages.h). Given pages enter the ring before any are taken from it,
 * and before pages change ends in a table. If no head gives or moves a page, as
 * at nearly every decode step, that pass over the heads is skipped. */

/* With fewer parts than this, one thread is done before several have started: a
 * part takes less than a microsecond. */
enum { PARTS_OF_MANY = 6 };

typedef struct batch {
  kv_pages *p;
  int n;
  kv_pages_job *job;
  int64_t give, take; /* sums over the requests that are served */
} batch;

/* A part of the heads of one job. */
typedef struct slice {
  int first, last; /* heads, the last excluded */
  int64_t held;    /* of the first head in held, store and table */
  int64_t goal;    /* of the first head in goal */
} slice;

static slice slice_of(const batch *b, int i) {
  const kv_pages *p = b->p;
  int job = i / p->parts, first = i % p->parts * KV_PAGES_PART;
  int last = first + KV_PAGES_PART, heads = p->shape.heads;
  return (slice){first, last < heads ? last : heads,
                 (int64_t)b->job[job].request * heads + first,
                 (int64_t)job * heads + first};
}

/* --- plan ----------------------------------------------------------------- */

/* Returns whether any of these heads returns a page or moves one to the other
 * end of its table. */
static bool plan(const batch *b, int i) {
  kv_pages *p = b->p;
  const slice s = slice_of(b, i);
  kv_pages_part sum = {0, 0};
  bool turns = false;
  for (int h = s.first; h < s.last; h++) {
    int64_t at = s.held + h - s.first;
    kv_pages_count *goal = &p->goal[s.goal + h - s.first];
    *goal = kv_pages_goal(&p->shape, &b->job[i / p->parts], h, &p->held[at],
                          &p->store[at]);
    assert(goal->of[KV_HIGH] + goal->of[KV_LOW] <= p->shape.table &&
           "the table is long enough for every request");
    kv_pages_change c = kv_pages_between(&p->held[at], goal);
    sum.give += (int64_t)c.give[KV_HIGH] + c.give[KV_LOW];
    sum.take += (int64_t)c.take[KV_HIGH] + c.take[KV_LOW];
    turns |= c.turn > 0;
  }
  p->part[i] = sum;
  return turns || sum.give > 0;
}

/* --- coordinate ----------------------------------------------------------- */

static kv_pages_part sum_of(const kv_pages *p, int job) {
  kv_pages_part s = {0, 0};
  for (int i = 0; i < p->parts; i++) {
    s.give += p->part[job * p->parts + i].give;
    s.take += p->part[job * p->parts + i].take;
  }
  return s;
}

/* Decides in batch order which requests the pages suffice for. Pages returned
 * by requests that take none can serve every request. */
static void admit(batch *b) {
  int64_t room = b->p->count;
  for (int j = 0; j < b->n; j++) {
    kv_pages_part s = sum_of(b->p, j);
    b->job[j].wanted = s.take;
    if (s.take == 0) room += s.give;
  }
  for (int j = 0; j < b->n; j++) {
    kv_pages_part s = sum_of(b->p, j);
    b->job[j].refused = s.take > 0 && s.take > room + s.give;
    if (s.take > 0 && !b->job[j].refused) room += s.give - s.take;
  }
}

/* Replaces the parts' numbers by their exclusive prefix sums. */
static void coordinate(batch *b) {
  admit(b);
  b->give = b->take = 0;
  for (int i = 0; i < b->n * b->p->parts; i++) {
    kv_pages_part *part = &b->p->part[i], own = *part;
    if (b->job[i / b->p->parts].refused) continue;
    *part = (kv_pages_part){b->give, b->take};
    b->give += own.give;
    b->take += own.take;
  }
}

/* --- act ------------------------------------------------------------------ */

/* The at-th slot of the ring after its start. */
static int32_t *place(kv_pages *p, int64_t at) {
  return &p->ring[kv_pages_place(p->start, at, p->shape.pages)];
}

static int32_t *row_of(const kv_pages *p, int64_t at) {
  return p->table + at * p->shape.table;
}

static void give(const batch *b, int i) {
  kv_pages *p = b->p;
  const slice s = slice_of(b, i);
  int32_t table = p->shape.table;
  int64_t to = p->count + p->part[i].give;
  if (b->job[i / p->parts].refused) return;
  for (int h = 0; h < s.last - s.first; h++) {
    const kv_pages_count *now = &p->held[s.held + h];
    const kv_pages_count *goal = &p->goal[s.goal + h];
    kv_pages_change c = kv_pages_between(now, goal);
    int32_t *row = row_of(p, s.held + h);
    for (int32_t x = 0; x < c.give[KV_HIGH] + c.give[KV_LOW]; x++)
      *place(p, to++) = row[kv_pages_from(table, &c, goal, x)];
    for (int32_t x = 0; x < c.turn; x++)
      kv_pages_turn(row, table, now, goal, x);
  }
}

/* Returns the number of pages that changed ends. */
static int64_t take(const batch *b, int i) {
  kv_pages *p = b->p;
  const slice s = slice_of(b, i);
  int64_t from = p->part[i].take, turned = 0;
  if (b->job[i / p->parts].refused) return 0;
  for (int h = 0; h < s.last - s.first; h++) {
    kv_pages_count *now = &p->held[s.held + h];
    const kv_pages_count *goal = &p->goal[s.goal + h];
    kv_pages_change c = kv_pages_between(now, goal);
    int32_t *row = row_of(p, s.held + h);
    for (int32_t x = 0; x < c.take[KV_HIGH] + c.take[KV_LOW]; x++)
      row[kv_pages_to(p->shape.table, &c, now, x)] = *place(p, from++);
    turned += c.turn;
    *now = *goal;
    kv_pages_remember(&b->job[i / p->parts], s.first + h,
                      &p->store[s.held + h]);
  }
  return turned;
}

static int close_books(batch *b, int64_t turned) {
  kv_pages *p = b->p;
  int refused = 0;
  p->count += (int32_t)(b->give - b->take);
  p->start = (int32_t)((p->start + b->take) % p->shape.pages);
  p->books.taken += b->take;
  p->books.given += b->give;
  p->books.turned += turned;
  p->books.peak = kv_pages_larger(p->books.peak, kv_pages_used(p));
  for (int j = 0; j < b->n; j++) refused += b->job[j].refused;
  return refused;
}

int kv_pages_compact(kv_pages *p, int n, kv_pages_job *job) {
  batch b = {.p = p, .n = n, .job = job};
  int parts = n * p->parts;
  int64_t turned = 0;
  bool back = false;
  bool many = p->threads > 1 && parts >= PARTS_OF_MANY;
#pragma omp parallel num_threads(p->threads) if (many)
  {
#pragma omp for schedule(static) reduction(|| : back)
    for (int i = 0; i < parts; i++) back = plan(&b, i) || back;
#pragma omp single
    coordinate(&b);
    if (back) {
#pragma omp for schedule(static)
      for (int i = 0; i < parts; i++) give(&b, i);
    }
#pragma omp for schedule(static) reduction(+ : turned) nowait
    for (int i = 0; i < parts; i++) turned += take(&b, i);
  }
  return close_books(&b, turned);
}

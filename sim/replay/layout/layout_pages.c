/* SPDX-License-Identifier: Apache-2.0
 *
 * pages:N[:lane|layer|model]: rows are in pages of N tokens, and a page becomes
 * free only when its last row is left.
 *
 * A pool holds one side in one format. Page p of a pool holds the rows of
 * tokens pN .. pN+N-1 (by the places of entries) for everything that shares a
 * table: a lane, the lanes of a layer, or all layers. So rows fill pages in the
 * order of append and never move. A row that is recoded leaves its page, and
 * the new one is written into its token's page in the new format's pool. A
 * merged row does the same if it is not written over the raw one
 * (kv_means_in_place). A page is held from the first row written into it until
 * the last one leaves. The raw page into which the next token will be appended
 * is always held, until it is full.
 *
 * Invariants: pages taken - pages freed = pages held; a page has at least 0
 * and, of raw and merged rows, at most N rows of each lane; the rows in pages
 * are those that were written and have not left.
 */
#include "sim/replay/layout/layout.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct pages {
  kv_layout_state books; /* first */
  kv_layout_asked asked;
  int units;           /* tables of this layer: one for each lane, or one */
  int per_pool, pools; /* pages of a pool in a table; pools */
  int pool[KV_SIDES][KV_SLABS];                  /* number of the pool */
  int64_t row[2 * KV_SLABS], page[2 * KV_SLABS]; /* bytes, by pool */
  int points, lanes;
  int open;       /* raw page that is being filled, or -1 */
  int64_t live;   /* rows in pages */
  int32_t *rows;  /* [units][pools][per_pool] rows, plus 1 if it is being
                     filled */
  int32_t *wrote; /* same shape: rows ever written */
  int32_t *left;  /* same shape: since which block the page is free */
  uint64_t *held; /* a bit for each page, if units is 1 */
} pages;

static pages *of(kv_layout_state *s) { return (pages *)s; }

/* --- settings ----------------------------------------------------------- */

static const char *const scopes[] = {"lane", "layer", "model"};

static kv_rc refuse(const char *settings, kv_err *e) {
  return kv_fail(e, KV_USAGE,
                 "layout pages needs a number of tokens from 1 to %d, then "
                 "lane, layer or model, as in pages:16:layer, not \"%s\"",
                 KV_MOST_PAGE, settings ? settings : "");
}

static kv_rc parse(const char *settings, kv_layout_asked *out, kv_err *e) {
  char *end = NULL;
  long n = settings && *settings >= '0' && *settings <= '9'
               ? strtol(settings, &end, 10)
               : 0;
  int scope = KV_SCOPE_LANE;
  if (n < 1 || n > KV_MOST_PAGE || (*end && *end != ':'))
    return refuse(settings, e);
  if (*end == ':') {
    scope = 0;
    while (scope < 3 && strcmp(end + 1, scopes[scope])) scope++;
    if (scope == 3) return refuse(settings, e);
  }
  out->page = (int)n;
  out->scope = (kv_layout_scope)scope;
  snprintf(out->name, sizeof out->name, "pages:%d%s%s", out->page,
           scope ? ":" : "", scope ? scopes[scope] : "");
  return KV_OK;
}

/* --- life --------------------------------------------------------------- */

/* Numbers the pools in use and computes the bytes of their rows; returns how
 * many there are. A slot of a page is as large as a row of its format; what a
 * coded group shares is in the ledger's metadata. */
static int count_pools(const kv_layout_room *room, int pool[][KV_SLABS],
                       int64_t row[]) {
  int n = 0;
  for (int side = 0; side < KV_SIDES; side++)
    for (int f = 0; f < KV_CODED + room->needs->codings; f++) {
      pool[side][f] = -1;
      if (f == KV_MERGED && !room->needs->merges) continue;
      if (f == KV_MERGED && kv_means_in_place(room->shape, room->needs)) {
        pool[side][f] = pool[side][KV_RAW];
        continue;
      }
      row[n] = (int64_t)kv_row_bytes(room->shape, room->needs, side, f);
      pool[side][f] = n++;
    }
  return n;
}

static int pages_of(const kv_layout_asked *asked, const kv_layout_room *room) {
  return (room->shape->n_tokens + asked->page - 1) / asked->page;
}

static void shared(const kv_layout_asked *asked, const kv_layout_room *room,
                   kv_layout_shared *out) {
  int pool[KV_SIDES][KV_SLABS];
  *out = (kv_layout_shared){0};
  if (asked->scope != KV_SCOPE_MODEL) return;
  int n = count_pools(room, pool, out->row);
  int64_t slots = (int64_t)asked->page * room->lanes * room->layers;
  out->per_pool = pages_of(asked, room);
  out->pages = n * out->per_pool;
  for (int i = 0; i < n; i++) out->bytes[i] = slots * out->row[i];
  for (int i = 0; i < KV_SIDES; i++) out->raw[i] = pool[i][KV_RAW];
}

/* A pool's table has an entry for each page up to the newest token's: a page's
 * number is its index, and the entry of a free page stays empty. */
static int64_t map(const kv_layout_asked *asked, const kv_layout_room *room,
                   int step, int64_t held) {
  int pool[KV_SIDES][KV_SLABS];
  int64_t row[2 * KV_SLABS];
  int64_t tables = asked->scope == KV_SCOPE_LANE ? room->lanes : 1;
  (void)held;
  if (asked->scope != KV_SCOPE_MODEL) tables *= room->layers;
  return KV_MAP_ENTRY * tables * count_pools(room, pool, row) *
         ((step + asked->page - 1) / asked->page);
}

static size_t room_of(const pages *s) {
  return (size_t)s->units * (size_t)s->pools * (size_t)s->per_pool;
}

static void close_pages(kv_layout_state *state) {
  if (!state) return;
  pages *s = of(state);
  free(state->freed);
  free(s->rows);
  free(s->wrote);
  free(s->left);
  free(s->held);
  free(s);
}

static kv_rc take_memory(pages *s, kv_err *e) {
  size_t n = room_of(s);
  s->books.freed = kv_zalloc((size_t)s->points, sizeof *s->books.freed);
  s->rows = kv_zalloc(n, sizeof *s->rows);
  s->wrote = kv_zalloc(n, sizeof *s->wrote);
  s->left = kv_zalloc(n, sizeof *s->left);
  s->held = kv_zalloc(n / 64 + 1, sizeof *s->held);
  if (s->books.freed && s->rows && s->wrote && s->left && s->held) return KV_OK;
  return kv_no_memory(e, "the pages of a layout", 3 * n * sizeof *s->rows);
}

static kv_rc open_pages(const kv_layout_asked *asked,
                        const kv_layout_room *room, kv_layout_state **out,
                        kv_err *e) {
  pages *s = kv_zalloc(1, sizeof *s);
  *out = NULL;
  if (!s) return kv_no_memory(e, "a layout", sizeof *s);
  bool apart = asked->scope == KV_SCOPE_LANE;
  s->asked = *asked;
  s->lanes = room->lanes;
  s->units = apart ? room->lanes : 1;
  s->points = room->points;
  s->per_pool = pages_of(asked, room);
  s->pools = count_pools(room, s->pool, s->row);
  int64_t slots = (int64_t)asked->page * (apart ? 1 : room->lanes);
  for (int i = 0; i < s->pools; i++) s->page[i] = slots * s->row[i];
  kv_rc rc = take_memory(s, e);
  if (rc) {
    close_pages(&s->books);
    return rc;
  }
  if (asked->scope == KV_SCOPE_MODEL) {
    s->books.held = s->held;
    s->books.wrote = s->wrote;
    s->books.left = s->left;
  }
  *out = &s->books;
  return KV_OK;
}

static void begin(kv_layout_state *state) {
  pages *s = of(state);
  size_t n = room_of(s);
  memset(state->freed, 0, (size_t)s->points * sizeof *state->freed);
  memset(s->rows, 0, n * sizeof *s->rows);
  memset(s->wrote, 0, n * sizeof *s->wrote);
  memset(s->left, 0, n * sizeof *s->left);
  memset(s->held, 0, (n / 64 + 1) * sizeof *s->held);
  state->pages = state->bytes = state->taken = state->given = 0;
  s->live = 0;
  s->open = -1;
}

/* --- rows --------------------------------------------------------------- */

static size_t page_at(const pages *s, int unit, int pool, int page) {
  assert(pool >= 0 && page < s->per_pool && "a format that was asked for");
  return ((size_t)unit * (size_t)s->pools + (size_t)pool) *
             (size_t)s->per_pool +
         (size_t)page;
}

static void hold(pages *s, int unit, int pool, int page) {
  size_t at = page_at(s, unit, pool, page);
  if (s->rows[at]++) return;
  s->books.pages++;
  s->books.taken++;
  s->books.bytes += s->page[pool];
  s->held[at / 64] |= 1ull << at % 64;
}

static void let_go(pages *s, int unit, int pool, int page) {
  size_t at = page_at(s, unit, pool, page);
  assert(s->rows[at] > 0 && "a row that is left was written");
  if (--s->rows[at]) return;
  s->books.pages--;
  s->books.given++;
  s->books.bytes -= s->page[pool];
  s->held[at / 64] &= ~(1ull << at % 64);
  s->left[at] = s->books.block;
}

static void write_row(kv_layout_state *state, int lane, int side, int format,
                      int32_t place) {
  pages *s = of(state);
  int unit = s->units > 1 ? lane : 0, pool = s->pool[side][format];
  int page = place / s->asked.page;
  hold(s, unit, pool, page);
  s->wrote[page_at(s, unit, pool, page)]++;
  s->live++;
}

static void leave_row(kv_layout_state *state, int lane, int side, int format,
                      int32_t place) {
  pages *s = of(state);
  int unit = s->units > 1 ? lane : 0;
  let_go(s, unit, s->pool[side][format], place / s->asked.page);
  s->live--;
}

static void entered(kv_layout_state *state, int step) {
  pages *s = of(state);
  int open = step % s->asked.page ? step / s->asked.page : -1, was = s->open;
  if (open == was) return;
  for (int u = 0; u < s->units; u++)
    for (int side = 0; side < KV_SIDES; side++) {
      if (open >= 0) hold(s, u, s->pool[side][KV_RAW], open);
      if (was >= 0) let_go(s, u, s->pool[side][KV_RAW], was);
    }
  s->open = open;
}

static void end(kv_layout_state *state) {
  pages *s = of(state);
  size_t at = 0;
  for (int u = 0; u < s->units; u++)
    for (int i = 0; i < s->pools; i++)
      for (int p = 0; p < s->per_pool; p++, at++)
        if (s->rows[at] == 0 && s->wrote[at])
          state->freed[s->left[at]] += s->wrote[at] * s->row[i];
}

static bool sound(kv_layout_state *state) {
  pages *s = of(state);
  int64_t held = 0, bytes = 0, rows = 0;
  size_t at = 0;
  for (int u = 0; u < s->units; u++)
    for (int i = 0; i < s->pools; i++)
      for (int p = 0; p < s->per_pool; p++, at++) {
        if (s->rows[at] < 0) return false;
        held += s->rows[at] > 0;
        bytes += s->rows[at] > 0 ? s->page[i] : 0;
        rows += s->rows[at];
      }
  if (s->open >= 0) rows -= (int64_t)KV_SIDES * s->units;
  return held == state->pages && bytes == state->bytes && rows == s->live &&
         state->taken - state->given == held;
}

const kv_layout kv_layout_pages = {
    .name = "pages",
    .usage = "pages:N[:lane|layer|model]",
    .help = "pages of N tokens of K or of V, each free when nothing is left in "
            "it; a table for each lane (the default), for the lanes of a "
            "layer, or for the model",
    .parse = parse,
    .shared = shared,
    .map = map,
    .open = open_pages,
    .begin = begin,
    .write = write_row,
    .leave = leave_row,
    .entered = entered,
    .end = end,
    .sound = sound,
    .close = close_pages};

/* SPDX-License-Identifier: Apache-2.0
 *
 * unified[:paper|code]: tokens are in unified pages, as in LeanKV
 * (ref/PAGES.md). A tier is a pair of formats, of K and of V, that stored
 * entries have after a compression: raw rows that a compression recodes are
 * never in a page. There are at most two tiers; the one with fewer tokens a
 * page is the high one. Pages are counted by the real page manager. Each layer
 * in flight has its own, with as many pages as it may request.
 *
 * Blocks of the prompt, and of later prompts, reserve pages, compress, and
 * return unneeded pages; a decode step takes pages and returns none. The memory
 * of a left row becomes free if the row was never in a page (raw rows that a
 * compression coded or dropped), or if its page was returned. Returning a page
 * that was reserved but never written frees nothing.
 *
 * Invariants: kv_pages_sound; the pages are those found by a walk over the
 * tables; every stored entry is in a tier; tokens seen = entries of the high
 * tier + of the low tier + dropped.
 */
#include "sim/replay/layout/layout.h"

#include "ref/pages/geometry.h"
#include "ref/pages/pages.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct unified {
  kv_layout_state books; /* first */
  kv_pages_variant variant;
  int lanes, n_tokens, prompt_len, points, d, d_v;
  int64_t page;                      /* bytes */
  int64_t codes[KV_SIDES][KV_SLABS]; /* bytes of a row */
  int64_t meta[KV_SIDES][KV_SLABS];  /* bytes of its metadata */
  kv_pages p;
  int tiers;
  kv_layout_tier tier[KV_TIERS];
  kv_pages_count *count;  /* [lanes] */
  kv_pages_count *before; /* [lanes] count when the block began */
  uint8_t *was;           /* [lanes][n_tokens] 1 + tier by place; 0: none */
  int step;               /* tokens seen */
  bool whole;             /* has every token been accounted for so far? */
  char why[256];          /* text of books.fault */
} unified;

static unified *of(kv_layout_state *s) { return (unified *)s; }

/* --- settings ------------------------------------------------------------- */

static kv_rc parse(const char *settings, kv_layout_asked *out, kv_err *e) {
  bool code = settings && !strcmp(settings, "code");
  if (settings && !code && strcmp(settings, "paper"))
    return kv_fail(e, KV_USAGE,
                   "layout unified must be followed by paper or code, as in "
                   "unified:code, not \"%s\"",
                   settings);
  out->page = 1;
  out->variant = code ? KV_PAGES_CODE : KV_PAGES_PAPER;
  strcpy(out->name, code ? "unified:code" : "unified");
  return KV_OK;
}

static kv_rc suits(const kv_layout_asked *asked, const kv_shape *shape,
                   const kv_needs *needs, kv_err *e) {
  (void)asked;
  if (needs->merges)
    return kv_fail(
        e, KV_REFUSED,
        "layout unified has no page for merged rows; use slots or pages:N");
  if (needs->tiers > KV_TIERS)
    return kv_fail(e, KV_REFUSED,
                   "layout unified has pages of %d precisions, but the method "
                   "has %d; use slots or pages:N",
                   (int)KV_TIERS, needs->tiers);
  for (int i = 0; i < needs->codings; i++) {
    int members = kv_coding_members(&needs->coding[i]);
    if (needs->coding[i].format->layered)
      return kv_fail(
          e, KV_REFUSED,
          "layout unified stores a token of one KV head in a page, but format "
          "%s codes a token of all KV heads together; use slots or pages:N",
          needs->coding[i].format->name);
    if (members > 1)
      return kv_fail(
          e, KV_REFUSED,
          "layout unified stores a token's scales with its codes, but format "
          "%s has one scale for %d tokens; use slots or pages:N",
          needs->coding[i].format->name, members);
  }
  if (!kv_page_bytes(shape->d, shape->d_v))
    return kv_fail(
        e, KV_REFUSED,
        "layout unified has pages of at most 8,000 bytes, but a coded token of "
        "%d and %d elements is larger; use slots or pages:N",
        shape->d, shape->d_v);
  return KV_OK;
}

/* --- life ---------------------------------------------------------------- */

static void close_unified(kv_layout_state *state) {
  if (!state) return;
  unified *s = of(state);
  free(state->freed);
  free(s->count);
  free(s->before);
  free(s->was);
  kv_pages_close(&s->p);
  free(s);
}

static kv_page_token token_of(const unified *s, const int format[KV_SIDES]) {
  kv_page_token t;
  for (int side = 0; side < KV_SIDES; side++) {
    t.codes[side] = s->codes[side][format[side]];
    t.meta[side] = s->meta[side][format[side]];
  }
  return t;
}

static void measure_rows(unified *s, const kv_layout_room *room) {
  for (int side = 0; side < KV_SIDES; side++)
    for (int f = 0; f < KV_CODED + room->needs->codings; f++) {
      int width = side == KV_SIDE_K ? room->shape->d : room->shape->d_v;
      s->codes[side][f] =
          (int64_t)kv_row_bytes(room->shape, room->needs, side, f);
      if (f < KV_CODED) continue;
      const kv_coding *c = &room->needs->coding[f - KV_CODED];
      s->meta[side][f] =
          (int64_t)c->format->size(c->settings, 1, width).metadata;
    }
}

/* Tokens of a page, at least 1, in the largest pair of formats that entries may
 * have. A table for so few is long enough for any pair. */
static int32_t fewest(const unified *s, int codings) {
  int largest[KV_SIDES] = {KV_RAW, KV_RAW};
  for (int side = 0; side < KV_SIDES; side++)
    for (int f = KV_CODED; f < KV_CODED + codings; f++)
      if (s->codes[side][f] + s->meta[side][f] >
          s->codes[side][largest[side]] + s->meta[side][largest[side]])
        largest[side] = f;
  kv_page_token t = token_of(s, largest);
  int32_t n = kv_page_map_of(s->page, &t).tokens;
  return n > 2 ? n - 2 : 1; /* padding depends on more than the size */
}

static kv_rc take_memory(unified *s, int codings, kv_err *e) {
  const int32_t one[KV_TIERS] = {1, 0};
  int32_t table =
      kv_pages_table(KV_PAGES_CODE, s->n_tokens, one, fewest(s, codings));
  kv_pages_shape shape = {.variant = s->variant,
                          .requests = 1,
                          .heads = s->lanes,
                          .pages = s->lanes * table,
                          .table = table,
                          .tokens = {1, 0}};
  s->books.freed = kv_zalloc((size_t)s->points, sizeof *s->books.freed);
  s->count = kv_zalloc((size_t)s->lanes, sizeof *s->count);
  s->before = kv_zalloc((size_t)s->lanes, sizeof *s->before);
  s->was = kv_zalloc((size_t)s->lanes, (size_t)s->n_tokens);
  if (!s->books.freed || !s->count || !s->before || !s->was)
    return kv_no_memory(e, "a layout", (size_t)s->lanes * (size_t)s->n_tokens);
  return kv_pages_open(&shape, 1, &s->p, e);
}

static kv_rc open_unified(const kv_layout_asked *asked,
                          const kv_layout_room *room, kv_layout_state **out,
                          kv_err *e) {
  unified *s = kv_zalloc(1, sizeof *s);
  *out = NULL;
  if (!s) return kv_no_memory(e, "a layout", sizeof *s);
  s->variant = asked->variant ? KV_PAGES_CODE : KV_PAGES_PAPER;
  s->lanes = room->lanes;
  s->n_tokens = room->shape->n_tokens;
  s->prompt_len = room->shape->prompt_len;
  s->points = room->points;
  s->d = room->shape->d;
  s->d_v = room->shape->d_v;
  s->page = kv_page_bytes(room->shape->d, room->shape->d_v);
  measure_rows(s, room);
  kv_rc rc = take_memory(s, room->needs->codings, e);
  if (rc)
    close_unified(&s->books);
  else
    *out = &s->books;
  return rc;
}

static void begin(kv_layout_state *state) {
  unified *s = of(state);
  int64_t *freed = state->freed;
  memset(freed, 0, (size_t)s->points * sizeof *freed);
  *state =
      (kv_layout_state){.freed = freed, .tier = s->tier, .count = s->count};
  memset(s->tier, 0, sizeof s->tier);
  memset(s->count, 0, (size_t)s->lanes * sizeof *s->count);
  memset(s->was, 0, (size_t)s->lanes * (size_t)s->n_tokens);
  s->p.shape.tokens[KV_HIGH] = 1;
  s->p.shape.tokens[KV_LOW] = 0;
  kv_pages_reset(&s->p);
  s->tiers = s->step = 0;
  s->whole = true;
}

/* --- tiers --------------------------------------------------------------- */

static int find(const unified *s, const int16_t format[KV_SIDES]) {
  for (int i = 0; i < s->tiers; i++)
    if (s->tier[i].format[0] == format[0] && s->tier[i].format[1] == format[1])
      return i;
  return -1;
}

static void refuse(unified *s, const char *what) {
  if (s->books.fault) return;
  snprintf(s->why, sizeof s->why,
           "layout unified: after %d tokens %s; use slots or pages:N", s->step,
           what);
  s->books.fault = s->why;
}

static void add_tier(unified *s, const int16_t format[KV_SIDES]) {
  kv_layout_tier t = {.format = {format[0], format[1]}};
  kv_page_token token = token_of(s, t.format);
  t.rows = token.codes[KV_SIDE_K] + token.codes[KV_SIDE_V];
  t.payload = kv_page_payload(&token);
  t.tokens = kv_page_map_of(s->page, &token).tokens;
  if (s->tiers == KV_TIERS)
    refuse(s, "entries are stored in a third pair of formats, but there are "
              "only two tiers");
  else if (!t.tokens)
    refuse(s, "a stored entry is larger than a page");
  else
    s->tier[s->tiers++] = t;
}

/* Adds new pairs. Decides which is high before the first page is taken. */
static void learn(unified *s, const kv_replica *lane) {
  for (int l = 0; l < s->lanes && !s->books.fault; l++)
    for (int i = 0; i < lane[l].n && !s->books.fault; i++) {
      const kv_replica_entry *x = kv_replica_at(&lane[l], i);
      if (find(s, x->format) < 0) add_tier(s, x->format);
    }
  if (s->tiers == 2 && !kv_pages_used(&s->p) &&
      s->tier[KV_LOW].tokens < s->tier[KV_HIGH].tokens) {
    kv_layout_tier t = s->tier[KV_LOW];
    s->tier[KV_LOW] = s->tier[KV_HIGH];
    s->tier[KV_HIGH] = t;
  }
  for (int i = 0; i < s->tiers; i++) s->p.shape.tokens[i] = s->tier[i].tokens;
  if (s->tiers < 2) s->p.shape.tokens[KV_LOW] = 0;
}

/* Counts a lane's entries; false: one is in no known tier. */
static bool count(unified *s, const kv_replica *lane, int l) {
  uint8_t *was = s->was + (size_t)l * (size_t)s->n_tokens;
  s->count[l] = (kv_pages_count){{0, 0}};
  for (int i = 0; i < lane->n; i++) {
    int t = find(s, kv_replica_at(lane, i)->format), at = lane->order[i];
    if (t < 0) return false;
    s->count[l].of[t]++;
    s->books.moved += was[at] && was[at] != t + 1;
    was[at] = (uint8_t)(t + 1);
  }
  s->whole = s->whole && lane->n + lane->dropped == s->step;
  return true;
}

static void count_all(unified *s, const kv_replica *lane) {
  for (int l = 0; l < s->lanes && !s->books.fault; l++)
    while (!count(s, &lane[l], l) && !s->books.fault) learn(s, lane);
}

/* --- a block ------------------------------------------------------------- */

static void act(unified *s, kv_pages_phase phase, int tokens) {
  kv_pages_job job = {.phase = phase, .tokens = tokens, .count = s->count};
  int refused = kv_pages_compact(&s->p, 1, &job);
  assert(!refused && "a pool has as many pages as its tables entries");
  (void)refused;
  if (kv_pages_used(&s->p) > s->books.most_pages)
    s->books.most_pages = kv_pages_used(&s->p);
}

/* Counts the pages that the tables hold, and what is in them. Tokens that no
 * longer fit into their tier's pages were in pages that were returned. */
static void walk(unified *s) {
  kv_layout_state *b = &s->books;
  b->pages = b->unused = 0;
  for (int l = 0; l < s->lanes; l++)
    for (int t = 0; t < s->tiers; t++) {
      int64_t pages = s->p.held[l].of[t], room = pages * s->tier[t].tokens;
      int64_t gone = s->before[l].of[t] - room;
      b->pages += pages;
      b->unused += pages * s->page - s->count[l].of[t] * s->tier[t].payload;
      if (gone > 0) b->freed[b->block] += gone * s->tier[t].rows;
    }
}

static void book(unified *s) {
  kv_layout_state *b = &s->books;
  const kv_pages_books *p = &s->p.books;
  walk(s);
  b->bytes = b->pages * s->page;
  b->most_bytes = b->most_pages * s->page;
  b->taken = p->taken;
  b->given = p->given;
  b->operations = p->taken + p->given;
}

static void compressed(kv_layout_state *state, int step,
                       const kv_replica *lane) {
  unified *s = of(state);
  int entered = step - s->step;
  s->step = step;
  if (state->fault) return;
  count_all(s, lane);
  if (state->fault || !s->tiers) return;
  state->most_pages = 0;
  memcpy(s->before, s->p.store, (size_t)s->lanes * sizeof *s->before);
  bool prompt = step <= s->prompt_len || entered > 1;
  if (prompt) act(s, KV_PAGES_PROMPT, entered);
  act(s, prompt ? KV_PAGES_COMPRESSED : KV_PAGES_STEP, 0);
  book(s);
}

/* Entries of tables that are long enough for the tiers seen, which were unknown
 * at open. The variant `code` assumes K8V8 if that is the largest. */
static void end(kv_layout_state *state) {
  static const kv_page_config most = {{8, 8}, {1, 1}};
  unified *s = of(state);
  kv_page_token t = kv_page_token_of(s->d, s->d_v, &most);
  int32_t least = kv_page_map_of(s->page, &t).tokens;
  int32_t tokens[KV_TIERS] = {1, 0};
  for (int i = 0; i < s->tiers; i++) {
    tokens[i] = s->tier[i].tokens;
    if (tokens[i] < least) least = tokens[i];
  }
  state->entries =
      (int64_t)s->lanes *
      kv_pages_table(s->variant, s->n_tokens, tokens, least > 0 ? least : 1);
}

static bool sound(kv_layout_state *state) {
  unified *s = of(state);
  return state->fault || (s->whole && kv_pages_sound(&s->p) &&
                          state->taken - state->given == state->pages);
}

static void nothing(kv_layout_state *s, int lane, int side, int format,
                    int32_t place) {
  (void)s, (void)lane, (void)side, (void)format, (void)place;
}

/* A row that is left before its token was compressed was in no page. */
static void leave(kv_layout_state *state, int lane, int side, int format,
                  int32_t place) {
  unified *s = of(state);
  size_t at = (size_t)lane * (size_t)s->n_tokens + (size_t)place;
  if (!s->was[at]) state->freed[state->block] += s->codes[side][format];
}

const kv_layout kv_layout_unified = {
    .name = "unified",
    .usage = "unified[:paper|code]",
    .help = "pages of one size that hold tokens of a high or of a low tier, "
            "with a circular free list and tables of two ends, as LeanKV has "
            "them; pages are reserved as the paper says (the default) or as "
            "its authors' code does",
    .paged = true,
    .parse = parse,
    .suits = suits,
    .open = open_unified,
    .begin = begin,
    .write = nothing,
    .leave = leave,
    .compressed = compressed,
    .end = end,
    .sound = sound,
    .close = close_unified};

/* SPDX-License-Identifier: Apache-2.0
 *
 * base, and ls, la, hs, ha with :sparse or :max: regular indices, by which one
 * captured graph can serve all layers (sim/layout/regular.h has what each
 * costs).
 *
 * A lane holds a token as long as a row of its entry is stored, K or V, in
 * whatever format, and the entry is of a class that views hold: of another
 * (needs.unread) it is a clear bit of the masks, and a rewrite leaves it out.
 * From that a layer has the length of each lane and the union over its lanes;
 * base also needs which tokens these are. A layer is changed when its lanes
 * (hs, ha) or their union (ls, la) have lost a token in a block, or a bit came
 * back: then masks are written anew, or the layer is rewritten.
 *
 * Bits turn when the block is compressed, those that come back first, so that a
 * union has not lost in between what another lane hands over.
 *
 * Invariants: the longest lane <= the union <= the sum of lanes; a lane has no
 * token that is not in the union.
 */
#include "sim/layout/layout.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct regular {
  kv_layout_state books; /* first */
  kv_regular_task task;
  int lanes, n_tokens, points, step;
  int64_t *n, *was; /* [lanes] entries now, and after the last block */
  int64_t joined;   /* of the union after the last block */
  int16_t *rows;    /* [lanes][n_tokens] rows stored */
  int32_t *sharers; /* [n_tokens] lanes that hold it */
  uint64_t *held;   /* of base: a bit a token that any lane holds */
  int32_t *nothing; /* of base: [n_tokens] zeroes */
  /* Where views leave out a class, else NULL: of each place of each lane its
   * bits, and bytes of its rows; places that a retier named in this block. */
  uint8_t *bits;
  uint32_t *bytes;
  size_t *named, n_named;
  unsigned unread;
  int64_t row[KV_SIDES][KV_SLABS]; /* bytes */
  bool *back;                      /* [lanes] a bit came back in this block */
  bool back_joined;                /* .. and into the union */
} regular;

enum { CLEAR = 1, TO_CLEAR = 2, NAMED = 4 };

static regular *of(kv_layout_state *s) { return (regular *)s; }

/* --- settings ----------------------------------------------------------- */

static kv_rc refuse_sum(const char *name, kv_err *e) {
  return kv_fail(e, KV_USAGE,
                 "layout %s:sum is not offered, for indices as long as all "
                 "lanes together make each of them load what the others keep, "
                 "about as much as without dropping anything: take %s:max or "
                 "%s:sparse",
                 name, name, name);
}

static kv_rc parse(const char *settings, kv_layout_asked *out, kv_err *e) {
  const char *name = out->layout->name;
  out->page = 1;
  out->sparse = settings && !strcmp(settings, "sparse");
  if (settings && !strcmp(settings, "sum")) return refuse_sum(name, e);
  if (!out->sparse && (!settings || strcmp(settings, "max")))
    return kv_fail(e, KV_USAGE,
                   "layout %s wants sparse (masks) or max (rewritten), as in "
                   "%s:max; not \"%s\"",
                   name, name, settings ? settings : "");
  snprintf(out->name, sizeof out->name, "%s:%s", name, settings);
  return KV_OK;
}

kv_indices kv_layout_indices(const kv_layout_asked *asked) {
  kv_regular_task task = asked->layout->task;
  bool apart = task == KV_REGULAR_HS || task == KV_REGULAR_HA;
  if (task == KV_REGULAR_NONE || task == KV_REGULAR_BASE)
    return KV_INDICES_NONE;
  if (asked->sparse) return KV_INDICES_MASKED;
  return apart ? KV_INDICES_REWRITTEN : KV_INDICES_JOINED;
}

/* --- life --------------------------------------------------------------- */

/* base: a page of one token for all lanes of all layers. */
static void shared(const kv_layout_asked *asked, const kv_layout_room *room,
                   kv_layout_shared *out) {
  (void)asked;
  *out = (kv_layout_shared){.pages = room->shape->n_tokens,
                            .per_pool = room->shape->n_tokens};
}

static void close_regular(kv_layout_state *state) {
  if (!state) return;
  regular *s = of(state);
  free(state->freed);
  free(s->n);
  free(s->was);
  free(s->rows);
  free(s->sharers);
  free(s->held);
  free(s->nothing);
  free(s->bits);
  free(s->bytes);
  free(s->named);
  free(s->back);
  free(s);
}

static size_t words_of(const regular *s) {
  return ((size_t)s->n_tokens + 63) / 64;
}

static kv_rc take_memory(regular *s, kv_err *e) {
  size_t n = (size_t)s->n_tokens, lanes = (size_t)s->lanes;
  s->books.freed = kv_zalloc((size_t)s->points, sizeof *s->books.freed);
  s->n = kv_zalloc(lanes, sizeof *s->n);
  s->was = kv_zalloc(lanes, sizeof *s->was);
  s->rows = kv_zalloc(lanes * n, sizeof *s->rows);
  s->sharers = kv_zalloc(n, sizeof *s->sharers);
  s->held = kv_zalloc(words_of(s), sizeof *s->held);
  s->nothing = kv_zalloc(n, sizeof *s->nothing);
  s->back = kv_zalloc(lanes, sizeof *s->back);
  if (s->books.freed && s->n && s->was && s->rows && s->sharers && s->held &&
      s->nothing && s->back)
    return KV_OK;
  return kv_no_memory(e, "the indices of a layout", lanes * n);
}

static kv_rc take_masks(regular *s, const kv_layout_room *room, kv_err *e) {
  size_t places = (size_t)s->lanes * (size_t)s->n_tokens;
  s->unread = room->needs->unread;
  if (!s->unread) return KV_OK;
  for (int side = 0; side < KV_SIDES; side++)
    for (int f = 0; f < KV_CODED + room->needs->codings; f++)
      s->row[side][f] =
          (int64_t)kv_row_bytes(room->shape, room->needs, side, f);
  s->bits = kv_zalloc(places, sizeof *s->bits);
  s->bytes = kv_zalloc(places, sizeof *s->bytes);
  s->named = kv_zalloc(places, sizeof *s->named);
  if (s->bits && s->bytes && s->named) return KV_OK;
  return kv_no_memory(e, "the masks of a layout", places * sizeof *s->named);
}

static kv_rc open_regular(const kv_layout_asked *asked,
                          const kv_layout_room *room, kv_layout_state **out,
                          kv_err *e) {
  regular *s = kv_zalloc(1, sizeof *s);
  *out = NULL;
  if (!s) return kv_no_memory(e, "a layout", sizeof *s);
  s->task = asked->layout->task;
  s->lanes = room->lanes;
  s->points = room->points;
  s->n_tokens = room->shape->n_tokens;
  kv_rc rc = take_memory(s, e);
  if (!rc) rc = take_masks(s, room, e);
  if (rc) {
    close_regular(&s->books);
    return rc;
  }
  if (s->task == KV_REGULAR_BASE) {
    s->books.held = s->held;
    s->books.wrote = s->books.left = s->nothing;
  }
  *out = &s->books;
  return KV_OK;
}

static void begin(kv_layout_state *state) {
  regular *s = of(state);
  size_t n = (size_t)s->n_tokens, lanes = (size_t)s->lanes;
  memset(state->freed, 0, (size_t)s->points * sizeof *state->freed);
  memset(s->n, 0, lanes * sizeof *s->n);
  memset(s->was, 0, lanes * sizeof *s->was);
  memset(s->rows, 0, lanes * n * sizeof *s->rows);
  memset(s->sharers, 0, n * sizeof *s->sharers);
  memset(s->held, 0, words_of(s) * sizeof *s->held);
  state->regular = (kv_regular_layer){0};
  state->cleared = 0;
  s->joined = s->step = 0;
  s->n_named = 0;
  if (!s->bits) return;
  memset(s->bits, s->unread & 1 ? CLEAR | TO_CLEAR : 0, lanes * n);
  memset(s->bytes, 0, lanes * n * sizeof *s->bytes);
}

/* --- rows --------------------------------------------------------------- */

static size_t at_of(const regular *s, int lane, int32_t place) {
  return (size_t)lane * (size_t)s->n_tokens + (size_t)place;
}

static bool is_clear(const regular *s, size_t at) {
  return s->bits && s->bits[at] & CLEAR;
}

/* The lane holds the token of a place, .. */
static void hold(regular *s, int lane, int32_t place) {
  s->n[lane]++;
  s->books.regular.kept++;
  if (s->sharers[place]++) return;
  s->books.regular.joined++;
  s->held[place / 64] |= 1ull << place % 64;
}

/* .. and no more. */
static void lose(regular *s, int lane, int32_t place) {
  s->n[lane]--;
  s->books.regular.kept--;
  if (--s->sharers[place]) return;
  s->books.regular.joined--;
  s->held[place / 64] &= ~(1ull << place % 64);
}

static void write_row(kv_layout_state *state, int lane, int side, int format,
                      int32_t place) {
  regular *s = of(state);
  size_t at = at_of(s, lane, place);
  bool first = s->rows[at]++ == 0;
  if (s->bits) s->bytes[at] += (uint32_t)s->row[side][format];
  if (is_clear(s, at))
    state->regular.masked += s->row[side][format];
  else if (first)
    hold(s, lane, place);
}

/* All layouts are told that rows were left; of these masks have said it before.
 */
static void leave_row(kv_layout_state *state, int lane, int side, int format,
                      int32_t place) {
  regular *s = of(state);
  size_t at = at_of(s, lane, place);
  assert(s->rows[at] > 0 && "a row that is left was written");
  bool last = --s->rows[at] == 0;
  if (s->bits) s->bytes[at] -= (uint32_t)s->row[side][format];
  if (is_clear(s, at)) {
    state->regular.masked -= s->row[side][format];
    state->cleared -= s->row[side][format];
  } else if (last)
    lose(s, lane, place);
}

/* --- masks -------------------------------------------------------------- */

static void retier(kv_layout_state *state, int lane, int32_t place, int to) {
  regular *s = of(state);
  size_t at = at_of(s, lane, place);
  if (!s->bits) return;
  if (s->unread >> to & 1)
    s->bits[at] |= TO_CLEAR;
  else
    s->bits[at] &= (uint8_t)~TO_CLEAR;
  if (s->bits[at] & NAMED) return;
  s->bits[at] |= NAMED;
  s->named[s->n_named++] = at;
}

static void set_bit(regular *s, size_t at) {
  int lane = (int)(at / (size_t)s->n_tokens);
  int32_t place = (int32_t)(at % (size_t)s->n_tokens);
  s->bits[at] &= (uint8_t)~CLEAR;
  s->books.regular.masked -= s->bytes[at];
  if (!s->rows[at]) return;
  s->back[lane] = true;
  s->back_joined = s->back_joined || !s->sharers[place];
  hold(s, lane, place);
}

static void clear_bit(regular *s, size_t at) {
  s->bits[at] |= CLEAR;
  s->books.regular.masked += s->bytes[at];
  s->books.cleared += s->bytes[at];
  if (s->rows[at])
    lose(s, (int)(at / (size_t)s->n_tokens),
         (int32_t)(at % (size_t)s->n_tokens));
}

static void turn_bits(regular *s) {
  memset(s->back, 0, (size_t)s->lanes * sizeof *s->back);
  s->back_joined = false;
  for (size_t i = 0; i < s->n_named; i++)
    if ((s->bits[s->named[i]] & (CLEAR | TO_CLEAR)) == CLEAR)
      set_bit(s, s->named[i]);
  for (size_t i = 0; i < s->n_named; i++) {
    size_t at = s->named[i];
    s->bits[at] &= (uint8_t)~NAMED;
    if ((s->bits[at] & (CLEAR | TO_CLEAR)) == TO_CLEAR) clear_bit(s, at);
  }
  s->n_named = 0;
}

/* --- a block ------------------------------------------------------------ */

static void compressed(kv_layout_state *state, int step,
                       const kv_replica *lane) {
  regular *s = of(state);
  kv_regular_layer *r = &state->regular;
  int64_t entered = step - s->step;
  bool lanes_apart = s->task == KV_REGULAR_HS || s->task == KV_REGULAR_HA;
  (void)lane;
  turn_bits(s);
  r->fullest = 0;
  r->changed =
      !lanes_apart && (r->joined < s->joined + entered || s->back_joined);
  for (int l = 0; l < s->lanes; l++) {
    if (s->n[l] > r->fullest) r->fullest = s->n[l];
    r->changed = r->changed ||
                 (lanes_apart && (s->n[l] < s->was[l] + entered || s->back[l]));
    s->was[l] = s->n[l];
  }
  s->joined = r->joined;
  s->step = step;
}

static bool sound(kv_layout_state *state) {
  const regular *s = of(state);
  const kv_regular_layer *r = &state->regular;
  int64_t kept = 0, joined = 0;
  for (int l = 0; l < s->lanes; l++)
    for (int t = 0; t < s->n_tokens; t++) {
      size_t at = at_of(s, l, t);
      kept += s->rows[at] > 0 && !is_clear(s, at);
    }
  for (int t = 0; t < s->n_tokens; t++) joined += s->sharers[t] > 0;
  return kept == r->kept && joined == r->joined && r->fullest <= r->joined;
}

#define REGULAR(x, t, u, h, p, share)                                          \
  const kv_layout kv_layout_##x = {.name = #x,                                 \
                                   .task = t,                                  \
                                   .usage = u,                                 \
                                   .help = h,                                  \
                                   .parse = p,                                 \
                                   .shared = share,                            \
                                   .open = open_regular,                       \
                                   .begin = begin,                             \
                                   .write = write_row,                         \
                                   .leave = leave_row,                         \
                                   .retier = retier,                           \
                                   .compressed = compressed,                   \
                                   .sound = sound,                             \
                                   .close = close_regular}

REGULAR(base, KV_REGULAR_BASE, "base",
        "one set of tokens for all lanes: those that any of them holds",
        kv_layout_parse_plain, shared);
REGULAR(ls, KV_REGULAR_LS, "ls:sparse|max",
        "a set for each layer, all of the largest's size; sparse: nothing "
        "moves, masks say what counts; max: rewritten",
        parse, NULL);
REGULAR(la, KV_REGULAR_LA, "la:sparse|max",
        "a set for each layer, of its own size", parse, NULL);
REGULAR(hs, KV_REGULAR_HS, "hs:sparse|max",
        "a set for each lane; a layer has room for its longest", parse, NULL);
REGULAR(ha, KV_REGULAR_HA, "ha:sparse|max",
        "a set for each lane; all have room for the longest of the model",
        parse, NULL);

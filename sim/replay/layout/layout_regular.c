/* SPDX-License-Identifier: Apache-2.0
 *
 * base, and ls, la, hs, ha with :sparse or :max: regular indices, with which
 * one captured graph can serve all layers (costs: sim/replay/layout/regular.h;
 * words of --layout: regular.c).
 *
 * A lane holds a token while a row of its entry is stored, K or V, in any
 * format, and the entry's class is in views. An entry of another class
 * (needs.unread) is a clear bit of the masks, and a rewrite drops it. This
 * gives the length of each lane and the union over a layer's lanes; base also
 * needs the set of these tokens. A layer is changed when its lanes (hs, ha) or
 * their union (ls, la) lost a token in a block, or a bit came back: then its
 * masks, or the whole layer, are rewritten. If lanes are distributed over
 * ranks, all this applies to each rank.
 *
 * Bits change when the block is compressed. Those that come back are set first,
 * so that a union does not briefly lose a token that another lane gets.
 *
 * Invariants: the longest lane <= the union <= the sum of lanes; a lane has no
 * token that is not in the union.
 */
#include "sim/replay/layout/layout.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct regular {
  kv_layout_state books; /* first */
  kv_regular_task task;
  int lanes, ranks, n_tokens, points, step;
  size_t words;            /* words of a bitset of tokens */
  kv_regular_layer *layer; /* [ranks] */
  int64_t *n, *was;        /* [lanes] entries now, and after the last block */
  int64_t *joined;         /* [ranks] of the union after the last block */
  int16_t *rows;           /* [lanes][n_tokens] rows stored */
  int32_t *sharers;        /* [ranks][n_tokens] lanes that hold the token */
  uint64_t *held;          /* base: [ranks][words] a bit for each token held */
  int32_t *nothing;        /* base: zeros, one for each bit */
  /* If views leave out a class, else NULL: by place of each lane, its bits and
   * the bytes of its rows; and the places that a retier named in this block. */
  uint8_t *bits;
  uint32_t *bytes;
  size_t *named, n_named;
  unsigned unread;
  int64_t row[KV_SIDES][KV_SLABS]; /* bytes */
  bool *back;                      /* [lanes] a bit came back in this block */
  bool *back_joined;               /* [ranks] the same for the union */
} regular;

enum { CLEAR = 1, TO_CLEAR = 2, NAMED = 4 };

static regular *of(kv_layout_state *s) { return (regular *)s; }

static int rank_of(const regular *s, int lane) {
  return lane / (s->lanes / s->ranks);
}

/* --- life --------------------------------------------------------------- */

static size_t words_of(const kv_layout_room *room) {
  return ((size_t)room->shape->n_tokens + 63) / 64;
}

/* base: a page of one token for all lanes of all layers, on each rank. */
static void shared(const kv_layout_asked *asked, const kv_layout_room *room,
                   kv_layout_shared *out) {
  int tokens = (int)(64 * words_of(room));
  *out = (kv_layout_shared){.pages = kv_layout_ranks(asked) * tokens,
                            .per_pool = tokens};
}

static void close_regular(kv_layout_state *state) {
  if (!state) return;
  regular *s = of(state);
  void *const part[] = {state->freed, s->layer,      s->n,       s->was,
                        s->joined,    s->rows,       s->sharers, s->held,
                        s->nothing,   s->bits,       s->bytes,   s->named,
                        s->back,      s->back_joined};
  for (size_t i = 0; i < sizeof part / sizeof *part; i++) free(part[i]);
  free(s);
}

static kv_rc take_memory(regular *s, kv_err *e) {
  size_t n = (size_t)s->n_tokens, lanes = (size_t)s->lanes;
  size_t ranks = (size_t)s->ranks;
  s->books.freed = kv_zalloc((size_t)s->points, sizeof *s->books.freed);
  s->layer = kv_zalloc(ranks, sizeof *s->layer);
  s->n = kv_zalloc(lanes, sizeof *s->n);
  s->was = kv_zalloc(lanes, sizeof *s->was);
  s->joined = kv_zalloc(ranks, sizeof *s->joined);
  s->rows = kv_zalloc(lanes * n, sizeof *s->rows);
  s->sharers = kv_zalloc(ranks * n, sizeof *s->sharers);
  s->held = kv_zalloc(ranks * s->words, sizeof *s->held);
  s->nothing = kv_zalloc(ranks * 64 * s->words, sizeof *s->nothing);
  s->back = kv_zalloc(lanes, sizeof *s->back);
  s->back_joined = kv_zalloc(ranks, sizeof *s->back_joined);
  if (s->books.freed && s->layer && s->n && s->was && s->joined && s->rows &&
      s->sharers && s->held && s->nothing && s->back && s->back_joined)
    return KV_OK;
  return kv_no_memory(e, "the indices of a layout", lanes * n);
}

/* stays: every stored entry counts, whatever its class. */
static kv_rc take_masks(regular *s, const kv_layout_room *room, bool stays,
                        kv_err *e) {
  size_t places = (size_t)s->lanes * (size_t)s->n_tokens;
  for (int side = 0; side < KV_SIDES; side++)
    for (int f = 0; f < KV_CODED + room->needs->codings; f++)
      s->row[side][f] =
          (int64_t)kv_row_bytes(room->shape, room->needs, side, f);
  s->unread = stays ? 0 : room->needs->unread;
  if (!s->unread) return KV_OK;
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
  s->ranks = kv_layout_ranks(asked);
  s->points = room->points;
  s->n_tokens = room->shape->n_tokens;
  s->words = words_of(room);
  kv_rc rc = take_memory(s, e);
  if (!rc) rc = take_masks(s, room, asked->stays, e);
  if (rc) {
    close_regular(&s->books);
    return rc;
  }
  s->books.regular = s->layer;
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
  size_t ranks = (size_t)s->ranks;
  memset(state->freed, 0, (size_t)s->points * sizeof *state->freed);
  memset(s->layer, 0, ranks * sizeof *s->layer);
  memset(s->n, 0, lanes * sizeof *s->n);
  memset(s->was, 0, lanes * sizeof *s->was);
  memset(s->joined, 0, ranks * sizeof *s->joined);
  memset(s->rows, 0, lanes * n * sizeof *s->rows);
  memset(s->sharers, 0, ranks * n * sizeof *s->sharers);
  memset(s->held, 0, ranks * s->words * sizeof *s->held);
  s->step = 0;
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

static kv_regular_layer *layer_of(const regular *s, int lane) {
  return &s->layer[rank_of(s, lane)];
}

/* Lanes of the lane's rank that hold the token of a place. */
static int32_t *sharers_of(const regular *s, int lane, int32_t place) {
  return &s->sharers[at_of(s, rank_of(s, lane), place)];
}

static uint64_t *held_of(const regular *s, int lane, int32_t place) {
  return &s->held[(size_t)rank_of(s, lane) * s->words + (size_t)place / 64];
}

/* From now on the lane holds the token of a place. */
static void hold(regular *s, int lane, int32_t place) {
  s->n[lane]++;
  layer_of(s, lane)->kept++;
  if ((*sharers_of(s, lane, place))++) return;
  layer_of(s, lane)->joined++;
  *held_of(s, lane, place) |= 1ull << place % 64;
}

/* The lane no longer holds it. */
static void lose(regular *s, int lane, int32_t place) {
  s->n[lane]--;
  layer_of(s, lane)->kept--;
  if (--*sharers_of(s, lane, place)) return;
  layer_of(s, lane)->joined--;
  *held_of(s, lane, place) &= ~(1ull << place % 64);
}

static void write_row(kv_layout_state *state, int lane, int side, int format,
                      int32_t place) {
  regular *s = of(state);
  size_t at = at_of(s, lane, place);
  bool first = s->rows[at]++ == 0;
  layer_of(s, lane)->stored += s->row[side][format];
  if (s->bits) s->bytes[at] += (uint32_t)s->row[side][format];
  if (is_clear(s, at))
    layer_of(s, lane)->masked += s->row[side][format];
  else if (first)
    hold(s, lane, place);
}

/* A row whose bit is clear was counted as vacated when it was cleared. */
static void leave_row(kv_layout_state *state, int lane, int side, int format,
                      int32_t place) {
  regular *s = of(state);
  size_t at = at_of(s, lane, place);
  assert(s->rows[at] > 0 && "a row that is left was written");
  bool last = --s->rows[at] == 0;
  layer_of(s, lane)->stored -= s->row[side][format];
  if (s->bits) s->bytes[at] -= (uint32_t)s->row[side][format];
  if (is_clear(s, at)) {
    layer_of(s, lane)->masked -= s->row[side][format];
    return;
  }
  layer_of(s, lane)->vacated += s->row[side][format];
  if (last) lose(s, lane, place);
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
  layer_of(s, lane)->masked -= s->bytes[at];
  if (!s->rows[at]) return;
  s->back[lane] = true;
  if (!*sharers_of(s, lane, place)) s->back_joined[rank_of(s, lane)] = true;
  hold(s, lane, place);
}

static void clear_bit(regular *s, size_t at) {
  int lane = (int)(at / (size_t)s->n_tokens);
  s->bits[at] |= CLEAR;
  layer_of(s, lane)->masked += s->bytes[at];
  layer_of(s, lane)->vacated += s->bytes[at];
  if (s->rows[at]) lose(s, lane, (int32_t)(at % (size_t)s->n_tokens));
}

static void turn_bits(regular *s) {
  memset(s->back, 0, (size_t)s->lanes * sizeof *s->back);
  memset(s->back_joined, 0, (size_t)s->ranks * sizeof *s->back_joined);
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

static void entered(kv_layout_state *state, int step) {
  const regular *s = of(state);
  (void)step;
  for (int r = 0; r < s->ranks; r++) s->layer[r].vacated = 0;
}

static void compressed(kv_layout_state *state, int step,
                       const kv_replica *lane) {
  regular *s = of(state);
  int64_t entered = step - s->step;
  bool lanes_apart = s->task == KV_REGULAR_HS || s->task == KV_REGULAR_HA;
  (void)lane;
  turn_bits(s);
  for (int i = 0; i < s->ranks; i++) {
    kv_regular_layer *r = &s->layer[i];
    r->fullest = 0;
    r->changed = !lanes_apart &&
                 (r->joined < s->joined[i] + entered || s->back_joined[i]);
    s->joined[i] = r->joined;
  }
  for (int l = 0; l < s->lanes; l++) {
    kv_regular_layer *r = layer_of(s, l);
    if (s->n[l] > r->fullest) r->fullest = s->n[l];
    r->changed = r->changed ||
                 (lanes_apart && (s->n[l] < s->was[l] + entered || s->back[l]));
    s->was[l] = s->n[l];
  }
  s->step = step;
}

static bool sound(kv_layout_state *state) {
  const regular *s = of(state);
  bool agree = true;
  for (int i = 0; i < s->ranks; i++) {
    const kv_regular_layer *r = &s->layer[i];
    int64_t kept = 0, joined = 0;
    for (int l = 0; l < s->lanes; l++)
      for (int t = 0; t < s->n_tokens && rank_of(s, l) == i; t++) {
        size_t at = at_of(s, l, t);
        kept += s->rows[at] > 0 && !is_clear(s, at);
      }
    for (int t = 0; t < s->n_tokens; t++)
      joined += s->sharers[at_of(s, i, t)] > 0;
    agree = agree && kept == r->kept && joined == r->joined &&
            r->fullest <= r->joined && r->masked <= r->stored;
  }
  return agree;
}

#define REGULAR(x, t, u, h, share)                                             \
  const kv_layout kv_layout_##x = {.name = #x,                                 \
                                   .task = t,                                  \
                                   .usage = u,                                 \
                                   .help = h,                                  \
                                   .parse = kv_regular_parse,                  \
                                   .shared = share,                            \
                                   .suits = kv_regular_suits,                  \
                                   .open = open_regular,                       \
                                   .begin = begin,                             \
                                   .write = write_row,                         \
                                   .leave = leave_row,                         \
                                   .retier = retier,                           \
                                   .entered = entered,                         \
                                   .compressed = compressed,                   \
                                   .sound = sound,                             \
                                   .close = close_regular}

REGULAR(base, KV_REGULAR_BASE, "base",
        "one set of tokens for all lanes: those that any of them holds",
        shared);
REGULAR(ls, KV_REGULAR_LS, "ls:sparse|max",
        "a set for each layer, all of the largest's size; sparse: nothing "
        "moves, masks say what counts; max: rewritten",
        NULL);
REGULAR(la, KV_REGULAR_LA, "la:sparse|max",
        "a set for each layer, of its own size", NULL);
REGULAR(hs, KV_REGULAR_HS, "hs:sparse|max",
        "a set for each lane; a layer has room for its longest", NULL);
REGULAR(ha, KV_REGULAR_HA, "ha:sparse|max",
        "a set for each lane; all have room for the longest of the model",
        NULL);

/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel code_logits (ref/kernels/kernels.h): logits over rows of codes as
 * they are stored, each element made in a register, where it is used, and never
 * written: a decode step then reads the stored bytes once and nothing else.
 * Weighted sums of such rows: ref/kernels/coded_values.h. What an element is,
 * and the order of each chain, is that of rows decoded first
 * (ref/kernels/codes.h, logits.h, weigh.h), so bits are the same. A column here
 * is an element of a row. Part of ref/kernels/kernels.c.
 *
 * A code becomes a float where it stands in a word of four bytes (code_of): all
 * other bits are cleared and the word is converted, so the float is the code
 * times a power of two, exactly, and the scale that it is multiplied by has as
 * much less. fma(code * 2^at, scale * 2^-at, min) is fma(code, scale, min), bit
 * for bit: both round the same number once. No shift is needed but for the
 * topmost code of a word, and conversions leave the pipes of the FMA alone
 * (measured: AMD EPYC).
 */
#ifndef KV_REF_KERNELS_CODED_H
#define KV_REF_KERNELS_CODED_H

#include "ref/kernels/coded_pack.h"
#include <limits.h>

/* The code in bits at..at + bits - 1 of each word, divided by code_unit, which
 * the scale is multiplied by. The topmost code is brought down, for its first
 * bit would be taken for a sign. */
INLINE vec code_of(int bits, int at, vint word) {
  if (at + bits == 32) return v_from_int(vi_down(word, at));
  return v_from_int(vi_and(word, vi_one(code_mask(at, bits))));
}
INLINE float code_unit(int bits, int at) {
  return at + bits == 32 ? 1.0f : 1.0f / (float)(1u << at);
}

/* A call of the kernel. q, ldq, scale, s and lds are its arguments; s moves on
 * with the keys. */
typedef struct code_keys {
  code_shape of;
  const void *const *key; /* rows of the keys in the scratch */
  int known;              /* rows that key[] names, later keys included */
  int columns;            /* keys in the scratch that are asked for */
  const float *q;
  size_t ldq;
  float scale;
  float *s;
  size_t lds;
  uint32_t *word;    /* the scratch (coded_pack.h): codes, [word][KV_PACK] */
  float *range;      /* scales and minima, [run][RANGES][KV_PACK] */
  const char *ahead; /* of the rows that come next, what is fetched next */
  int lines; /* of 64 bytes to fetch in a turn of a tile's loop, while the first
                queries are served */
} code_keys;

/* Memory is never idle for long if the rows of the next scratch are fetched
 * while this one is used. Where packing and tiles take turns, the first cache
 * has no room for them beside the scratch and the rows it was made of: 8-bit
 * rows fetched there cost a quarter more. Where they are done side by side,
 * rows go to the second cache KEYS_FAR bytes early and to the first one before
 * they are packed: either alone costs a tenth to a fifth more (measured: AMD
 * EPYC). They are taken to lie one behind the other; where they do not, nothing
 * is fetched. */
enum { KEYS_FAR = 24 << 10 };

/* Sets k->ahead and k->lines for tiles of `tile` registers of keys, whose loop
 * does `turn` columns a turn. */
INLINE void plan_ahead(int tile, int turn, code_keys *k) {
  size_t size = (size_t)(4 * k->of.runs + k->of.plane), all = KV_PACK * size;
  const char *first = row_ahead(k->key, k->known, KV_PACK);
  const char *last = row_ahead(k->key, k->known, 2 * KV_PACK - 1);
  int turns = k->of.width / turn * (KV_PACK / (tile * LANES));
  bool dense = (uintptr_t)last - (uintptr_t)first <= 2 * all;
  k->ahead = first;
  k->lines = dense ? (int)(all / 64) / turns + 1 : 0;
}

/* What is known of a tile when it is compiled. */
typedef struct tile_kind {
  int bits, rows, vectors; /* of a code; queries; registers of keys */
  bool carries;            /* packs keys that come next beside its products */
} tile_kind;

/* Where in its columns a tile is. */
typedef struct code_walk {
  const float *q; /* of the first query, at that column */
  size_t ldq;
  const uint32_t *word;    /* of the scratch, at that column */
  int left;                /* columns of the run in hand that are to come */
  const float *range;      /* of that run */
  vec scale[4][4], min[4]; /* [byte of a word][vector] */
  const char *ahead;       /* see code_keys */
  int lines;
  code_carry carry;
} code_walk;

/* Loads the scales and minima of the run in hand, for codes that stand `shift`
 * bits up in a byte. */
INLINE void take_run(tile_kind t, int shift, code_walk *at) {
  UNROLL for (int v = 0; v < t.vectors; v++) {
    const float *range = at->range + v * LANES;
    vec scale = v_load(range + SCALE * KV_PACK);
    UNROLL for (int b = 0; b < 4; b++) at->scale[b][v] =
        v_mul(scale, v_one(code_unit(t.bits, 8 * b + shift)));
    at->min[v] = v_load(range + MINIMUM * KV_PACK);
  }
}

/* Adds four columns, of which word[v] has the codes, to the products a[r][v].
 */
INLINE void four_columns(tile_kind t, int shift, const vint *word,
                         const code_walk *at, const float *q, vec a[][4]) {
  UNROLL for (int b = 0; b < 4; b++)
      UNROLL for (int v = 0; v < t.vectors; v++) {
    vec code = code_of(t.bits, 8 * b + shift, word[v]);
    vec key = v_fma(code, at->scale[b][v], at->min[v]);
    UNROLL for (int r = 0; r < t.rows; r++) a[r][v] =
        v_fma(v_one(q[(size_t)r * at->ldq + (size_t)b]), key, a[r][v]);
  }
}

/* Fetches lines of rows that come later: of those for this turn part i of n. */
INLINE void fetch_rows(bool carries, const code_walk *at, int i, int n) {
  const char *end = at->ahead + at->lines * (i + 1) / n * 64;
  const char *line = at->ahead + at->lines * i / n * 64;
  for (; line < end; line += 64) {
    if (carries) fetch_near(line);
    fetch(line + (carries ? KEYS_FAR : 0));
  }
}

/* Four columns, of the word `ahead` words from where the tile is. */
INLINE void one_word(tile_kind t, int shift, const code_walk *at, int ahead,
                     vec a[][4]) {
  vint word[4];
  UNROLL for (int v = 0; v < t.vectors; v++) {
    word[v] = vi_load(at->word + ahead * KV_PACK + v * LANES);
    if (t.carries) word[v] = vi_keep(word[v]);
  }
  four_columns(t, shift, word, at, at->q + 4 * ahead, a);
}

/* Sixteen columns, beside which packing goes on if it is due. */
INLINE void words_of_16(tile_kind t, int shift, bool due, const code_shape *of,
                        const code_walk *at, vec a[][4]) {
  vint packed[COLUMNS_MANY];
  UNROLL for (int w = 0; w < 4; w++) {
    fetch_rows(true, at, w, 4);
    if (due) carry_step(w, of, &at->carry, packed);
    one_word(t, shift, at, w, a);
  }
}

/* Adds all columns of the plane whose codes stand `shift` bits up in a byte. */
INLINE void code_plane(tile_kind t, int shift, const code_shape *of,
                       const uint32_t *word, code_walk *at, vec a[][4]) {
  const int step = t.carries ? 4 : 1;
  at->word = word;
  take_run(t, shift, at);
  for (int w = 0; w < of->plane / 4; w += step) {
    if (!t.carries) fetch_rows(false, at, 0, 1);
    if (at->left == 0) {
      at->left = of->run;
      at->range += RANGES * KV_PACK;
      take_run(t, shift, at);
    }
    if (!t.carries) {
      one_word(t, shift, at, 0, a);
    } else if (at->carry.wait == 0) {
      words_of_16(t, shift, true, of, at, a);
      carry_on(of, &at->carry);
    } else {
      words_of_16(t, shift, false, of, at, a);
    }
    at->carry.wait--;
    at->word += step * KV_PACK;
    at->q += 4 * step, at->left -= 4 * step;
    at->ahead += at->lines * 64;
  }
}

/* What is packed beside a tile: the keys behind its own, for the lanes behind
 * its own. The last key fills up what is missing: `room`, where pointers have
 * to be made for that. */
INLINE code_carry carry_beside(tile_kind t, const code_keys *k, int lane,
                               bytes **room) {
  const int keys = t.vectors * LANES, first = lane + keys;
  const int there = first % KV_PACK, left = k->known - first;
  code_carry c = {.row = (bytes *const *)(const void *)(k->key + first),
                  .word = k->word + there,
                  .range = k->range + there,
                  .wait = left > 0 ? 0 : INT_MAX,
                  .every = 8 / t.bits};
  if (left <= 0 || left >= keys) return c;
  for (int i = 0; i < keys; i++)
    room[i] = k->key[first + (i < left ? i : left - 1)];
  c.row = room;
  return c;
}

/* The tile of t.rows queries from i on and the keys from `lane` on: writes
 * their logits. */
INLINE void code_tile(tile_kind t, code_keys *k, int i, int lane) {
  const code_shape of = k->of;
  const uint32_t *word = k->word + lane;
  vec a[4][4];
  bytes *room[4 * LANES];
  code_walk at = {.q = k->q + (size_t)i * k->ldq,
                  .ldq = k->ldq,
                  .left = of.run,
                  .range = k->range + lane,
                  .ahead = k->ahead,
                  .lines = i == 0 ? k->lines : 0};
  if (t.carries) at.carry = carry_beside(t, k, lane, room);
  UNROLL for (int r = 0; r < t.rows; r++)
      UNROLL for (int v = 0; v < t.vectors; v++) a[r][v] = v_one(0.0f);
  code_plane(t, 0, &of, word, &at, a);
  if (t.bits == 2) code_plane(t, 2, &of, word, &at, a);
  if (t.bits <= 4) code_plane(t, 4, &of, word, &at, a);
  if (t.bits == 2) code_plane(t, 6, &of, word, &at, a);
  k->ahead = at.ahead;
  const vec by = v_one(k->scale), zero = v_one(0.0f);
  UNROLL for (int r = 0; r < t.rows; r++)
      UNROLL for (int v = 0; v < t.vectors; v++) {
    float *s = k->s + (size_t)(i + r) * k->lds + lane + v * LANES;
    int left = k->columns - lane - v * LANES;
    vec out = v_add(v_mul(a[r][v], by), zero);
    if (left >= LANES)
      v_store(s, out);
    else if (left > 0)
      v_store_part(s, left, out);
  }
}

/* code_keys_BITS_ROWS_CARRIES: tiles of all keys in the scratch for ROWS
 * queries from i on; a function a number of queries, and one for a query that
 * carries. */
#define CODE_KEY_TILES(X, b)                                                   \
  X(b, 1, CODE_VECTORS_ONE, 0)                                                 \
  X(b, 2, CODE_VECTORS, 0)                                                     \
  X(b, 3, CODE_VECTORS, 0) X(b, 4, CODE_VECTORS, 0) X(b, 1, CODE_VECTORS, 1)
#define DEFINE_CODE_TILE(b, r, v, carries)                                     \
  static void code_keys_##b##_##r##_##carries(code_keys *k, int i) {           \
    for (int lane = 0; lane < k->columns; lane += (v)*LANES)                   \
      code_tile((tile_kind){b, r, v, carries}, k, i, lane);                    \
  }
CODE_KEY_TILES(DEFINE_CODE_TILE, 2)
CODE_KEY_TILES(DEFINE_CODE_TILE, 4)
CODE_KEY_TILES(DEFINE_CODE_TILE, 8)

typedef void code_keys_fn(code_keys *k, int i);
#define LIST_CODE_TILE(b, r, v, carries) code_keys_##b##_##r##_##carries,
enum { CARRYING = 4, CODE_TILES };
static code_keys_fn *const code_key_tiles[3][CODE_TILES] = {
    {CODE_KEY_TILES(LIST_CODE_TILE, 2)},
    {CODE_KEY_TILES(LIST_CODE_TILE, 4)},
    {CODE_KEY_TILES(LIST_CODE_TILE, 8)}};

INLINE int code_place(int bits) { return bits / 4; } /* 2, 4, 8: 0, 1, 2 */

/* The first n keys into the scratch; the last one fills up its register. */
INLINE void pack_keys_of(const code_keys *k, int n) {
  for (int at = 0; at < n; at += LANES) {
    bytes *row[LANES];
    for (int i = 0; i < LANES; i++)
      row[i] = k->key[at + i < n ? at + i : n - 1];
    pack_codes(&k->of, row, k->word + at);
    pack_ranges(&k->of, row, k->range + at);
  }
}

/* Functions with a copy of k, not inlined: the compiler would read the caller's
 * again after every store into the scratch (measured: a twentieth of the time
 * of AVX2). */
#define OWN_COPY __attribute__((noinline)) static void

/* Queries in turns, KV_PACK keys packed for all of them. */
OWN_COPY keys_in_turns(code_keys k, int m, int n, const void *const *key) {
  code_keys_fn *const *tile = code_key_tiles[code_place(k.of.bits)];
  for (int j = 0; j < n; j += KV_PACK, k.s += KV_PACK) {
    k.columns = n - j < KV_PACK ? n - j : KV_PACK;
    k.key = key + j;
    k.known = n - j;
    plan_ahead(m == 1 ? CODE_VECTORS_ONE : CODE_VECTORS, 4, &k);
    pack_keys_of(&k, k.columns);
    for (int i = 0, rows; i < m; i += rows) {
      rows = m - i < 4 ? m - i : 4;
      tile[rows - 1](&k, i);
    }
  }
}

/* One query: every tile packs the keys of the next one. */
OWN_COPY keys_carried(code_keys k, int n, const void *const *key) {
  const int first = CODE_VECTORS * LANES;
  k.key = key;
  pack_keys_of(&k, n < first ? n : first);
  for (int j = 0; j < n; j += KV_PACK, k.s += KV_PACK) {
    k.columns = n - j < KV_PACK ? n - j : KV_PACK;
    k.key = key + j;
    k.known = n - j;
    plan_ahead(CODE_VECTORS, 16, &k);
    code_key_tiles[code_place(k.of.bits)][CARRYING](&k, 0);
  }
}

static void code_logits(int m, int n, int d, const float *q, size_t ldq,
                        const void *const *key, int bits, int run, float scale,
                        float *s, size_t lds, float *scratch) {
  code_keys k = {.of = code_shape_of(bits, run, d),
                 .q = q,
                 .ldq = ldq,
                 .scale = scale,
                 .s = s,
                 .lds = lds,
                 .word = (uint32_t *)(void *)scratch};
  const int words = k.of.plane / 4;
  k.range = scratch + (size_t)words * KV_PACK;
  if (CODE_CARRIES && m == 1 && words % COLUMNS_MANY == 0)
    keys_carried(k, n, key);
  else
    keys_in_turns(k, m, n, key);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Logits over rows of codes as they are stored, each element made in a
 * register, where it is used, and never written: a decode step then reads the
 * stored bytes once and nothing else. Weighted sums of such rows:
 * ref/kernels/coded_values.h. What an element is, and the
 * order of each chain, is that of rows decoded first (ref/kernels/codes.h,
 * logits.h, weigh.h), so bits are the same. Part of ref/kernels/kernels.c.
 *
 * A code becomes a float where it stands in a word of four bytes (code_of): all
 * other bits are cleared and the word is converted, so the float is the code
 * times a power of two, exactly, and the scale that it is multiplied by has as
 * much less. fma(code * 2^at, scale * 2^-at, min) is fma(code, scale, min), bit
 * for bit: both round the same number once. No shift is needed, and conversions
 * leave the pipes of the FMA alone (measured: AMD EPYC).
 */
#ifndef KV_REF_KERNELS_CODED_H
#define KV_REF_KERNELS_CODED_H

enum {
  CODE_COLUMNS = 16 /* bytes of a plane, and elements of a run, come in so
                       many: a register of any set is of one run */
};

static bool codes_suit(int bits, int run, int width) {
  bool planes = width * bits % (8 * CODE_COLUMNS) == 0;
  return (bits == 2 || bits == 4 || bits == 8) && planes &&
         (run >= width || run % CODE_COLUMNS == 0);
}

/* What a row of codes is like. */
typedef struct code_shape {
  int bits, run, width;
  int runs, plane; /* scales of a row; bytes of its codes */
} code_shape;

INLINE code_shape code_shape_of(int bits, int run, int width) {
  if (run > width) run = width;
  return (code_shape){bits, run, width, (width + run - 1) / run,
                      width * bits / 8};
}

/* --- logits ---------------------------------------------------------------
 * KV_PACK keys at a time: their codes are transposed by words of four bytes,
 * [word][KV_PACK], which takes a quarter of the shuffles of 8-bit elements and
 * less of others; behind these stand [run][RANGES][KV_PACK]. */

enum { SCALE, MINIMUM, RANGES }; /* of a key and run */

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

typedef struct code_keys {
  code_shape of;
  const void *const *key; /* of the scratch as it is */
  int known;              /* pointers behind key */
  int columns;            /* valid keys in the scratch */
  const float *q;
  size_t ldq;
  float scale;
  float *s;
  size_t lds;
  const uint32_t *word; /* the scratch */
  const float *range;
  const char *ahead; /* of the rows that come next, what is fetched next */
  int lines;         /* at each word, while the first queries are served */
} code_keys;

/* Memory is never idle for long if the rows of the next scratch are fetched
 * while this one is used. The first cache has no room for them beside the
 * scratch and the rows it was made of: 8-bit rows fetched there cost a quarter
 * more (measured: AMD EPYC). They are taken to lie one behind the other; where
 * they do not, nothing is fetched. */
INLINE void plan_ahead(int vectors, code_keys *k) {
  size_t size = (size_t)(4 * k->of.runs + k->of.plane), all = KV_PACK * size;
  const char *first = row_ahead(k->key, k->known, KV_PACK);
  const char *last = row_ahead(k->key, k->known, 2 * KV_PACK - 1);
  int words = k->of.width / 4 * (KV_PACK / (vectors * LANES));
  bool dense = (uintptr_t)last - (uintptr_t)first <= 2 * all;
  k->ahead = first;
  k->lines = dense ? (int)(all / 64) / words + 1 : 0;
}

/* One plane of the codes: the elements from x on, of which `left` are of the
 * run in hand. */
typedef struct code_walk {
  int x, left;
  const float *range;      /* of that run */
  vec scale[4][4], min[4]; /* [byte of a word][vector] */
} code_walk;

/* What codes that stand `shift` bits up in a byte are multiplied by. */
INLINE void take_run(int bits, int shift, int vectors, code_walk *at) {
  UNROLL for (int v = 0; v < vectors; v++) {
    const float *range = at->range + v * LANES;
    vec scale = v_load(range + SCALE * KV_PACK);
    UNROLL for (int b = 0; b < 4; b++) at->scale[b][v] =
        v_mul(scale, v_one(code_unit(bits, 8 * b + shift)));
    at->min[v] = v_load(range + MINIMUM * KV_PACK);
  }
}

/* Four codes of each of the keys. */
INLINE void four_columns(int bits, int shift, int rows, int vectors,
                         const vint *word, const code_walk *at, const float *q,
                         size_t ldq, vec a[][4]) {
  UNROLL for (int b = 0; b < 4; b++) UNROLL for (int v = 0; v < vectors; v++) {
    vec code = code_of(bits, 8 * b + shift, word[v]);
    vec key = v_fma(code, at->scale[b][v], at->min[v]);
    UNROLL for (int r = 0; r < rows; r++) a[r][v] =
        v_fma(v_one(q[(size_t)r * ldq + (size_t)b]), key, a[r][v]);
  }
}

INLINE void code_plane(int bits, int shift, int rows, int vectors, code_keys *k,
                       int i, int lane, code_walk *at, vec a[][4]) {
  const int words = k->of.plane / 4, run = k->of.run;
  const size_t ldq = k->ldq;
  const float *q = k->q + (size_t)i * ldq;
  const uint32_t *from = k->word + lane;
  const char *ahead = k->ahead;
  const int lines = i == 0 ? k->lines : 0;
  take_run(bits, shift, vectors, at);
  for (int w = 0; w < words; w++, from += KV_PACK, at->x += 4, at->left -= 4) {
    vint word[4];
    for (int l = 0; l < lines; l++, ahead += 64) fetch(ahead);
    if (at->left == 0) {
      at->left = run;
      at->range += RANGES * KV_PACK;
      take_run(bits, shift, vectors, at);
    }
    UNROLL for (int v = 0; v < vectors; v++) word[v] =
        vi_load(from + v * LANES);
    four_columns(bits, shift, rows, vectors, word, at, q + at->x, ldq, a);
  }
  k->ahead = ahead;
}

/* rows queries from i on x vectors of keys from `lane` on. */
INLINE void code_tile(int bits, int rows, int vectors, code_keys *k, int i,
                      int lane) {
  vec a[4][4];
  code_walk at = {.left = k->of.run, .range = k->range + lane};
  UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++)
      a[r][v] = v_one(0.0f);
  code_plane(bits, 0, rows, vectors, k, i, lane, &at, a);
  if (bits == 2) code_plane(bits, 2, rows, vectors, k, i, lane, &at, a);
  if (bits <= 4) code_plane(bits, 4, rows, vectors, k, i, lane, &at, a);
  if (bits == 2) code_plane(bits, 6, rows, vectors, k, i, lane, &at, a);
  const vec by = v_one(k->scale), zero = v_one(0.0f);
  UNROLL for (int r = 0; r < rows; r++)
      UNROLL for (int v = 0; v < vectors; v++) {
    float *s = k->s + (size_t)(i + r) * k->lds + lane + v * LANES;
    int left = k->columns - lane - v * LANES;
    vec out = v_add(v_mul(a[r][v], by), zero);
    if (left >= LANES)
      v_store(s, out);
    else if (left > 0)
      v_store_part(s, left, out);
  }
}

/* A function a number of queries. */
#define CODE_KEY_TILES(X, b)                                                   \
  X(b, 1, CODE_VECTORS_ONE)                                                    \
  X(b, 2, CODE_VECTORS) X(b, 3, CODE_VECTORS) X(b, 4, CODE_VECTORS)
#define DEFINE_CODE_TILE(b, r, v)                                              \
  static void code_keys_##b##_##r(code_keys *k, int i) {                       \
    for (int lane = 0; lane < k->columns; lane += (v)*LANES)                   \
      code_tile(b, r, v, k, i, lane);                                          \
  }
CODE_KEY_TILES(DEFINE_CODE_TILE, 2)
CODE_KEY_TILES(DEFINE_CODE_TILE, 4)
CODE_KEY_TILES(DEFINE_CODE_TILE, 8)

typedef void code_keys_fn(code_keys *k, int i);
#define LIST_CODE_TILE(b, r, v) code_keys_##b##_##r,
static code_keys_fn *const code_key_tiles[3][4] = {
    {CODE_KEY_TILES(LIST_CODE_TILE, 2)},
    {CODE_KEY_TILES(LIST_CODE_TILE, 4)},
    {CODE_KEY_TILES(LIST_CODE_TILE, 8)}};

INLINE int code_place(int bits) { return bits / 4; } /* 2, 4, 8: 0, 1, 2 */

/* Where half h of the blocks goes to. */
INLINE float *range_at(const code_shape *of, int h, float *out) {
  int run = h < of->runs ? h : h - of->runs;
  return out + (run * RANGES + (h < of->runs ? SCALE : MINIMUM)) * KV_PACK;
}

/* Codes of LANES keys into the scratch, from lane 0 of `out` on, so many words
 * at a time. */
INLINE void pack_codes(int columns, const code_shape *of, bytes *const *key,
                       uint32_t *out) {
  bytes *row[LANES];
  for (int i = 0; i < LANES; i++) row[i] = key[i] + 4 * of->runs;
  for (int x = 0; x < of->plane / 4; x += columns) {
    vint word[COLUMNS_MANY];
    if (columns == COLUMNS_MANY)
      pack_many(row, 4 * (size_t)x, word);
    else
      pack_words(row, 4 * (size_t)x, word);
    UNROLL for (int c = 0; c < columns; c++)
        vi_store(out + (size_t)(x + c) * KV_PACK, word[c]);
  }
}

/* Their scales and minima: halves, which come two in a word, all scales before
 * all minima. */
INLINE void pack_ranges(const code_shape *of, bytes *const *key, float *out) {
  for (int h = 0; h < 2 * of->runs; h += 2) {
    vint word = vi_words(key, 2 * (size_t)h);
    v_store(range_at(of, h, out), v_of_half(word));
    v_store(range_at(of, h + 1, out), v_of_half(vi_down(word, 16)));
  }
}

/* m queries on n keys, whose codes are packed by so many words at a time. k is
 * a copy, or every store into the scratch would have it read again. */
INLINE void all_keys(int columns, code_keys k, int m, int n,
                     const void *const *key, float *scratch) {
  float *range = scratch + (size_t)(k.of.plane / 4) * KV_PACK;
  k.word = (const uint32_t *)(const void *)scratch;
  k.range = range;
  for (int j = 0; j < n; j += KV_PACK, k.s += KV_PACK) {
    k.columns = n - j < KV_PACK ? n - j : KV_PACK;
    k.key = key + j;
    k.known = n - j;
    plan_ahead(m == 1 ? CODE_VECTORS_ONE : CODE_VECTORS, &k);
    for (int at = 0; at < k.columns; at += LANES) {
      bytes *row[LANES]; /* the last one fills up its vector */
      for (int i = 0; i < LANES; i++)
        row[i] = key[j + at + i < n ? j + at + i : n - 1];
      pack_codes(columns, &k.of, row, (uint32_t *)(void *)scratch + at);
      pack_ranges(&k.of, row, range + at);
    }
    for (int i = 0, rows; i < m; i += rows) {
      rows = m - i < 4 ? m - i : 4;
      code_key_tiles[code_place(k.of.bits)][rows - 1](&k, i);
    }
  }
}

static void few_words(code_keys k, int m, int n, const void *const *key,
                      float *scratch) {
  all_keys(COLUMNS_32, k, m, n, key, scratch);
}
static void many_words(code_keys k, int m, int n, const void *const *key,
                       float *scratch) {
  all_keys(COLUMNS_MANY, k, m, n, key, scratch);
}

static void code_logits(int m, int n, int d, const float *q, size_t ldq,
                        const void *const *key, int bits, int run, float scale,
                        float *s, size_t lds, float *scratch) {
  code_keys k = {.of = code_shape_of(bits, run, d),
                 .q = q,
                 .ldq = ldq,
                 .scale = scale,
                 .s = s,
                 .lds = lds};
  bool many = k.of.plane / 4 % COLUMNS_MANY == 0;
  (many ? many_words : few_words)(k, m, n, key, scratch);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Logits over rows of codes as they are stored, each element made in a
 * register, where it is used, and never written: a decode step then reads the
 * stored bytes once and nothing else. Weighted sums of such rows:
 * ref/kernels/coded_values.h. What an element is, and the
 * order of each chain, is that of rows decoded first (ref/kernels/codes.h,
 * logits.h, weigh.h), so bits are the same. Part of ref/kernels/kernels.c.
 *
 * A code of `bits` bits becomes a float without a conversion: it is put below
 * the leading bit of a power of two (v_based), which is subtracted (v_code). Or
 * it stays, and the minimum has as much less for it: fma(base + c, s, m - base
 * s) is fma(c, s, m), bit for bit, where m - base s is a float, as both round
 * the same number once. With codes far up in a mantissa it is one but for rows
 * whose minimum is next to nothing beside their scale.
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

/* Of a key and run: its scale, its minimum, and the latter for codes that keep
 * their bases, at either of two places. */
enum { SCALE, MINIMUM, LOW, HIGH, RANGES };

/* The two places. Of the four bytes of a word one and the next come to them at
 * once, eight bits apart. */
INLINE int code_low(int bits) { return 15 - bits; }
INLINE int code_high(int bits) { return 23 - bits; }

INLINE vec v_code(vint a, int at, int bits) {
  return v_sub(v_based(a, at, bits), v_one(code_base(at)));
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
 * while this one is used: into the first cache, for the tiles load little, and
 * packing waits less (measured: AMD EPYC). They are taken to lie one behind the
 * other; where they do not, nothing is fetched. */
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
  const float *range;
  vec scale[4], min[2][4]; /* of bytes 0 and 2 of a word, of 1 and 3 */
} code_walk;

INLINE void next_run(bool based, int vectors, int run, code_walk *at) {
  const int first = based ? LOW : MINIMUM, second = based ? HIGH : MINIMUM;
  UNROLL for (int v = 0; v < vectors; v++) {
    const float *range = at->range + v * LANES;
    at->scale[v] = v_load(range + SCALE * KV_PACK);
    at->min[0][v] = v_load(range + first * KV_PACK);
    at->min[1][v] = v_load(range + second * KV_PACK);
  }
  at->range += RANGES * KV_PACK;
  at->left = run;
}

/* The code in byte b of a word, `shift` bits up there, with its base or without
 * it. Bytes of the upper half are brought down, for v_based takes none from the
 * bits of an exponent. */
INLINE vec code_of(int bits, int shift, bool based, int b, vint word) {
  const int low = code_low(bits);
  if (!based)
    return v_code(b < 2 ? word : vi_down(word, 16), 8 * (b % 2) + shift, bits);
  word = b < 2 ? vi_up(word, low - shift) : vi_down(word, 16 + shift - low);
  return v_based(word, b % 2 ? code_high(bits) : low, bits);
}

/* Four codes of each of the keys. */
INLINE void four_columns(int bits, int shift, bool based, int rows, int vectors,
                         const vint *word, const code_walk *at, const float *q,
                         size_t ldq, vec a[][4]) {
  UNROLL for (int b = 0; b < 4; b++) UNROLL for (int v = 0; v < vectors; v++) {
    vec code = code_of(bits, shift, based, b, word[v]);
    vec key = v_fma(code, at->scale[v], at->min[b % 2][v]);
    UNROLL for (int r = 0; r < rows; r++) a[r][v] =
        v_fma(v_one(q[(size_t)r * ldq + (size_t)b]), key, a[r][v]);
  }
}

INLINE void code_plane(int bits, int shift, bool based, int rows, int vectors,
                       code_keys *k, int i, int lane, code_walk *at,
                       vec a[][4]) {
  const int words = k->of.plane / 4, run = k->of.run;
  const size_t ldq = k->ldq;
  const float *q = k->q + (size_t)i * ldq;
  const uint32_t *from = k->word + lane;
  const char *ahead = k->ahead;
  const int lines = i == 0 ? k->lines : 0;
  for (int w = 0; w < words; w++, from += KV_PACK, at->x += 4, at->left -= 4) {
    vint word[4];
    for (int l = 0; l < lines; l++, ahead += 64) fetch_near(ahead);
    if (at->left == 0) next_run(based, vectors, run, at);
    UNROLL for (int v = 0; v < vectors; v++) word[v] =
        vi_load(from + v * LANES);
    four_columns(bits, shift, based, rows, vectors, word, at, q + at->x, ldq,
                 a);
  }
  k->ahead = ahead;
}

/* rows queries from i on x vectors of keys from `lane` on. */
INLINE void code_tile(int bits, bool based, int rows, int vectors, code_keys *k,
                      int i, int lane) {
  vec a[4][4];
  code_walk at = {.range = k->range + lane};
  UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++)
      a[r][v] = v_one(0.0f);
  code_plane(bits, 0, based, rows, vectors, k, i, lane, &at, a);
  if (bits == 2) code_plane(bits, 2, based, rows, vectors, k, i, lane, &at, a);
  if (bits <= 4) code_plane(bits, 4, based, rows, vectors, k, i, lane, &at, a);
  if (bits == 2) code_plane(bits, 6, based, rows, vectors, k, i, lane, &at, a);
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

/* A function a number of queries, and one for a query whose codes have lost
 * their bases. */
#define CODE_KEY_TILES(X, b)                                                   \
  X(b, 0, CODE_VECTORS_ONE)                                                    \
  X(b, 1, CODE_VECTORS_ONE)                                                    \
  X(b, 2, CODE_VECTORS) X(b, 3, CODE_VECTORS) X(b, 4, CODE_VECTORS)
#define DEFINE_CODE_TILE(b, r, v)                                              \
  static void code_keys_##b##_##r(code_keys *k, int i) {                       \
    for (int lane = 0; lane < k->columns; lane += (v)*LANES)                   \
      code_tile(b, (r) > 0, (r) > 0 ? (r) : 1, v, k, i, lane);                 \
  }
CODE_KEY_TILES(DEFINE_CODE_TILE, 2)
CODE_KEY_TILES(DEFINE_CODE_TILE, 4)
CODE_KEY_TILES(DEFINE_CODE_TILE, 8)

typedef void code_keys_fn(code_keys *k, int i);
#define LIST_CODE_TILE(b, r, v) code_keys_##b##_##r,
static code_keys_fn *const code_key_tiles[3][5] = {
    {CODE_KEY_TILES(LIST_CODE_TILE, 2)},
    {CODE_KEY_TILES(LIST_CODE_TILE, 4)},
    {CODE_KEY_TILES(LIST_CODE_TILE, 8)}};

INLINE int code_place(int bits) { return bits / 4; } /* 2, 4, 8: 0, 1, 2 */

/* Where half h of the blocks goes to. */
INLINE float *range_at(const code_shape *of, int h, float *out) {
  int run = h < of->runs ? h : h - of->runs;
  return out + (run * RANGES + (h < of->runs ? SCALE : MINIMUM)) * KV_PACK;
}

/* Codes of LANES keys into the scratch, from lane 0 of `out` on. */
static void pack_codes(const code_shape *of, bytes *const *key, uint32_t *out) {
  bytes *row[LANES];
  for (int i = 0; i < LANES; i++) row[i] = key[i] + 4 * of->runs;
  for (int x = 0; x < of->plane / 4; x += COLUMNS_32) {
    vint word[COLUMNS_32];
    pack_words(row, 4 * (size_t)x, word);
    UNROLL for (int c = 0; c < COLUMNS_32; c++)
        vi_store(out + (size_t)(x + c) * KV_PACK, word[c]);
  }
}

/* Their scales and minima: halves, which come two in a word, all scales before
 * all minima. */
static void pack_ranges(const code_shape *of, bytes *const *key, float *out) {
  for (int h = 0; h < 2 * of->runs; h += 2) {
    vint word = vi_words(key, 2 * (size_t)h);
    v_store(range_at(of, h, out), v_of_half(word));
    v_store(range_at(of, h + 1, out), v_of_half(vi_down(word, 16)));
  }
}

/* out = min - base * scale; whether that is so without rounding. base * scale
 * is, and what the sum loses is known (Knuth's two-sum). */
INLINE bool take_base(vec scale, vec min, float base, float *out) {
  vec all = v_mul(scale, v_one(base)), sum = v_sub(min, all);
  vec part = v_sub(sum, min);
  v_store(out, sum);
  return v_is_zero(v_sub(v_sub(min, v_sub(sum, part)), v_add(all, part)));
}

/* Minima of LANES keys less their codes' bases; whether all are exact. */
static bool base_ranges(const code_shape *of, int bits, float *range) {
  bool exact = true;
  for (int g = 0; g < of->runs; g++, range += RANGES * KV_PACK) {
    vec scale = v_load(range), min = v_load(range + MINIMUM * KV_PACK);
    exact &=
        take_base(scale, min, code_base(code_low(bits)), range + LOW * KV_PACK);
    exact &= take_base(scale, min, code_base(code_high(bits)),
                       range + HIGH * KV_PACK);
  }
  return exact;
}

static void code_logits(int m, int n, int d, const float *q, size_t ldq,
                        const void *const *key, int bits, int run, float scale,
                        float *s, size_t lds, float *pack) {
  code_keys k = {.of = code_shape_of(bits, run, d),
                 .q = q,
                 .ldq = ldq,
                 .scale = scale,
                 .s = s,
                 .lds = lds,
                 .word = (const uint32_t *)(const void *)pack};
  float *range = pack + (size_t)(k.of.plane / 4) * KV_PACK;
  k.range = range;
  for (int j = 0; j < n; j += KV_PACK, k.s += KV_PACK) {
    k.columns = n - j < KV_PACK ? n - j : KV_PACK;
    k.key = key + j;
    k.known = n - j;
    plan_ahead(m == 1 ? CODE_VECTORS_ONE : CODE_VECTORS, &k);
    bool based = true;
    for (int at = 0; at < k.columns; at += LANES) {
      bytes *row[LANES]; /* the last one fills up its vector */
      for (int i = 0; i < LANES; i++)
        row[i] = key[j + at + i < n ? j + at + i : n - 1];
      pack_codes(&k.of, row, (uint32_t *)(void *)pack + at);
      pack_ranges(&k.of, row, range + at);
      based &= base_ranges(&k.of, bits, range + at);
    }
    for (int i = 0, rows; i < m; i += rows) {
      rows = !based ? 1 : m - i < 4 ? m - i : 4;
      code_key_tiles[code_place(bits)][based ? rows : 0](&k, i);
    }
  }
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel code_logits (ref/kernels/kernels.h): logits over stored rows of
 * codes. Each element is decoded in a register and never written, so a decode
 * step reads the stored bytes once and nothing else. Below are the kernels
 * code_weigh, weighted sums of such rows, and minmax, which decodes rows.
 * Elements and the order of each chain are those of rows decoded first (minmax,
 * logits.h, weigh.h), so the bits are the same. A column is an element of a
 * row. Part of ref/kernels/kernels.c.
 *
 * A code becomes a float within its word of four bytes (code_of): all other
 * bits are cleared and the word is converted, so the float is exactly the code
 * times a power of two, by which its scale is divided. fma(code * 2^at, scale *
 * 2^-at, min) is fma(code, scale, min), bit for bit: both round the same number
 * once. Only the topmost code of a word needs a shift, and conversions do not
 * use the FMA's pipes (measured: AMD EPYC).
 */
#ifndef KV_REF_KERNELS_CODED_H
#define KV_REF_KERNELS_CODED_H

#include <limits.h>

/* --- packing keys --------------------------------------------------------- */

/* Packs rows of codes into the scratch from which logits are computed: KV_PACK
 * keys, their codes transposed by words of four bytes, [word][KV_PACK], which
 * takes a quarter of the shuffles of 8-bit elements and less of others; then
 * the scales and minima of the keys' runs, [run][RANGES][KV_PACK] floats. */

enum {
  CODE_COLUMNS = 16 /* bytes of a plane, and elements of a run, are multiples of
                       this: a register of any set is within one run */
};

/* The kernel codes_suit: whole words of a plane, whole registers of a run. */
static bool codes_suit(int bits, int run, int width) {
  bool planes = width * bits % (8 * CODE_COLUMNS) == 0;
  return (bits == 2 || bits == 4 || bits == 8) && planes &&
         (run >= width || run % CODE_COLUMNS == 0);
}

/* The layout of a row of codes. */
typedef struct code_shape {
  int bits, run, width; /* of a code; elements that share a scale; of a row */
  int runs, plane;      /* scales of a row; bytes of its codes */
} code_shape;

INLINE code_shape code_shape_of(int bits, int run, int width) {
  if (run > width) run = width;
  return (code_shape){bits, run, width, (width + run - 1) / run,
                      width * bits / 8};
}

enum { SCALE, MINIMUM, RANGES }; /* numbers of a key for each run */

/* Where number h of a block is stored in the scratch at `out`. Numbers are the
 * block's scales, then its minima. */
INLINE float *range_at(const code_shape *of, int h, float *out) {
  int run = h < of->runs ? h : h - of->runs;
  return out + (run * RANGES + (h < of->runs ? SCALE : MINIMUM)) * KV_PACK;
}

/* Stores n words of LANES keys as rows of the scratch. */
INLINE void store_words(int n, const vint *word, uint32_t *out) {
  UNROLL for (int i = 0; i < n; i++)
      vi_store(out + (size_t)i * KV_PACK, word[i]);
}

/* Packs codes of LANES keys into the scratch, from lane 0 of `out` on. */
INLINE void pack_codes(const code_shape *of, bytes *const *key, uint32_t *out) {
  const int words = of->plane / 4;
  size_t at = 4 * (size_t)of->runs;
  vint word[COLUMNS_MANY];
  if (words % COLUMNS_MANY == 0)
    for (int x = 0; x < words; x += COLUMNS_MANY, at += 4 * COLUMNS_MANY) {
      UNROLL for (int i = 0; i < PACK_STEPS; i++) pack_step(i, key, at, word);
      store_words(COLUMNS_MANY, word, out + (size_t)x * KV_PACK);
    }
  else
    for (int x = 0; x < words; x += COLUMNS_32, at += 4 * COLUMNS_32) {
      pack_words(key, at, word);
      store_words(COLUMNS_32, word, out + (size_t)x * KV_PACK);
    }
}

/* Packs their scales and minima: halves, two in a word, all scales before all
 * minima. */
INLINE void pack_ranges(const code_shape *of, bytes *const *key, float *out) {
  for (int h = 0; h < 2 * of->runs; h += 2) {
    vint word = vi_words(key, 2 * (size_t)h);
    v_store(range_at(of, h, out), v_of_half(word));
    v_store(range_at(of, h + 1, out), v_of_half(vi_down(word, 16)));
  }
}

/* --- packing during a tile ----------------------------------------------- */

typedef struct code_carry {
  bytes *const *row; /* [LANES] keys; then those of the next register */
  int x;             /* number of their words already packed */
  uint32_t *word;    /* their place in the scratch: [word][KV_PACK] */
  float *range;      /* the same of scales and minima */
  int wait;  /* blocks of 16 columns of the tile before the next words are due
              */
  int every; /* such blocks from words to words */
} code_carry;

/* Does step `step` of PACK_STEPS of packing the current words, which stay in
 * `word` between steps. The last step stores them. */
INLINE void carry_step(int step, const code_shape *of, const code_carry *c,
                       vint *word) {
  pack_step(step, c->row, 4 * (size_t)(of->runs + c->x), word);
  if (step == PACK_STEPS - 1)
    store_words(COLUMNS_MANY, word, c->word + (size_t)c->x * KV_PACK);
}

/* Advances to the next words. After the last ones it packs the ranges of their
 * keys and advances to the next register of keys. */
INLINE void carry_on(const code_shape *of, code_carry *c) {
  c->wait = c->every;
  c->x += COLUMNS_MANY;
  if (c->x < of->plane / 4) return;
  pack_ranges(of, c->row, c->range);
  c->row += LANES, c->word += LANES, c->range += LANES;
  c->x = 0;
}

/* The code in bits at..at + bits - 1 of each word, divided by code_unit, which
 * the scale is multiplied by. The topmost code is shifted down, because its
 * first bit would be the sign. */
INLINE vec code_of(int bits, int at, vint word) {
  if (at + bits == 32) return v_from_int(vi_down(word, at));
  return v_from_int(vi_and(word, vi_one(code_mask(at, bits))));
}
INLINE float code_unit(int bits, int at) {
  return at + bits == 32 ? 1.0f : 1.0f / (float)(1u << at);
}

/* A call of the kernel. q, ldq, scale, s and lds are its arguments; s advances
 * with the keys. */
typedef struct code_keys {
  code_shape of;
  const void *const *key; /* rows of the keys in the scratch */
  int known;              /* rows that key[] names, later keys included */
  int columns;            /* wanted keys in the scratch */
  const float *q;
  size_t ldq;
  float scale;
  float *s;
  size_t lds;
  uint32_t *word;    /* codes in the scratch, [word][KV_PACK] */
  float *range;      /* scales and minima, [run][RANGES][KV_PACK] */
  const char *ahead; /* in the next rows, the address to fetch next */
  int lines; /* of 64 bytes to fetch in a turn of a tile's loop, while the first
                queries are served */
} code_keys;

/* The rows of the next scratch are fetched while this one is used, so that
 * memory is never idle for long. If packing and tiles take turns, those rows do
 * not fit into the first-level cache together with the scratch and the rows it
 * was made from: 8-bit rows fetched there cost a quarter more. If both are
 * interleaved, rows are fetched to the second-level cache KEYS_FAR bytes early
 * and to the first one before they are packed: either alone costs a tenth to a
 * fifth more (measured: AMD EPYC). Only contiguous rows are fetched. */
enum { KEYS_FAR = 24 << 10 };

/* Sets k->ahead and k->lines for tiles of `tile` registers of keys, whose loop
 * handles `turn` columns a turn. */
INLINE void plan_ahead(int tile, int turn, code_keys *k) {
  size_t size = (size_t)(4 * k->of.runs + k->of.plane), all = KV_PACK * size;
  const char *first = row_ahead(k->key, k->known, KV_PACK);
  const char *last = row_ahead(k->key, k->known, 2 * KV_PACK - 1);
  int turns = k->of.width / turn * (KV_PACK / (tile * LANES));
  bool dense = (uintptr_t)last - (uintptr_t)first <= 2 * all;
  k->ahead = first;
  k->lines = dense ? (int)(all / 64) / turns + 1 : 0;
}

/* Constants of a tile at compile time. */
typedef struct tile_kind {
  int bits, rows, vectors; /* of a code; queries; registers of keys */
  bool carries;            /* packs the next keys between its products */
} tile_kind;

/* The position of a tile in its columns. */
typedef struct code_walk {
  const float *q; /* of the first query, at that column */
  size_t ldq;
  const uint32_t *word;    /* of the scratch, at that column */
  int left;                /* columns left in the current run */
  const float *range;      /* of that run */
  vec scale[4][4], min[4]; /* [byte of a word][vector] */
  const char *ahead;       /* see code_keys */
  int lines;
  code_carry carry;
} code_walk;

/* Loads the scales and minima of the current run, for codes that are `shift`
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

/* Adds four columns, whose codes are in word[v], to the products a[r][v]. */
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

/* Fetches lines of later rows: part i of n of those for this turn. */
INLINE void fetch_rows(bool carries, const code_walk *at, int i, int n) {
  const char *end = at->ahead + at->lines * (i + 1) / n * 64;
  const char *line = at->ahead + at->lines * i / n * 64;
  for (; line < end; line += 64) {
    if (carries) fetch_near(line);
    fetch(line + (carries ? KEYS_FAR : 0));
  }
}

/* Four columns, of the word `ahead` words after the tile's position. */
INLINE void one_word(tile_kind t, int shift, const code_walk *at, int ahead,
                     vec a[][4]) {
  vint word[4];
  UNROLL for (int v = 0; v < t.vectors; v++) {
    word[v] = vi_load(at->word + ahead * KV_PACK + v * LANES);
    if (t.carries) word[v] = vi_keep(word[v]);
  }
  four_columns(t, shift, word, at, at->q + 4 * ahead, a);
}

/* Sixteen columns, and packing if a step of it is due. */
INLINE void words_of_16(tile_kind t, int shift, bool due, const code_shape *of,
                        const code_walk *at, vec a[][4]) {
  vint packed[COLUMNS_MANY];
  UNROLL for (int w = 0; w < 4; w++) {
    fetch_rows(true, at, w, 4);
    if (due) carry_step(w, of, &at->carry, packed);
    one_word(t, shift, at, w, a);
  }
}

/* Adds all columns of the plane whose codes are `shift` bits up in a byte. */
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

/* What a tile packs besides: the keys after its own, for the lanes after its
 * own. Missing keys repeat the last one, with pointers made in `room`. */
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

/* The tile of t.rows queries from i on and keys from `lane` on. */
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
 * queries from i on. One function for each number of queries, and one more for
 * a single query that carries. */
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

/* Packs the first n keys into the scratch; the last one is repeated to fill its
 * register. */
INLINE void pack_keys_of(const code_keys *k, int n) {
  for (int at = 0; at < n; at += LANES) {
    bytes *row[LANES];
    for (int i = 0; i < LANES; i++)
      row[i] = k->key[at + i < n ? at + i : n - 1];
    pack_codes(&k->of, row, k->word + at);
    pack_ranges(&k->of, row, k->range + at);
  }
}

/* A function with its own copy of k, not inlined. Otherwise the compiler
 * reloads the caller's k after every store into the scratch (measured: a
 * twentieth of the time of AVX2). */
#define OWN_COPY __attribute__((noinline)) static void

/* Many queries: KV_PACK keys are packed, then used for all of them. */
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

/* The kernel code_weigh (ref/kernels/kernels.h): weighted sums over stored rows
 * of codes. Lanes of a register are columns: LANES bytes of a row are as many
 * columns of each plane. */

/* A call of the kernel; p and a advance with the heads. */
typedef struct code_values {
  code_shape of;
  int n;          /* rows */
  const float *p; /* of the tile's first head */
  size_t ldp;
  const void *const *value; /* [n] blocks */
  float *a;                 /* [heads][width], of the tile's first head */
} code_values;

/* Byte offsets in a block of the scale and the minimum of column x. */
typedef struct run_place {
  size_t scale, min;
} run_place;

INLINE run_place place_of(const code_shape *of, int x) {
  size_t run = (size_t)(x / of->run);
  return (run_place){2 * run, 2 * ((size_t)of->runs + run)};
}

/* Later rows are fetched while these are used. Every band fetches its share,
 * and after the last row those of the next call, which mostly follow. A single
 * band of whole rows waits for memory, so its rows go to the first-level cache.
 * Several bands reuse rows and wait less, so theirs go to the second-level one,
 * and few enough rows ahead not to disturb the processor's own prefetching of
 * streams (measured: AMD EPYC; one way for both costs up to a seventh of the
 * time). A line that two rows share is fetched once. */
enum {
  ROWS_AHEAD = 12,
  ROWS_NEAR = 24
}; /* in rows: for several bands, for one */
typedef struct code_ahead {
  const char *row;   /* to be fetched next */
  size_t step, size; /* bytes from row to row; bytes of a row */
  int bands, wait;   /* bands of the call; rows used before the next fetch */
} code_ahead;

/* Of band number `band` over rows value[n] of `size` bytes. */
INLINE code_ahead code_ahead_of(const void *const *value, int n, size_t size,
                                int bands, int band) {
  const int first =
      (bands == 1 ? (int)ROWS_NEAR : (int)ROWS_AHEAD) + band * n / bands;
  const char *row = row_ahead(value, n, first);
  const char *next = row_ahead(value, n, first + 1);
  return (code_ahead){row, (uintptr_t)next - (uintptr_t)row, size, bands, 0};
}

INLINE void fetch_ahead(code_ahead *a) {
  if (a->wait-- > 0) return;
  for (size_t x = 0; x + 32 < a->size; x += 64) {
    if (a->bands == 1)
      fetch_near(a->row + x);
    else
      fetch(a->row + x);
  }
  a->row += a->step;
  a->wait = a->bands - 1;
}

/* Sums of `rows` heads in the columns of `loads` registers of bytes from byte j
 * on. runs: 1 if all these columns are of one run, else the number of planes,
 * each of which is within one run. */
INLINE void code_band(int bits, int rows, int loads, int runs,
                      const code_values *w, int j) {
  const int planes = 8 / bits, plane = w->of.plane, n = w->n;
  const size_t d_v = (size_t)w->of.width, ldp = w->ldp;
  const size_t from = (size_t)(4 * w->of.runs + j);
  const void *const *value = w->value;
  const float *p = w->p;
  run_place at[4];
  vec a[4][8];
  const int size = loads * LANES, bands = (plane + size - 1) / size;
  code_ahead ahead = code_ahead_of(value, n, (size_t)(4 * w->of.runs + plane),
                                   bands, j / size);
#define EACH_VECTOR                                                            \
  UNROLL for (int l = 0; l < loads; l++) UNROLL for (int h = 0; h < planes; h++)
  UNROLL for (int g = 0; g < runs; g++) at[g] = place_of(&w->of, g * plane + j);
  UNROLL for (int r = 0; r < rows; r++) EACH_VECTOR a[r][l * planes + h] =
      v_load(w->a + (size_t)r * d_v + h * plane + j + l * LANES);
  for (int i = 0; i < n; i++, p++) {
    bytes *block = value[i];
    vrun run[4];
    fetch_ahead(&ahead);
    UNROLL for (int g = 0; g < runs; g++) run[g] =
        v_run(bits, v_half(block + at[g].scale), v_half(block + at[g].min));
    EACH_VECTOR {
      vint word = vi_of_bytes(block + from + l * LANES);
      vec number = v_number(bits, run[runs > 1 ? h : 0], word, h * bits);
      UNROLL for (int r = 0; r < rows; r++) a[r][l * planes + h] =
          v_fma(v_one(p[(size_t)r * ldp]), number, a[r][l * planes + h]);
    }
  }
  UNROLL for (int r = 0; r < rows; r++) EACH_VECTOR v_store(
      w->a + (size_t)r * d_v + h * plane + j + l * LANES, a[r][l * planes + h]);
#undef EACH_VECTOR
}

/* Bands of `loads` registers of bytes from byte j on; returns the first byte
 * after them. */
INLINE int some_bands(int bits, int rows, int loads, int runs,
                      const code_values *w, int j) {
  const int step = loads * LANES;
  for (; j + step <= w->of.plane; j += step)
    code_band(bits, rows, loads, runs, w, j);
  return j;
}

/* Bands as wide as the registers hold, then of one register of bytes: for rows
 * that are one run, for planes within one run, and for others. */
INLINE void code_bands(int bits, int rows, int vectors, const code_values *w) {
  const int planes = 8 / bits, most = vectors / planes;
  int j = 0;
  if (w->of.runs == 1) {
    j = some_bands(bits, rows, most, 1, w, j);
    some_bands(bits, rows, 1, 1, w, j);
    return;
  }
  if (w->of.run % w->of.plane == 0)
    j = some_bands(bits, rows, most, planes, w, j);
  some_bands(bits, rows, 1, planes, w, j);
}

/* code_values_BITS_ROWS: all columns for ROWS heads. */
#define CODE_VALUE_TILES(X, b)                                                 \
  X(b, 1, CODE_COLUMNS_FEW) X(b, 2, CODE_COLUMNS_FEW) X(b, 3, 4) X(b, 4, 4)
#define DEFINE_CODE_BANDS(b, r, v)                                             \
  static void code_values_##b##_##r(const code_values *w) {                    \
    code_bands(b, r, v, w);                                                    \
  }
CODE_VALUE_TILES(DEFINE_CODE_BANDS, 2)
CODE_VALUE_TILES(DEFINE_CODE_BANDS, 4)
CODE_VALUE_TILES(DEFINE_CODE_BANDS, 8)

typedef void code_values_fn(const code_values *w);
#define LIST_CODE_BANDS(b, r, v) code_values_##b##_##r,
static code_values_fn *const code_value_tiles[3][4] = {
    {CODE_VALUE_TILES(LIST_CODE_BANDS, 2)},
    {CODE_VALUE_TILES(LIST_CODE_BANDS, 4)},
    {CODE_VALUE_TILES(LIST_CODE_BANDS, 8)}};

static void code_weigh(int m, int n, int d_v, const float *p, size_t ldp,
                       const void *const *value, int bits, int run, float *a) {
  code_values w = {code_shape_of(bits, run, d_v), n, p, ldp, value, a};
  for (int i = 0, rows; i < m && n > 0; i += rows) {
    rows = m - i < CODE_HEADS ? m - i : CODE_HEADS;
    code_value_tiles[code_place(bits)][rows - 1](&w);
    w.p += (size_t)rows * ldp;
    w.a += (size_t)rows * (size_t)d_v;
  }
}

/* The kernel minmax (ref/kernels/kernels.h): decodes rows of codes. Plain loops
 * over neighbouring elements, which the compiler vectorises at the set's width;
 * an element has the same bits in every set. */

/* out[i] = the code in byte i of row, `shift` bits up, as wide as `ones`. */
INLINE void plane_of(int n, int shift, int ones, bytes *row,
                     float *restrict out) {
  for (int i = 0; i < n; i++) out[i] = (float)(row[i] >> shift & ones);
}

/* out[0..width) = the codes of a row, plane by plane: element i of plane h is
 * in byte i, h * bits up. */
INLINE void read_codes(int bits, int width, bytes *row, float *out) {
  int plane = (width * bits + 7) / 8, ones = (1 << bits) - 1, shift = 0;
  for (int from = 0; from < width; from += plane, shift += bits)
    plane_of(width - from < plane ? width - from : plane, shift, ones, row,
             out + from);
}

/* Number i of a row of finite fp16. */
INLINE float half_at(bytes *at, int i) {
  return kv_half_at(at + 2 * (size_t)i);
}

/* A code times a scale is exact in binary32, so this is the fused operation. */
INLINE float placed(float code, float scale, float min) {
  return kv_add(kv_mul(code, scale), min);
}

/* place_each: x[i] = placed(x[i]) for i < n, each with its own scale.
 * place_run: with one scale for all. */
INLINE void place_each(int n, bytes *scale, bytes *min, float *restrict x) {
  for (int i = 0; i < n; i++)
    x[i] = placed(x[i], half_at(scale, i), half_at(min, i));
}

INLINE void place_run(int n, float scale, float min, float *x) {
  for (int i = 0; i < n; i++) x[i] = placed(x[i], scale, min);
}

/* Turns a whole row of codes, out[0..width), into numbers. */
INLINE void place(int width, int run, bytes *scale, bytes *min, float *out) {
  if (run == 1) {
    place_each(width, scale, min, out);
    return;
  }
  for (int g = 0, i = 0; i < width; g++, i += run)
    place_run(width - i < run ? width - i : run, half_at(scale, g),
              half_at(min, g), out + i);
}

static void minmax(int bits, int width, int run, const void *codes,
                   const void *scale, const void *min, float *out) {
  if (bits == 2)
    read_codes(2, width, codes, out);
  else
    read_codes(bits, width, codes, out);
  place(width, run, scale, min, out);
}

#endif

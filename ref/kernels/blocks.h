/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels block_logits and block_weigh (ref/kernels/kernels.h) over rows of
 * the format block as they are stored. An element is decoded in a register, by
 * the operations of kv_block_read, and used there. Chains are those of logits.h
 * and weigh.h. Part of ref/kernels/kernels.c, after coded.h.
 *
 * Codes of 4 bits are looked up in a table of the 16 numbers that they mean. A
 * key's byte of q8_0 is kept as code + 128, so that code_of can convert it
 * within its word. fma(code + 128, scale, -128 * scale) rounds code * scale
 * once. Only the sign of a zero may differ, which no logit shows.
 */
#ifndef KV_REF_KERNELS_BLOCKS_H
#define KV_REF_KERNELS_BLOCKS_H

/* What is known at compile time: bits and log as in kv_blocked; is `whole` not
 * 1? X(rows, bits, log, whole), in the order of block_place. */
typedef struct block_kind {
  int bits, log, whole;
} block_kind;
#define BLOCK_KINDS(X, r)                                                      \
  X(r, 8, 5, 0) X(r, 4, 5, 0) X(r, 4, 4, 0) X(r, 4, 4, 1)
enum { BLOCK_PLACES = 4 };

INLINE int block_place(const kv_block_rows *c) {
  return c->bits == 8 ? 0 : c->log == 5 ? 1 : 2 + (c->whole != 1);
}

/* A row in memory. */
typedef struct block_shape {
  const kv_block_rows *c;
  int width, count, each, codes; /* elements; blocks; bytes of a scale; offset
                                    of the codes */
  size_t size;                   /* bytes */
  vtable number;
  vec whole;
} block_shape;

INLINE block_shape block_shape_of(const kv_block_rows *c, int width) {
  const int count = width >> c->log, each = c->scale == KV_BLOCK_F16 ? 2 : 1;
  const int codes = count * each;
  return (block_shape){.c = c,
                       .width = width,
                       .count = count,
                       .each = each,
                       .codes = codes,
                       .size = (size_t)(codes + width * c->bits / 8),
                       .number = v_table(c->number),
                       .whole = v_one(c->whole)};
}

/* Scales from their bytes; e8m0 reads 0 as 2^-127. */
INLINE vec byte_scales(const kv_block_rows *c, vint byte) {
  vint up = vi_shl23(byte);
  if (c->scale == KV_BLOCK_E4M3)
    return v_mul(v_float(vi_down(up, 3)), v_one(0x1p120f));
  return v_max(v_float(up), v_one(0x1p-127f));
}

/* x^ of what codes mean. */
INLINE vec block_read(block_kind t, const block_shape *of, vec x, vec scale) {
  x = v_mul(x, scale);
  return t.whole ? v_mul(x, of->whole) : x;
}

/* --- keys: lanes are rows ------------------------------------------------- */

typedef struct block_keys {
  block_shape of;
  int columns; /* keys in the scratch */
  const float *q;
  size_t ldq;
  float scale, *s;
  size_t lds;
  uint32_t *word;    /* [word][KV_PACK] codes */
  float *range;      /* [block][KV_PACK] scales */
  const char *ahead; /* the next scratch's rows: the line to fetch next */
  int lines;         /* to fetch with each block of the first queries */
} block_keys;

/* Contiguous rows of the next scratch are fetched while this one is used. */
INLINE void block_ahead(int vectors, const void *const *key, int known,
                        block_keys *k) {
  const size_t all = KV_PACK * k->of.size;
  const char *last = row_ahead(key, known, 2 * KV_PACK - 1);
  k->ahead = row_ahead(key, known, KV_PACK);
  k->lines = 0;
  if ((uintptr_t)last - (uintptr_t)k->ahead <= 2 * all)
    k->lines = (int)all / 64 * vectors * LANES / (k->of.count * KV_PACK) + 1;
}

/* Scales of LANES keys into column `to` of the ranges. */
INLINE void pack_scales(const block_shape *of, bytes *const *row, float *to) {
  const int each = of->each;
  for (int g = 0; g < of->count; g += 4 / each) {
    vint word = vi_words(row, (size_t)(g * each));
    for (int i = 0; i < 4 / each; i++, to += KV_PACK) {
      v_store(to, each == 2 ? v_of_half(word)
                            : byte_scales(of->c, vi_and(word, vi_one(255))));
      word = vi_down(word, 8 * each);
    }
  }
}

INLINE void pack_blocks(const block_keys *k, const void *const *key) {
  const vint flip = vi_one(k->of.c->bits == 8 ? 0x80808080u : 0);
  for (int j = 0; j < k->columns; j += LANES) {
    bytes *row[LANES];
    for (int i = 0; i < LANES; i++)
      row[i] = key[j + i < k->columns ? j + i : k->columns - 1];
    pack_scales(&k->of, row, k->range + j);
    uint32_t *to = k->word + j;
    for (size_t at = (size_t)k->of.codes; at < k->of.size; at += 16) {
      vint word[COLUMNS_32];
      pack_words(row, at, word);
      UNROLL for (int i = 0; i < COLUMNS_32; i++, to += KV_PACK)
          vi_store(to, vi_xor(word[i], flip));
    }
  }
}

/* Products of queries from q on with one block of the keys. */
INLINE void block_products(block_kind t, int rows, int vectors,
                           const block_keys *k, const uint32_t *word,
                           const float *range, const float *q, vec a[][4]) {
  vec scale[4], least[4];
  UNROLL for (int v = 0; v < vectors; v++) {
    scale[v] = v_load(range + v * LANES);
    least[v] = v_mul(scale[v], v_one(-128));
  }
  UNROLL for (int i = 0; i < 1 << t.log; i++, q++)
      UNROLL for (int v = 0; v < vectors; v++) {
    const int size = (1 << t.log) * t.bits / 8, b = i % size % 4 * 8;
    vint code = vi_load(word + i % size / 4 * KV_PACK + v * LANES);
    vec key;
    if (t.bits == 8)
      key = v_fma(code_of(8, b, code), v_mul(scale[v], v_one(code_unit(8, b))),
                  least[v]);
    else
      key = block_read(t, &k->of,
                       v_entry(k->of.number, vi_down(code, b + i / size * 4)),
                       scale[v]);
    UNROLL for (int r = 0; r < rows; r++) a[r][v] =
        v_fma(v_one(q[(size_t)r * k->ldq]), key, a[r][v]);
  }
}

INLINE void block_tile(block_kind t, int rows, int vectors, block_keys *k,
                       int i, int lane) {
  const float *q = k->q + (size_t)i * k->ldq, *range = k->range + lane;
  const uint32_t *word = k->word + lane;
  const vec by = v_one(k->scale), zero = v_one(0.0f);
  vec a[4][4];
#define EACH_SUM                                                               \
  UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++)
  EACH_SUM a[r][v] = zero;
  for (int g = 0; g < k->of.count; g++, range += KV_PACK, q += 1 << t.log) {
    for (int l = 0; i == 0 && l < k->lines; l++, k->ahead += 64)
      fetch_near(k->ahead);
    block_products(t, rows, vectors, k, word, range, q, a);
    word += (t.bits << t.log) / 32 * KV_PACK;
  }
  EACH_SUM {
    const int at = lane + v * LANES, left = k->columns - at;
    if (left > 0)
      v_store_part(k->s + (size_t)(i + r) * k->lds + at,
                   left < LANES ? left : LANES,
                   v_add(v_mul(a[r][v], by), zero));
  }
#undef EACH_SUM
}

/* --- values: lanes are columns -------------------------------------------- */

typedef struct block_values {
  block_shape of;
  int n;
  const float *p;
  size_t ldp;
  const void *const *value;
  float *a;
} block_values;

/* Elements x.. of a block, whose codes are there. */
INLINE vec block_part(block_kind t, const block_shape *of, bytes *codes, int x,
                      vec scale) {
  const int half = 1 << (t.log - 1);
  if (t.bits == 8) return v_mul(v_from_int(vi_of_signed(codes + x)), scale);
  vint code = (int)LANES > half
                  ? vi_nibbles(codes)
                  : vi_down(vi_of_bytes(codes + x % half), x < half ? 0 : 4);
  return block_read(t, of, v_entry(of->number, code), scale);
}

/* Sums of `rows` heads in the columns of `blocks` blocks from block g on. */
INLINE void block_band(block_kind t, int rows, int blocks,
                       const block_values *w, int g) {
  const int parts = (1 << t.log) / LANES, each = (t.bits << t.log) / 8;
  const int n = w->n, from = w->of.codes + g * each, count = blocks * parts;
  const size_t ldp = w->ldp, width = (size_t)w->of.width;
  const block_shape of = w->of;
  const float *p = w->p;
  float *to = w->a + (g << t.log), scale[LANES];
  code_ahead ahead =
      code_ahead_of(w->value, n, of.size, of.count / blocks, g / blocks);
  vec a[4][8];
#define EACH_PART                                                              \
  UNROLL for (int r = 0; r < rows; r++) UNROLL for (int x = 0; x < count; x++)
  EACH_PART a[r][x] = v_load(to + (size_t)r * width + x * LANES);
  for (int i = 0; i < n; i++, p++) {
    bytes *row = w->value[i];
    fetch_ahead(&ahead);
    v_store(scale, of.c->scale == KV_BLOCK_F16
                       ? v_from_f16(row + 2 * g)
                       : byte_scales(of.c, vi_of_bytes(row + g)));
    UNROLL for (int x = 0; x < count; x++) {
      vec number = block_part(t, &of, row + from + x / parts * each,
                              x % parts * LANES, v_one(scale[x / parts]));
      UNROLL for (int r = 0; r < rows; r++) a[r][x] =
          v_fma(v_one(p[(size_t)r * ldp]), number, a[r][x]);
    }
  }
  EACH_PART v_store(to + (size_t)r * width + x * LANES, a[r][x]);
#undef EACH_PART
}

INLINE void block_bands(block_kind t, int rows, const block_values *w) {
  const int most = (rows <= 2 ? CODE_COLUMNS_FEW : 4) * LANES >> t.log;
  int g = 0;
  for (; most > 1 && g + most <= w->of.count; g += most)
    block_band(t, rows, most, w, g);
  for (; g < w->of.count; g++) block_band(t, rows, 1, w, g);
}

/* --- kernels -------------------------------------------------------------- */

#define DEFINE_BLOCKS(r, b, log, whole)                                        \
  static void block_keys_##r##b##log##whole(block_keys *k, int i) {            \
    enum { V = r == 1 ? CODE_VECTORS_ONE : CODE_VECTORS };                     \
    for (int lane = 0; lane < k->columns; lane += V * LANES)                   \
      block_tile((block_kind){b, log, whole}, r, V, k, i, lane);               \
  }                                                                            \
  static void block_values_##r##b##log##whole(const block_values *w) {         \
    block_bands((block_kind){b, log, whole}, r, w);                            \
  }
BLOCK_KINDS(DEFINE_BLOCKS, 1)
BLOCK_KINDS(DEFINE_BLOCKS, 2)
BLOCK_KINDS(DEFINE_BLOCKS, 3)
BLOCK_KINDS(DEFINE_BLOCKS, 4)

#define LIST_BLOCKS(r, b, log, whole)                                          \
  {block_keys_##r##b##log##whole, block_values_##r##b##log##whole},
static const struct {
  void (*keys)(block_keys *k, int i);
  void (*values)(const block_values *w);
} block_tiles[4][BLOCK_PLACES] = {{BLOCK_KINDS(LIST_BLOCKS, 1)},
                                  {BLOCK_KINDS(LIST_BLOCKS, 2)},
                                  {BLOCK_KINDS(LIST_BLOCKS, 3)},
                                  {BLOCK_KINDS(LIST_BLOCKS, 4)}};

static void block_logits(int m, int n, int d, const float *q, size_t ldq,
                         const void *const *key, const kv_block_rows *c,
                         float scale, float *s, size_t lds, float *pack) {
  block_keys k = {.of = block_shape_of(c, d),
                  .q = q,
                  .ldq = ldq,
                  .scale = scale,
                  .s = s,
                  .lds = lds,
                  .word = (uint32_t *)(void *)pack,
                  .range = pack + (size_t)(d * c->bits / 32) * KV_PACK};
  for (int j = 0; j < n; j += KV_PACK, k.s += KV_PACK) {
    k.columns = n - j < KV_PACK ? n - j : KV_PACK;
    block_ahead(m == 1 ? CODE_VECTORS_ONE : CODE_VECTORS, key + j, n - j, &k);
    pack_blocks(&k, key + j);
    for (int i = 0, rows; i < m; i += rows) {
      rows = m - i < 4 ? m - i : 4;
      block_tiles[rows - 1][block_place(c)].keys(&k, i);
    }
  }
}

static void block_weigh(int m, int n, int d_v, const float *p, size_t ldp,
                        const void *const *value, const kv_block_rows *c,
                        float *a) {
  block_values w = {block_shape_of(c, d_v), n, p, ldp, value, a};
  for (int i = 0, rows; i < m && n > 0; i += rows) {
    rows = m - i < CODE_HEADS ? m - i : CODE_HEADS;
    block_tiles[rows - 1][block_place(c)].values(&w);
    w.p += (size_t)rows * ldp;
    w.a += (size_t)rows * (size_t)d_v;
  }
}

#endif

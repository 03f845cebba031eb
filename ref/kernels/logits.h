/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel logits (ref/kernels/kernels.h). Every (query, key) pair is one
 * chain of fma over x ascending from +0 (arithmetic 1), so lanes are keys and
 * nothing is ever split along x. Part of ref/kernels/kernels.c.
 *
 * KV_PACK keys at a time are transposed into the scratch, [x][KV_PACK], and
 * tiles of queries x vectors run over x with their chains in registers. 16-bit
 * keys stay 16 bits wide in the scratch while the queries are few (decoding:
 * the transpose is then the cost, and is bound by the shuffle port); with many
 * queries each element is widened once instead.
 */
#ifndef KV_REF_KERNELS_LOGITS_H
#define KV_REF_KERNELS_LOGITS_H

enum {
  WIDEN_FROM = 9,  /* queries from which widening first pays (measured) */
  FETCH_EVERY = 64 /* elements x packed for each row fetched: fetches must be
                      few, because they queue with the loads (measured) */
};

/* A call, or a part of one (similar.h). q, ldq, scale, s and lds are the
 * kernel's arguments; s advances with the keys. */
typedef struct problem {
  int d, columns; /* head dimension; valid keys in the scratch */
  const float *q;
  size_t ldq;
  const void *pack; /* the scratch, [d][KV_PACK] */
  float scale;
  float *s;
  size_t lds;
  /* The rows of the next scratch are fetched while this one is filled (16-bit
   * keys only) and used, so memory is never idle for long. */
  const void *const *key;   /* rows of the keys in the scratch */
  int known;                /* rows that key[] names, later keys included */
  int fetch_from, fetch_to; /* the next scratch's rows that this tile fetches */
  int fetched;              /* how many of these were fetched while packing */
  size_t row_bytes;
} problem;

/* Fetches row j of the next scratch into the cache. */
INLINE void fetch_row(const problem *p, int j) {
  const char *row = row_ahead(p->key, p->known, KV_PACK + j);
  for (size_t x = 0; x < p->row_bytes; x += 64) fetch(row + x);
}

/* The tile of `rows` queries from i on and `vectors` registers of keys from
 * lane `at` on: writes their logits. type: of the scratch. */
INLINE void logit_tile(kv_dtype type, int rows, int vectors, const problem *p,
                       int i, int at) {
  vec a[LOGIT_ROWS][4];
  const size_t width = kv_dtype_size(type), ldq = p->ldq;
  const float *q = p->q + (size_t)i * ldq;
  bytes *b = (bytes *)p->pack + (size_t)at * width;
  const int d = p->d;
  UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++)
      a[r][v] = v_one(0.0f);
  int j = p->fetch_from;
  const int rest = p->fetch_to - p->fetch_from;
  const int each = rest > 0 && d / rest > 0 ? d / rest : 1;
  for (int x = 0, stop; x < d;) {
    if (j < p->fetch_to) {
      fetch_row(p, j++);
      stop = x + each < d ? x + each : d;
    } else {
      stop = d;
    }
    for (; x < stop; x++, b += KV_PACK * width) {
      vec key[4];
      UNROLL for (int v = 0; v < vectors; v++) key[v] =
          vec_of(type, b, (size_t)(v * LANES));
      UNROLL for (int r = 0; r < rows; r++) {
        vec one = v_one(q[(size_t)r * ldq + (size_t)x]);
        UNROLL for (int v = 0; v < vectors; v++) a[r][v] =
            v_fma(one, key[v], a[r][v]);
      }
    }
  }
  const vec by = v_one(p->scale), zero = v_one(0.0f);
  UNROLL for (int r = 0; r < rows; r++) {
    float *s = p->s + (size_t)(i + r) * p->lds + at;
    UNROLL for (int v = 0; v < vectors; v++) {
      vec out = v_add(v_mul(a[r][v], by), zero);
      int left = p->columns - at - v * LANES;
      if (left >= LANES) {
        v_store(s + v * LANES, out);
      } else if (left > 0) {
        v_store_part(s + v * LANES, left, out);
      }
    }
  }
}

/* logit_TYPE_ROWS_all: a tile as wide as the registers hold; .._one: of a
 * single register of keys, for the last ones. */
typedef void tile_fn(const problem *p, int i, int at);
#define DEFINE_LOGIT(t, r, v)                                                  \
  static void logit_##t##_##r##_all(const problem *p, int i, int at) {         \
    logit_tile(t, r, v, p, i, at);                                             \
  }                                                                            \
  static void logit_##t##_##r##_one(const problem *p, int i, int at) {         \
    logit_tile(t, r, 1, p, i, at);                                             \
  }
LOGIT_TILES(DEFINE_LOGIT, KV_F16)
LOGIT_TILES(DEFINE_LOGIT, KV_BF16)
LOGIT_TILES(DEFINE_LOGIT, KV_F32)

typedef struct logit_shape {
  tile_fn *all, *one;
  int vectors; /* registers of keys of `all` */
} logit_shape;
#define LIST_LOGIT(t, r, v) {logit_##t##_##r##_all, logit_##t##_##r##_one, v},
static const logit_shape logit_shapes[3][LOGIT_ROWS] = {
    [KV_F16] = {LOGIT_TILES(LIST_LOGIT, KV_F16)},
    [KV_BF16] = {LOGIT_TILES(LIST_LOGIT, KV_BF16)},
    [KV_F32] = {LOGIT_TILES(LIST_LOGIT, KV_F32)},
};

/* The logits of m queries and the keys in the scratch, of `type` there. */
static void run_tiles(kv_dtype type, int m, problem *p) {
  for (int i = 0; i < m;) {
    int rows = m - i < LOGIT_ROWS ? m - i : LOGIT_ROWS;
    const logit_shape *shape = &logit_shapes[type][rows - 1];
    int at = 0, step = shape->vectors * LANES;
    int left = KV_PACK - p->fetched;
    p->fetch_from = p->fetched + i * left / m;
    p->fetch_to = p->fetched + (i + rows) * left / m;
    for (; p->columns - at > step - LANES; at += step) shape->all(p, i, at);
    for (; at < p->columns; at += LANES) shape->one(p, i, at);
    i += rows;
  }
}

/* Packs LANES rows of 16-bit elements unchanged. Not inline, so that the rows'
 * addresses are read from memory each time; spilled ones would use the ports
 * that transpose. */
__attribute__((noinline)) static void pack_rows_16(bytes *const *row, int d,
                                                   uint16_t *out, problem *p) {
  int x = 0;
  for (; x + COLUMNS_16 <= d; x += COLUMNS_16) {
    if (x % FETCH_EVERY == 0 && p->fetched < KV_PACK)
      fetch_row(p, p->fetched++);
    pack_16(row, 2 * (size_t)x, out + (size_t)x * KV_PACK);
  }
  for (; x < d; x++)
    for (int i = 0; i < LANES; i++)
      memcpy(out + (size_t)x * KV_PACK + i, row[i] + 2 * x, 2);
}

/* LANES rows of floats. */
static void pack_rows_32(bytes *const *row, int d, float *out) {
  int x = 0;
  for (; x + COLUMNS_32 <= d; x += COLUMNS_32) {
    vint word[COLUMNS_32];
    pack_words(row, 4 * (size_t)x, word);
    UNROLL for (int c = 0; c < COLUMNS_32; c++)
        v_store(out + (size_t)(x + c) * KV_PACK, v_float(word[c]));
  }
  for (; x < d; x++)
    for (int i = 0; i < LANES; i++)
      memcpy(out + (size_t)x * KV_PACK + i, row[i] + 4 * x, 4);
}

/* bfloat16 rows to floats. A pair of columns moves as one word; either half of
 * the word, with zeros below it, is an element. */
static void pack_rows_bf16(bytes *const *row, int d, float *out) {
  const int pairs = 2 * COLUMNS_32;
  int x = 0;
  for (; x + pairs <= d; x += pairs) {
    vint word[COLUMNS_32];
    pack_words(row, 2 * (size_t)x, word);
    UNROLL for (int c = 0; c < COLUMNS_32; c++) {
      float *to = out + (size_t)(x + 2 * c) * KV_PACK;
      v_store(to, v_float(vi_shl16(word[c])));
      v_store(to + KV_PACK, v_float(vi_high16(word[c])));
    }
  }
  for (; x < d; x++)
    for (int i = 0; i < LANES; i++)
      out[(size_t)x * KV_PACK + (size_t)i] = one_of(KV_BF16, row[i], (size_t)x);
}

/* fp16 rows to floats, 16 columns at a time. */
static void pack_rows_f16(bytes *const *row, int d, float *out) {
  uint16_t block[COLUMNS_16 * KV_PACK];
  int x = 0;
  for (; x + COLUMNS_16 <= d; x += COLUMNS_16) {
    pack_16(row, 2 * (size_t)x, block);
    for (int c = 0; c < COLUMNS_16; c++)
      v_store(out + (size_t)(x + c) * KV_PACK,
              vec_of(KV_F16, (bytes *)block, (size_t)c * KV_PACK));
  }
  for (; x < d; x++)
    for (int i = 0; i < LANES; i++)
      out[(size_t)x * KV_PACK + (size_t)i] = one_of(KV_F16, row[i], (size_t)x);
}

/* Packs keys 0..n-1, n <= KV_PACK, into the scratch, as floats if wide; the
 * last one is repeated to fill its vector. */
static void pack_keys(int n, int d, const void *const *key, kv_dtype type,
                      int wide, float *pack, problem *p) {
  for (int j = 0; j < n; j += LANES) {
    bytes *row[LANES];
    for (int i = 0; i < LANES; i++) row[i] = key[j + i < n ? j + i : n - 1];
    if (type == KV_F32) {
      pack_rows_32(row, d, pack + j);
    } else if (!wide) {
      pack_rows_16(row, d, (uint16_t *)(void *)pack + j, p);
    } else if (type == KV_F16) {
      pack_rows_f16(row, d, pack + j);
    } else {
      pack_rows_bf16(row, d, pack + j);
    }
  }
}

static void logits(int m, int n, int d, const float *q, size_t ldq,
                   const void *const *key, kv_dtype type, float scale, float *s,
                   size_t lds, float *pack) {
  const int wide = m >= WIDEN_FROM;
  problem p = {.d = d,
               .q = q,
               .ldq = ldq,
               .pack = pack,
               .scale = scale,
               .s = s,
               .lds = lds,
               .row_bytes = (size_t)d * kv_dtype_size(type)};
  for (int j = 0; j < n; j += KV_PACK, p.s += KV_PACK) {
    p.columns = n - j < KV_PACK ? n - j : KV_PACK;
    p.key = key + j;
    p.known = n - j;
    p.fetched = 0;
    pack_keys(p.columns, d, key + j, type, wide, pack, &p);
    run_tiles(wide ? KV_F32 : type, m, &p);
  }
}

/* The kernel box_bound: u[t] is Quest's bound (arithmetic 5) of a query q[d]
 * over box t of n, which has the smallest (lo) and the largest (hi) of every
 * element x of a page's keys. ref/kernels/kernels.h defines the tiles of 16
 * boxes and the size of u. Vector lanes are boxes, each one chain of rounded
 * additions over x.
 *
 * v_max may return either zero for a -0 and a +0: the sum starts from +0, can
 * never become -0, and adding either zero to it gives the same bits. */

enum { BOXES = 16, PARTS = BOXES / LANES }; /* of a tile: boxes, vectors */

/* u of all boxes of `tiles` neighbouring tiles, 1 or 4, at once: their chains
 * hide each other's latency. lo, hi: where the first tile begins; type: of
 * their elements. */
INLINE void bound_tiles(kv_dtype type, int tiles, int d, const float *q,
                        bytes *lo, bytes *hi, float *u) {
  const size_t stride = (size_t)d * BOXES;
  vec a[4 * PARTS];
  UNROLL for (int v = 0; v < tiles * PARTS; v++) a[v] = v_one(0.0f);
  for (int x = 0; x < d; x++) {
    const vec one = v_one(q[x]);
    UNROLL for (int v = 0; v < tiles * PARTS; v++) {
      size_t at = (size_t)(v / PARTS) * stride + (size_t)x * BOXES +
                  (size_t)(v % PARTS * LANES);
      vec low = v_mul(one, vec_of(type, lo, at));
      vec high = v_mul(one, vec_of(type, hi, at));
      a[v] = v_add(a[v], v_max(low, high));
    }
  }
  UNROLL for (int v = 0; v < tiles * PARTS; v++) v_store(u + v * LANES, a[v]);
}

/* The kernel, of elements of a type; n is rounded up to whole tiles. */
INLINE void bound_as(kv_dtype type, int n, int d, const float *q, bytes *lo,
                     bytes *hi, float *u) {
  const size_t step = (size_t)d * BOXES * kv_dtype_size(type);
  int t = 0;
  for (; t + 3 * BOXES < n; t += 4 * BOXES, lo += 4 * step, hi += 4 * step)
    bound_tiles(type, 4, d, q, lo, hi, u + t);
  for (; t < n; t += BOXES, lo += step, hi += step)
    bound_tiles(type, 1, d, q, lo, hi, u + t);
}

/* kv_kernels.box_bound. */
static void box_bound(int n, int d, const float *q, const void *lo,
                      const void *hi, kv_dtype type, float *u) {
  switch (type) {
  case KV_F16:
    bound_as(KV_F16, n, d, q, lo, hi, u);
    break;
  case KV_BF16:
    bound_as(KV_BF16, n, d, q, lo, hi, u);
    break;
  case KV_F32:
    bound_as(KV_F32, n, d, q, lo, hi, u);
    break;
  }
}

#endif

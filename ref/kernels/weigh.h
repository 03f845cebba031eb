/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel weigh (ref/kernels/kernels.h), the weighted sum of value rows:
 * lanes of a register are columns (elements of a row), each column one chain of
 * fma over the rows in order (arithmetic 3), held in registers for the whole
 * call. Wide head dimensions go in bands of columns, many query heads in tiles
 * of at most WEIGH_ROWS. Part of ref/kernels/kernels.c.
 */
#ifndef KV_REF_KERNELS_WEIGH_H
#define KV_REF_KERNELS_WEIGH_H

/* How many rows ahead are fetched; each band fetches its own columns. If four
 * heads share a row, arithmetic leaves the fill buffers idle often enough to
 * fetch it into the first-level cache; otherwise it goes to the second
 * (measured: 4 and 8 % of decode attention). */
enum { NEAR = 20, FAR = 96 };

/* Fetches `size` bytes from byte `from` on of the row NEAR or FAR rows after
 * row j of value[n]; rows: heads that share it. */
INLINE void fetch_band(int rows, const void *const *value, int n, int j,
                       size_t from, size_t size) {
  const char *ahead = row_ahead(value, n, j + (rows == 4 ? NEAR : FAR)) + from;
  for (size_t at = 0; at < size; at += 64) {
    if (rows == 4)
      __builtin_prefetch(ahead + at);
    else
      fetch(ahead + at);
  }
}

/* A call; p and a advance with the heads. */
typedef struct weighing {
  int n, d_v;     /* rows; columns */
  const float *p; /* of the tile's first head */
  size_t ldp;
  const void *const *value; /* [n] rows */
  float *a;                 /* [heads][d_v], of the tile's first head */
} weighing;

/* Sums of `rows` heads in `vectors` registers of columns from column x on.
 * ahead: fetch rows early. */
INLINE void weigh_tile(kv_dtype type, int rows, int vectors, int ahead,
                       const weighing *w, size_t x) {
  vec a[WEIGH_ROWS][8];
  const size_t d_v = (size_t)w->d_v, width = kv_dtype_size(type);
  const size_t ldp = w->ldp;
  const int n = w->n;
  const void *const *value = w->value;
  const float *p = w->p;
  UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++)
      a[r][v] = v_load(w->a + (size_t)r * d_v + x + (size_t)(v * LANES));
  for (int j = 0; j < n; j++, p++) {
    bytes *row = value[j];
    if (ahead)
      fetch_band(rows, value, n, j, x * width,
                 (size_t)(vectors * LANES) * width);
    vec b[8];
    UNROLL for (int v = 0; v < vectors; v++) b[v] =
        vec_of(type, row, x + (size_t)(v * LANES));
    UNROLL for (int r = 0; r < rows; r++) {
      vec one = v_one(p[(size_t)r * ldp]);
      UNROLL for (int v = 0; v < vectors; v++) a[r][v] =
          v_fma(one, b[v], a[r][v]);
    }
  }
  UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++)
      v_store(w->a + (size_t)r * d_v + x + (size_t)(v * LANES), a[r][v]);
}

/* The columns from x on, too few for a vector, one chain at a time. */
static void weigh_rest(kv_dtype type, int rows, const weighing *w, size_t x) {
  for (; x < (size_t)w->d_v; x++)
    for (int r = 0; r < rows; r++) {
      float *a = w->a + (size_t)r * (size_t)w->d_v + x;
      for (int j = 0; j < w->n; j++)
        *a = kv_fma(w->p[(size_t)r * w->ldp + (size_t)j],
                    one_of(type, w->value[j], x), *a);
    }
}

/* One function for each number of heads: bands of `most` vectors, then of half
 * as many, then of one, then single columns. */
typedef void weigh_fn(const weighing *w);
INLINE void weigh_bands(kv_dtype type, int rows, int most, int ahead,
                        const weighing *w) {
  const size_t d_v = (size_t)w->d_v, lanes = LANES;
  size_t x = 0;
  for (; x + (size_t)most * lanes <= d_v; x += (size_t)most * lanes)
    weigh_tile(type, rows, most, ahead, w, x);
  for (; x + (size_t)(most / 2) * lanes <= d_v; x += (size_t)(most / 2) * lanes)
    weigh_tile(type, rows, most / 2, ahead, w, x);
  for (; x + lanes <= d_v; x += lanes) weigh_tile(type, rows, 1, ahead, w, x);
  weigh_rest(type, rows, w, x);
}

#define DEFINE_WEIGH(t, r, v)                                                  \
  static void weigh_##t##_##r##_first(const weighing *w) {                     \
    weigh_bands(t, r, v, 1, w);                                                \
  }                                                                            \
  static void weigh_##t##_##r##_next(const weighing *w) {                      \
    weigh_bands(t, r, v, 0, w);                                                \
  }
WEIGH_TILES(DEFINE_WEIGH, KV_F16)
WEIGH_TILES(DEFINE_WEIGH, KV_BF16)
WEIGH_TILES(DEFINE_WEIGH, KV_F32)

typedef struct weigh_shape {
  weigh_fn *first,
      *next; /* for the first heads of a call, and for later ones */
} weigh_shape;
#define LIST_WEIGH(t, r, v) {weigh_##t##_##r##_first, weigh_##t##_##r##_next},
static const weigh_shape weigh_shapes[3][WEIGH_ROWS] = {
    [KV_F16] = {WEIGH_TILES(LIST_WEIGH, KV_F16)},
    [KV_BF16] = {WEIGH_TILES(LIST_WEIGH, KV_BF16)},
    [KV_F32] = {WEIGH_TILES(LIST_WEIGH, KV_F32)},
};

/* Heads of the next tile: the fewest tiles that WEIGH_ROWS allows, nearly
 * equal, because small tiles have too few chains to keep the units busy. */
static int weigh_rows(int left) {
  int tiles = (left + WEIGH_ROWS - 1) / WEIGH_ROWS;
  return (left + tiles - 1) / tiles;
}

static void weigh(int m, int n, int d_v, const float *p, size_t ldp,
                  const void *const *value, kv_dtype type, float *a) {
  weighing w = {n, d_v, p, ldp, value, a};
  for (int i = 0; i < m && n > 0;) {
    int rows = weigh_rows(m - i);
    const weigh_shape *shape = &weigh_shapes[type][rows - 1];
    (i == 0 ? shape->first : shape->next)(&w);
    w.p += (size_t)rows * ldp;
    w.a += (size_t)rows * (size_t)d_v;
    i += rows;
  }
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel code_weigh (ref/kernels/kernels.h): weighted sums over rows of
 * codes as they are stored, beside ref/kernels/coded.h. Lanes of a register are
 * columns, elements of a row: LANES bytes of a row are as many columns of each
 * plane. Part of ref/kernels/kernels.c.
 */
#ifndef KV_REF_KERNELS_CODED_VALUES_H
#define KV_REF_KERNELS_CODED_VALUES_H

#include "ref/kernels/coded.h"

/* A call of the kernel; p and a go on with the heads. */
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

/* Rows soon to come are fetched while these are used, every band its part of
 * them; behind the last one those of the next call, which mostly lie there. One
 * band of whole rows is where memory is waited for: its rows come into the
 * first cache. Several bands use rows again and wait less: theirs come into the
 * second one, so near that a processor which fetches streams by itself is not
 * disturbed (measured: AMD EPYC; either way for both costs up to a seventh of
 * the time). A line that two rows share is asked for once. */
enum { ROWS_AHEAD = 12, ROWS_NEAR = 24 }; /* rows: of several bands, of one */
typedef struct code_ahead {
  const char *row;   /* to be fetched next */
  size_t step, size; /* bytes from row to row; bytes of a row */
  int bands, wait;   /* bands of the call; rows used before the next fetch */
} code_ahead;

INLINE code_ahead code_ahead_of(const code_values *w, int size, int j) {
  const int bands = (w->of.plane + size - 1) / size;
  const int first =
      (bands == 1 ? (int)ROWS_NEAR : (int)ROWS_AHEAD) + j / size * w->n / bands;
  const char *row = row_ahead(w->value, w->n, first);
  const char *next = row_ahead(w->value, w->n, first + 1);
  return (code_ahead){row, (uintptr_t)next - (uintptr_t)row,
                      (size_t)(4 * w->of.runs + w->of.plane), bands, 0};
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

/* The sums of `rows` heads in the columns of `loads` registers of bytes from
 * byte j on. runs: 1 where all these columns are of one run, else the planes,
 * each of which is within one. */
INLINE void code_band(int bits, int rows, int loads, int runs,
                      const code_values *w, int j) {
  const int planes = 8 / bits, plane = w->of.plane, n = w->n;
  const size_t d_v = (size_t)w->of.width, ldp = w->ldp;
  const size_t from = (size_t)(4 * w->of.runs + j);
  const void *const *value = w->value;
  const float *p = w->p;
  run_place at[4];
  vec a[4][8];
  code_ahead ahead = code_ahead_of(w, loads * LANES, j);
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

/* Bands of `loads` registers of bytes from byte j on; returns what is behind
 * them. */
INLINE int some_bands(int bits, int rows, int loads, int runs,
                      const code_values *w, int j) {
  const int step = loads * LANES;
  for (; j + step <= w->of.plane; j += step)
    code_band(bits, rows, loads, runs, w, j);
  return j;
}

/* Bands as wide as the registers hold, then of one register of bytes: where a
 * row is one run, where a plane of it is within one, and where it is not. */
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

#endif

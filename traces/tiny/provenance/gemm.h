/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of matrices in bfloat16 with float32 sums, by AVX512_BF16, for one
 * thread: the arithmetic of train.c, which trained the model of traces/tiny. An
 * operand is read as 32-bit words of two bfloat16 values that lie next to each
 * other along the dimension that is summed over ("a pair").  All matrices are
 * row-major; m, n and k are multiples of 8, 32 and 32, and nothing is checked.
 *
 * The right operand is packed into panels of 32 columns: [pair][32] words.
 * The left one is read in tiles of 8 rows, either where it lies (row-major,
 * pairs along a row) or as words [pair][8 or more] (pairs along columns).
 */
#ifndef GEMM_H
#define GEMM_H
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint16_t b16;      /* a bfloat16 */
typedef uint32_t pair;     /* two, the first in the low half */
enum { STORE, ADD, HALF }; /* what becomes of a tile: float, +=, bfloat16 */

/* Zeroed memory, aligned to 64 bytes, never freed; aborts without memory. */
static inline void *room(size_t bytes) {
  void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (!p) abort();
  memset(p, 0, bytes);
  return p;
}
/* 16 floats to bfloat16, to nearest even, and back; loaded and stored. */
static inline __m256i to_b16(__m512 x) {
  return (__m256i)_mm512_cvtneps_pbh(x);
}
static inline __m512 of_b16(__m256i x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}
static inline __m512 ldb(const b16 *p) {
  return of_b16(_mm256_loadu_si256((const __m256i *)p));
}
static inline void stb(b16 *p, __m512 x) {
  _mm256_storeu_si256((__m256i *)p, to_b16(x));
}
/* rows a and b of bfloat16 -> 16 words (a low, b high) */
static inline __m512i braid(const b16 *a, const b16 *b) {
  __m512i lo = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)a));
  __m512i hi = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)b));
  return _mm512_or_si512(lo, _mm512_slli_epi32(hi, 16));
}

/* acc[8][2] = 8 rows x 32 columns, summed over n pairs.  Pair i of row r is
 * a[i * step + r * row]; b is one panel. */
static inline __attribute__((always_inline)) void tile(long n, const pair *a,
                                                       long step, long row,
                                                       const pair *b,
                                                       __m512 acc[8][2]) {
#pragma GCC unroll 8
  for (int r = 0; r < 8; r++) acc[r][0] = acc[r][1] = _mm512_setzero_ps();
  for (long i = 0; i < n; i++, b += 32) {
    __m512bh b0 = (__m512bh)_mm512_loadu_si512(b);
    __m512bh b1 = (__m512bh)_mm512_loadu_si512(b + 16);
#pragma GCC unroll 8
    for (int r = 0; r < 8; r++) {
      __m512bh x = (__m512bh)_mm512_set1_epi32((int)a[i * step + r * row]);
      acc[r][0] = _mm512_dpbf16_ps(acc[r][0], x, b0);
      acc[r][1] = _mm512_dpbf16_ps(acc[r][1], x, b1);
    }
  }
}
/* Writes acc to 8 rows of c, ldc elements apart: mode STORE and ADD to floats,
 * HALF to bfloat16. */
static inline __attribute__((always_inline)) void put(__m512 acc[8][2], void *c,
                                                      long ldc, int mode) {
#pragma GCC unroll 8
  for (int r = 0; r < 8; r++)
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
      if (mode == HALF) {
        stb((b16 *)c + r * ldc + 16 * h, acc[r][h]);
        continue;
      }
      float *p = (float *)c + r * ldc + 16 * h;
      _mm512_storeu_ps(p, mode == ADD
                              ? _mm512_add_ps(_mm512_loadu_ps(p), acc[r][h])
                              : acc[r][h]);
    }
}
/* C[m][n] from panels b; a row-major with pairs along its rows of k values.
 * BAND rows of a stay in the first cache while all panels pass. */
static inline __attribute__((always_inline)) void
rows_in(const b16 *a, const pair *b, long m, long n, long k, char *c, long ldc,
        int mode) {
  enum { BAND = 64 };
  __m512 acc[8][2];
  for (long i0 = 0; i0 < m; i0 += BAND)
    for (long j = 0; j < n; j += 32)
      for (long i = i0; i < i0 + BAND && i < m; i += 8) {
        tile(k / 2, (const pair *)a + i * (k / 2), 1, k / 2, b + j * (k / 2),
             acc);
        put(acc, c + (i * ldc + j) * (mode == HALF ? 2 : 4), ldc, mode);
      }
}
/* The same for any c, with a mode known to the compiler. */
static void rows_by(const b16 *a, const pair *b, long m, long n, long k,
                    void *c, long ldc, int mode) {
  if (mode == HALF)
    rows_in(a, b, m, n, k, c, ldc, HALF);
  else if (mode == ADD)
    rows_in(a, b, m, n, k, c, ldc, ADD);
  else
    rows_in(a, b, m, n, k, c, ldc, STORE);
}
/* out = panels of w^T, w [n][k]: the sum runs along w's rows */
static void pack_t(const b16 *w, long n, long k, pair *out) {
  for (long j = 0; j < n; j++)
    for (long i = 0; i < k / 2; i++)
      out[(j / 32) * 32 * (k / 2) + i * 32 + j % 32] =
          ((const pair *)w)[j * (k / 2) + i];
}
/* out = panels of x [k][n], rows ld apart: the sum runs down x's columns */
static void pack_n(const b16 *x, long k, long n, long ld, pair *out) {
  for (long i = 0; i < k / 2; i++)
    for (long j = 0; j < n; j += 16)
      _mm512_storeu_si512(out + (j / 32) * 32 * (k / 2) + i * 32 + j % 32,
                          braid(x + 2 * i * ld + j, x + (2 * i + 1) * ld + j));
}
/* g[n][k] += y^T x, y [m][n], x [m][k]; m a multiple of 512, n and k at most
 * 1024; scratch is kept for the thread's life */
static void outer_add(const b16 *y, const b16 *x, long m, long n, long k,
                      float *g) {
  enum { CHUNK = 512, P = CHUNK / 2 };
  static _Thread_local pair *a, *b;
  if (!a) a = room(P * 1024 * 4), b = room(P * 1024 * 4);
  __m512 acc[8][2];
  for (long c = 0; c < m; c += CHUNK) {
    for (long i = 0; i < P; i++)
      for (long j = 0; j < n; j += 16) {
        __m512i w = braid(y + (c + 2 * i) * n + j, y + (c + 2 * i + 1) * n + j);
        _mm256_storeu_si256((__m256i *)(a + (j / 8) * 8 * P + i * 8),
                            _mm512_castsi512_si256(w));
        _mm256_storeu_si256((__m256i *)(a + (j / 8 + 1) * 8 * P + i * 8),
                            _mm512_extracti64x4_epi64(w, 1));
      }
    pack_n(x + c * k, CHUNK, k, k, b);
    for (long j = 0; j < k; j += 32)
      for (long i = 0; i < n; i += 8) {
        tile(P, a + i * P, 8, 1, b + j * P, acc);
        put(acc, g + i * k + j, k, ADD);
      }
  }
}
static inline __m512 exp16(__m512 x) { /* e^x, |error| about 1e-6 relative */
  x = _mm512_min_ps(_mm512_max_ps(x, _mm512_set1_ps(-86.f)),
                    _mm512_set1_ps(80.f));
  __m512 t = _mm512_mul_ps(x, _mm512_set1_ps(1.44269504f));
  __m512 n = _mm512_roundscale_ps(t, 8);
  __m512 f = _mm512_sub_ps(t, n), p = _mm512_set1_ps(1.5403530e-4f);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.3333558e-3f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(9.6181291e-3f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(5.5504109e-2f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.4022651e-1f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.9314718e-1f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.f));
  return _mm512_scalef_ps(p, n);
}
#endif

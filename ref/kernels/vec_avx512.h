/* SPDX-License-Identifier: Apache-2.0
 *
 * AVX-512 (F, DQ, BW, VL): 16 lanes. Names: ref/kernels/vec.h.
 */
#ifndef KV_REF_KERNELS_VEC_AVX512_H
#define KV_REF_KERNELS_VEC_AVX512_H

#include "ref/kernels/vec_x86.h"

#define SET_NAME "avx512"
#define SET_TABLE kv_kernels_avx512
enum { LANES = 16 };

/* 24 accumulators, 4 key vectors and a broadcast fit 32 registers. */
#define LOGIT_ROWS 6
#define LOGIT_TILES(X, t)                                                      \
  X(t, 1, 4) X(t, 2, 4) X(t, 3, 4) X(t, 4, 4) X(t, 5, 4) X(t, 6, 4)
#define WEIGH_ROWS 6
#define WEIGH_TILES(X, t)                                                      \
  X(t, 1, 8) X(t, 2, 8) X(t, 3, 8) X(t, 4, 4) X(t, 5, 4) X(t, 6, 4)
#define CODE_VECTORS_ONE 4
#define CODE_VECTORS 2
#define CODE_HEADS 4
#define CODE_COLUMNS_FEW 8

typedef __m512 vec;
typedef __m512i vint;

INLINE vec v_one(float x) { return _mm512_set1_ps(x); }
INLINE vec v_load(const float *p) { return _mm512_loadu_ps(p); }
INLINE void v_store(float *p, vec v) { _mm512_storeu_ps(p, v); }
/* The first n lanes. */
INLINE __mmask16 first(int n) { return (__mmask16)((1u << n) - 1u); }
INLINE vec v_load_part(const float *p, int n, float fill) {
  return _mm512_mask_loadu_ps(v_one(fill), first(n), p);
}
INLINE void v_store_part(float *p, int n, vec v) {
  _mm512_mask_storeu_ps(p, first(n), v);
}

/* Packed in a register: a packing store is slow on some machines. */
INLINE int v_pick(vec v, float least, int at, float *value, int32_t *place) {
  __mmask16 in = _mm512_cmp_ps_mask(v, v_one(least), _CMP_GE_OQ);
  __m512i up =
      _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __m512i places = _mm512_add_epi32(_mm512_set1_epi32(at), up);
  v_store(value, _mm512_maskz_compress_ps(in, v));
  _mm512_storeu_si512(place, _mm512_maskz_compress_epi32(in, places));
  return __builtin_popcount(in);
}

INLINE vec v_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
INLINE vec v_mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
INLINE vec v_div(vec a, vec b) { return _mm512_div_ps(a, b); }
INLINE vec v_add(vec a, vec b) { return _mm512_add_ps(a, b); }
INLINE vec v_sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
INLINE vec v_max(vec a, vec b) { return _mm512_max_ps(a, b); }
INLINE float v_top(vec a) { return _mm512_reduce_max_ps(a); }

INLINE vec v_from_f16(const void *p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
INLINE vec v_half(bytes *p) {
  short h;
  memcpy(&h, p, 2);
  return _mm512_cvtph_ps(_mm256_set1_epi16(h));
}
INLINE vec v_of_half(__m512i a) {
  return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a));
}
INLINE vec v_from_bf16(const void *p) {
  __m256i h = _mm256_loadu_si256((const __m256i *)p);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

INLINE vint v_bits(vec a) { return _mm512_castps_si512(a); }
INLINE vec v_float(vint a) { return _mm512_castsi512_ps(a); }
INLINE vint vi_one(uint32_t u) { return _mm512_set1_epi32((int)u); }
INLINE vint vi_add(vint a, vint b) { return _mm512_add_epi32(a, b); }
INLINE vint vi_sub(vint a, vint b) { return _mm512_sub_epi32(a, b); }
INLINE vint vi_shl23(vint a) { return _mm512_slli_epi32(a, 23); }
INLINE vint vi_sar23(vint a) { return _mm512_srai_epi32(a, 23); }
INLINE vint vi_shl16(vint a) { return _mm512_slli_epi32(a, 16); }
INLINE vint vi_high16(vint a) {
  return _mm512_and_si512(a, vi_one(0xffff0000u));
}
INLINE vint vi_load(const uint32_t *p) { return _mm512_loadu_si512(p); }
INLINE void vi_store(uint32_t *p, vint a) { _mm512_storeu_si512(p, a); }
INLINE vint vi_keep(vint a) {
  __asm__("" : "+v"(a));
  return a;
}
INLINE vint vi_of_bytes(bytes *p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}
INLINE vint vi_of_signed(bytes *p) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p));
}
INLINE vint vi_nibbles(bytes *p) {
  const __m512i by =
      _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4);
  int64_t eight;
  memcpy(&eight, p, 8);
  return _mm512_srlv_epi32(_mm512_cvtepu8_epi32(_mm_set1_epi64x(eight)), by);
}
INLINE vint vi_xor(vint a, vint b) { return _mm512_xor_si512(a, b); }
INLINE vint vi_words(bytes *const *row, size_t at) {
  __m128i a[4];
  UNROLL for (int i = 0; i < 4; i++) a[i] = four_words(row + 4 * i, at);
  __m512i z = _mm512_inserti32x4(_mm512_castsi128_si512(a[0]), a[1], 1);
  z = _mm512_inserti32x4(z, a[2], 2);
  return _mm512_inserti32x4(z, a[3], 3);
}
INLINE vint vi_down(vint a, int by) {
  return _mm512_srli_epi32(a, (unsigned)by);
}
INLINE vint vi_and(vint a, vint b) { return _mm512_and_si512(a, b); }
INLINE vec v_from_int(vint a) { return _mm512_cvtepi32_ps(a); }

enum { TABLE_BITS = 4 };
INLINE vec v_look(vec table, vint a) { return _mm512_permutexvar_ps(a, table); }
typedef vec vtable;
INLINE vtable v_table(const float *p) { return v_load(p); }
INLINE vec v_entry(vtable t, vint a) { return v_look(t, a); }
INLINE vint v_nearest(vec x) { return _mm512_cvtps_epi32(x); }
INLINE uint64_t v_above(vec x, float least) {
  return _mm512_cmp_ps_mask(x, v_one(least), _CMP_GT_OQ);
}
INLINE vec v_keep_sum(vec x, float least, vint a, vint b) {
  __mmask16 keep = _mm512_cmp_ps_mask(x, v_one(least), _CMP_GE_OQ);
  return v_float(_mm512_maskz_add_epi32(keep, a, b));
}

INLINE vec v_spoil(vec x, vec z) { return v_fma(x, v_one(0.0f), z); }
INLINE int v_is_zero(vec z) {
  return _mm512_cmp_ps_mask(z, v_one(0.0f), _CMP_EQ_OQ) == 0xffff;
}
/* By halves: the compiler's own reduction adds int, which must not overflow. */
INLINE int32_t vi_total(vint a) {
  __m256i h = _mm256_add_epi32(_mm512_castsi512_si256(a),
                               _mm512_extracti64x4_epi64(a, 1));
  __m128i t =
      _mm_add_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
  t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(t, _mm_shuffle_epi32(t, 0xb1)));
}
/* vi_widen_add of eight lanes. */
INLINE void vi_wide_add(__m256i high, int bits, __m256i low, int64_t *acc) {
  __m512i h = _mm512_slli_epi64(_mm512_cvtepi32_epi64(high), (unsigned)bits);
  __m512i sum = _mm512_add_epi64(h, _mm512_cvtepi32_epi64(low));
  _mm512_storeu_si512(acc, _mm512_add_epi64(_mm512_loadu_si512(acc), sum));
}
INLINE void vi_widen_add(vint high, int bits, vint low, int64_t *acc) {
  vi_wide_add(_mm512_castsi512_si256(high), bits, _mm512_castsi512_si256(low),
              acc);
  vi_wide_add(_mm512_extracti64x4_epi64(high, 1), bits,
              _mm512_extracti64x4_epi64(low, 1), acc + 8);
}

/* The nearest integers of the lower and the upper eight lanes. */
INLINE __m512i fix_low(vec p) {
  return _mm512_cvtps_epi64(_mm512_castps512_ps256(p));
}
INLINE __m512i fix_high(vec p) {
  return _mm512_cvtps_epi64(_mm512_extractf32x8_ps(p, 1));
}
INLINE void v_fix_add(vec p, int64_t *acc) {
  p = _mm512_mul_ps(p, v_one(0x1p40f));
  __m512i a = _mm512_loadu_si512(acc), b = _mm512_loadu_si512(acc + 8);
  _mm512_storeu_si512(acc, _mm512_add_epi64(a, fix_low(p)));
  _mm512_storeu_si512(acc + 8, _mm512_add_epi64(b, fix_high(p)));
}

/* 16 bytes at `at` of four rows, one row in each quarter. */
INLINE __m512i quarters(bytes *a, bytes *b, bytes *c, bytes *d) {
  __m512i z = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)a));
  z = _mm512_inserti32x4(z, _mm_loadu_si128((const __m128i *)b), 1);
  z = _mm512_inserti32x4(z, _mm_loadu_si128((const __m128i *)c), 2);
  return _mm512_inserti32x4(z, _mm_loadu_si128((const __m128i *)d), 3);
}

/* 32 bytes at `at` of two rows, one row in each half. */
INLINE __m512i halves(bytes *a, bytes *b) {
  __m512i z = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)a));
  return _mm512_inserti64x4(z, _mm256_loadu_si256((const __m256i *)b), 1);
}

/* out[x * KV_PACK + lane] = element x of row[lane], which begins at byte `at`,
 * x < 16. Quarters of the registers: columns 0-7 and 8-15 of rows 0-7, the same
 * of rows 8-15. Pairs of rows are interleaved by 2 bytes, pairs of pairs by 4;
 * the last step takes column x low and x + 8 high. The inserts load from memory
 * so that only these 24 steps need the shuffle port. */
INLINE void pack_16(bytes *const *row, size_t at, uint16_t *out) {
  const __m512i even = _mm512_setr_epi64(0, 8, 4, 12, 2, 10, 6, 14);
  const __m512i odd = _mm512_setr_epi64(1, 9, 5, 13, 3, 11, 7, 15);
  __m512i a[8], b[8];
  UNROLL for (int i = 0; i < 8; i++) a[i] =
      halves(row[i] + at, row[i + 8] + at);
  UNROLL for (int i = 0; i < 8; i += 2) {
    b[i] = _mm512_unpacklo_epi16(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_epi16(a[i], a[i + 1]);
  }
  UNROLL for (int i = 0; i < 8; i += 4) UNROLL for (int j = 0; j < 2; j++) {
    a[i + 2 * j] = _mm512_unpacklo_epi32(b[i + j], b[i + j + 2]);
    a[i + 2 * j + 1] = _mm512_unpackhi_epi32(b[i + j], b[i + j + 2]);
  }
  UNROLL for (int i = 0; i < 4; i++) {
    b[2 * i] = _mm512_permutex2var_epi64(a[i], even, a[i + 4]);
    b[2 * i + 1] = _mm512_permutex2var_epi64(a[i], odd, a[i + 4]);
  }
  UNROLL for (int i = 0; i < 8; i++) {
    __m256i *low = (__m256i *)(void *)(out + i * KV_PACK);
    __m256i *high = (__m256i *)(void *)(out + (i + 8) * KV_PACK);
    _mm256_storeu_si256(low, _mm512_castsi512_si256(b[i]));
    _mm256_storeu_si256(high, _mm512_extracti64x4_epi64(b[i], 1));
  }
}

/* Transposes the words of four registers within each quarter: word x of each
 * goes to register x, in the order of the registers. */
INLINE void turn_words(vint *a) {
  __m512i b[4];
  UNROLL for (int i = 0; i < 2; i++) {
    b[i] = _mm512_unpacklo_epi32(a[2 * i], a[2 * i + 1]);
    b[i + 2] = _mm512_unpackhi_epi32(a[2 * i], a[2 * i + 1]);
  }
  UNROLL for (int i = 0; i < 2; i++) {
    a[2 * i] = _mm512_unpacklo_epi64(b[2 * i], b[2 * i + 1]);
    a[2 * i + 1] = _mm512_unpackhi_epi64(b[2 * i], b[2 * i + 1]);
  }
}

/* 32 bytes at `at` of rows i and i + 4 into register i. The rows are read in
 * order, or the processor does not detect a stream (measured: AMD EPYC, a tenth
 * of the time of 8-bit keys). */
INLINE void load_halves(bytes *const *row, size_t at, vint *a) {
  UNROLL for (int i = 0; i < 4; i++) {
    const void *low = row[i] + at;
    a[i] = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)low));
  }
  UNROLL for (int i = 0; i < 4; i++) {
    const void *high = row[i + 4] + at;
    a[i] =
        _mm512_inserti64x4(a[i], _mm256_loadu_si256((const __m256i *)high), 1);
  }
}

/* word[x] = the lanes' 4 bytes at column x, x < 4: quarter L of register r is
 * row 4L + r. */
INLINE void pack_words(bytes *const *row, size_t at, vint *word) {
  UNROLL for (int i = 0; i < 4; i++) word[i] =
      quarters(row[i] + at, row[i + 4] + at, row[i + 8] + at, row[i + 12] + at);
  turn_words(word);
}

/* One of PACK_STEPS steps to word[x] = the lanes' 4 bytes at column x, x <
 * COLUMNS_MANY. Other work may be done between steps. Unlike pack_words it
 * loads halves of registers, rows i and i + 4 of the first 8 rows and of the
 * last, so each half has 4 words and 4 more of one row. The last step joins the
 * words of one column: 4 shuffles and inserts a word; pack_words takes 5. */
enum { COLUMNS_MANY = 8, CODE_CARRIES = 1 };
INLINE void pack_step(int step, bytes *const *row, size_t at, vint *word) {
  if (step == 0) load_halves(row, at, word);
  if (step == 1) turn_words(word);
  if (step == 2) {
    load_halves(row + 8, at, word + 4);
    turn_words(word + 4);
  }
  if (step < 3) return;
  UNROLL for (int x = 0; x < 4; x++) {
    __m512i a = word[x], b = word[x + 4];
    word[x] = _mm512_shuffle_i64x2(a, b, 0x88);
    word[x + 4] = _mm512_shuffle_i64x2(a, b, 0xdd);
  }
}

#include "ref/kernels/vec_run.h"

#endif

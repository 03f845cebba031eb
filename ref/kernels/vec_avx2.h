/* SPDX-License-Identifier: Apache-2.0
 *
 * AVX2, FMA and F16C: 8 lanes. Names: ref/kernels/vec.h.
 */
#ifndef KV_REF_KERNELS_VEC_AVX2_H
#define KV_REF_KERNELS_VEC_AVX2_H

#include "ref/kernels/vec_x86.h"

#define SET_NAME "avx2"
#define SET_TABLE kv_kernels_avx2
enum { LANES = 8 };

/* 12 accumulators, 2 key vectors and a broadcast fit 16 registers. */
#define LOGIT_ROWS 6
#define LOGIT_TILES(X, t)                                                      \
  X(t, 1, 4) X(t, 2, 4) X(t, 3, 2) X(t, 4, 2) X(t, 5, 2) X(t, 6, 2)
#define WEIGH_ROWS 6
#define WEIGH_TILES(X, t)                                                      \
  X(t, 1, 8) X(t, 2, 4) X(t, 3, 4) X(t, 4, 2) X(t, 5, 2) X(t, 6, 2)
#define CODE_VECTORS_ONE 4
#define CODE_VECTORS 2
#define CODE_HEADS 2
#define CODE_COLUMNS_FEW 4

typedef __m256 vec;
typedef __m256i vint;

INLINE vec v_one(float x) { return _mm256_set1_ps(x); }
INLINE vec v_load(const float *p) { return _mm256_loadu_ps(p); }
INLINE void v_store(float *p, vec v) { _mm256_storeu_ps(p, v); }
/* All ones in the first n lanes. */
INLINE __m256i first(int n) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane);
}
INLINE vec v_load_part(const float *p, int n, float fill) {
  __m256i mask = first(n);
  return _mm256_blendv_ps(v_one(fill), _mm256_maskload_ps(p, mask),
                          _mm256_castsi256_ps(mask));
}
INLINE int v_pick(vec v, float least, int at, float *value, int32_t *place) {
  float lane[LANES];
  v_store(lane, v);
  return pick_each(LANES, lane, least, at, value, place);
}
INLINE void v_store_part(float *p, int n, vec v) {
  _mm256_maskstore_ps(p, first(n), v);
}

INLINE vec v_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
INLINE vec v_mul(vec a, vec b) { return _mm256_mul_ps(a, b); }
INLINE vec v_div(vec a, vec b) { return _mm256_div_ps(a, b); }
INLINE vec v_add(vec a, vec b) { return _mm256_add_ps(a, b); }
INLINE vec v_sub(vec a, vec b) { return _mm256_sub_ps(a, b); }
INLINE vec v_max(vec a, vec b) { return _mm256_max_ps(a, b); }
INLINE float v_top(vec a) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

INLINE vec v_from_f16(const void *p) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
INLINE vec v_half(bytes *p) {
  short h;
  memcpy(&h, p, 2);
  return _mm256_cvtph_ps(_mm_set1_epi16(h));
}
INLINE vec v_of_half(__m256i a) {
  __m256i low = _mm256_and_si256(a, _mm256_set1_epi32(0xffff));
  low = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
  return _mm256_cvtph_ps(_mm256_castsi256_si128(low));
}
INLINE vec v_from_bf16(const void *p) {
  __m256i h = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(h, 16));
}

INLINE vint v_bits(vec a) { return _mm256_castps_si256(a); }
INLINE vec v_float(vint a) { return _mm256_castsi256_ps(a); }
INLINE vint vi_one(uint32_t u) { return _mm256_set1_epi32((int)u); }
INLINE vint vi_add(vint a, vint b) { return _mm256_add_epi32(a, b); }
INLINE vint vi_sub(vint a, vint b) { return _mm256_sub_epi32(a, b); }
INLINE vint vi_shl23(vint a) { return _mm256_slli_epi32(a, 23); }
INLINE vint vi_sar23(vint a) { return _mm256_srai_epi32(a, 23); }
INLINE vint vi_shl16(vint a) { return _mm256_slli_epi32(a, 16); }
INLINE vint vi_high16(vint a) {
  return _mm256_and_si256(a, vi_one(0xffff0000u));
}
INLINE vint vi_load(const uint32_t *p) {
  return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
INLINE void vi_store(uint32_t *p, vint a) {
  _mm256_storeu_si256((__m256i *)(void *)p, a);
}
INLINE vint vi_keep(vint a) { return a; }
INLINE vint vi_of_bytes(bytes *p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}
INLINE vint vi_of_signed(bytes *p) {
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p));
}
INLINE vint vi_nibbles(bytes *p) { return vi_of_bytes(p); } /* too narrow */
INLINE vint vi_xor(vint a, vint b) { return _mm256_xor_si256(a, b); }
INLINE vint vi_words(bytes *const *row, size_t at) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(four_words(row, at)),
                                 four_words(row + 4, at), 1);
}
INLINE vint vi_down(vint a, int by) { return _mm256_srli_epi32(a, by); }
INLINE vint vi_and(vint a, vint b) { return _mm256_and_si256(a, b); }
INLINE vec v_from_int(vint a) { return _mm256_cvtepi32_ps(a); }
enum { TABLE_BITS = 2 };
INLINE vec v_look(vec table, vint a) {
  return _mm256_permutevar8x32_ps(table, a);
}
typedef struct vtable {
  vec low, high;
} vtable;
INLINE vtable v_table(const float *p) {
  return (vtable){v_load(p), v_load(p + LANES)};
}
INLINE vec v_entry(vtable t, vint a) { /* bit 3 to the sign, which chooses */
  return _mm256_blendv_ps(v_look(t.low, a), v_look(t.high, a),
                          v_float(_mm256_slli_epi32(a, 28)));
}
INLINE vint v_nearest(vec x) { return _mm256_cvtps_epi32(x); }
INLINE uint64_t v_above(vec x, float least) {
  vec above = _mm256_cmp_ps(x, v_one(least), _CMP_GT_OQ);
  return (uint64_t)(uint32_t)_mm256_movemask_ps(above);
}
INLINE vec v_keep_sum(vec x, float least, vint a, vint b) {
  return _mm256_and_ps(_mm256_cmp_ps(x, v_one(least), _CMP_GE_OQ),
                       v_float(vi_add(a, b)));
}

INLINE vec v_spoil(vec x, vec z) { return v_fma(x, v_one(0.0f), z); }
INLINE int v_is_zero(vec z) {
  return _mm256_movemask_ps(_mm256_cmp_ps(z, v_one(0.0f), _CMP_EQ_OQ)) == 0xff;
}
INLINE int32_t vi_total(vint a) {
  __m128i t =
      _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(t, _mm_shuffle_epi32(t, 0xb1)));
}
/* vi_widen_add of four lanes. */
INLINE void vi_wide_add(__m128i high, int bits, __m128i low, int64_t *acc) {
  __m256i *to = (__m256i *)(void *)acc;
  __m256i h = _mm256_slli_epi64(_mm256_cvtepi32_epi64(high), bits);
  __m256i sum = _mm256_add_epi64(h, _mm256_cvtepi32_epi64(low));
  _mm256_storeu_si256(to, _mm256_add_epi64(_mm256_loadu_si256(to), sum));
}
INLINE void vi_widen_add(vint high, int bits, vint low, int64_t *acc) {
  vi_wide_add(_mm256_castsi256_si128(high), bits, _mm256_castsi256_si128(low),
              acc);
  vi_wide_add(_mm256_extracti128_si256(high, 1), bits,
              _mm256_extracti128_si256(low, 1), acc + 4);
}

/* The integer nearest y, ties to even, |y| < 2^51: the low bits of the double y
 * + 1.5 * 2^52. */
INLINE __m256i nearest(__m256d y) {
  const __m256d magic = _mm256_set1_pd(0x1.8p52);
  __m256i t = _mm256_castpd_si256(_mm256_add_pd(y, magic));
  return _mm256_sub_epi64(t, _mm256_castpd_si256(magic));
}
/* RN(p * 2^40) of 4 lanes, |p| <= 2^22: y = 2^32 h + low, both exact; 2^32 h
 * is even, so rounding low rounds y. */
INLINE __m256i fix(__m128 p) {
  const __m256d magic = _mm256_set1_pd(0x1.8p52);
  __m256d y = _mm256_mul_pd(_mm256_cvtps_pd(p), _mm256_set1_pd(0x1p40));
  __m256d h = _mm256_mul_pd(y, _mm256_set1_pd(0x1p-32));
  h = _mm256_sub_pd(_mm256_add_pd(h, magic), magic);
  __m256d low = _mm256_sub_pd(y, _mm256_mul_pd(h, _mm256_set1_pd(0x1p32)));
  return _mm256_add_epi64(_mm256_slli_epi64(nearest(h), 32), nearest(low));
}
/* The same of the lower and the upper four of eight lanes. */
INLINE __m256i fix_low(vec p) { return fix(_mm256_castps256_ps128(p)); }
INLINE __m256i fix_high(vec p) { return fix(_mm256_extractf128_ps(p, 1)); }
INLINE void v_fix_add(vec p, int64_t *acc) {
  __m256i *low = (__m256i *)(void *)acc, *high = low + 1;
  __m256i a = _mm256_loadu_si256(low), b = _mm256_loadu_si256(high);
  _mm256_storeu_si256(low, _mm256_add_epi64(a, fix_low(p)));
  _mm256_storeu_si256(high, _mm256_add_epi64(b, fix_high(p)));
}

/* out[x * KV_PACK + lane] = element x of row[lane], which begins at byte `at`,
 * x < 16: an 8 x 8 transpose in each half, columns x low and x + 8 high. */
INLINE void pack_16(bytes *const *row, size_t at, uint16_t *out) {
  __m256i a[8], b[8];
  UNROLL for (int i = 0; i < 8; i++) {
    a[i] = _mm256_loadu_si256((const __m256i *)(const void *)(row[i] + at));
  }
  UNROLL for (int i = 0; i < 4; i++) {
    b[i] = _mm256_unpacklo_epi16(a[i], a[i + 4]);
    b[i + 4] = _mm256_unpackhi_epi16(a[i], a[i + 4]);
  }
  UNROLL for (int i = 0; i < 2; i++) {
    a[i] = _mm256_unpacklo_epi16(b[i], b[i + 2]);
    a[i + 2] = _mm256_unpackhi_epi16(b[i], b[i + 2]);
    a[i + 4] = _mm256_unpacklo_epi16(b[i + 4], b[i + 6]);
    a[i + 6] = _mm256_unpackhi_epi16(b[i + 4], b[i + 6]);
  }
  UNROLL for (int i = 0; i < 4; i++) {
    b[2 * i] = _mm256_unpacklo_epi16(a[2 * i], a[2 * i + 1]);
    b[2 * i + 1] = _mm256_unpackhi_epi16(a[2 * i], a[2 * i + 1]);
  }
  UNROLL for (int i = 0; i < 8; i++) {
    __m128i *low = (__m128i *)(void *)(out + i * KV_PACK);
    __m128i *high = (__m128i *)(void *)(out + (i + 8) * KV_PACK);
    _mm_storeu_si128(low, _mm256_castsi256_si128(b[i]));
    _mm_storeu_si128(high, _mm256_extracti128_si256(b[i], 1));
  }
}

/* word[x] = the lanes' 4 bytes at column x, x < 4: half H of register r is row
 * 4H + r. */
INLINE void pack_words(bytes *const *row, size_t at, vint *a) {
  __m256i b[4];
  UNROLL for (int i = 0; i < 4; i++) {
    const void *low = row[i] + at, *high = row[i + 4] + at;
    a[i] = _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)low)),
        _mm_loadu_si128((const __m128i *)high), 1);
  }
  UNROLL for (int i = 0; i < 2; i++) {
    b[i] = _mm256_unpacklo_epi32(a[2 * i], a[2 * i + 1]);
    b[i + 2] = _mm256_unpackhi_epi32(a[2 * i], a[2 * i + 1]);
  }
  UNROLL for (int i = 0; i < 2; i++) {
    a[2 * i] = _mm256_unpacklo_epi64(b[2 * i], b[2 * i + 1]);
    a[2 * i + 1] = _mm256_unpackhi_epi64(b[2 * i], b[2 * i + 1]);
  }
}

/* More words would save no step, and no register is free for them. */
enum { COLUMNS_MANY = COLUMNS_32, CODE_CARRIES = 0 };
INLINE void pack_step(int step, bytes *const *row, size_t at, vint *word) {
  if (step == 0) pack_words(row, at, word);
}

#include "ref/kernels/vec_run.h"

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Any machine: 4 lanes of the compilers' vector extension, and a few intrinsics
 * of SSE2, if available. Names: ref/kernels/vec.h.
 *
 * Without hardware FMA v_fma goes through binary64. The product of two binary32
 * is exact there. The sum is rounded to odd (its error, by Knuth's two-sum,
 * decides the last bit), and 53 bits rounded to odd round once more to 24 bits
 * as the exact sum would (Boldo and Melquiond 2008), subnormals and infinities
 * included.
 */
#ifndef KV_REF_KERNELS_VEC_PORTABLE_H
#define KV_REF_KERNELS_VEC_PORTABLE_H

#include "ref/kernels/vec.h"

#define SET_NAME "portable"
#define SET_TABLE kv_kernels_portable
enum { LANES = 4 };

#define LOGIT_ROWS 4
#define LOGIT_TILES(X, t) X(t, 1, 4) X(t, 2, 2) X(t, 3, 2) X(t, 4, 2)
#define WEIGH_ROWS 4
#define WEIGH_TILES(X, t) X(t, 1, 4) X(t, 2, 2) X(t, 3, 2) X(t, 4, 2)
#define CODE_VECTORS_ONE 2
#define CODE_VECTORS 1
#define CODE_HEADS 2
#define CODE_COLUMNS_FEW 4

typedef float vec __attribute__((vector_size(16)));
typedef int32_t vint __attribute__((vector_size(16)));
typedef uint32_t vbits __attribute__((vector_size(16)));
typedef double dual __attribute__((vector_size(16)));
typedef int64_t mask __attribute__((vector_size(16)));

INLINE vec v_one(float x) { return (vec){x, x, x, x}; }
INLINE vec v_load(const float *p) {
  vec v;
  memcpy(&v, p, sizeof v);
  return v;
}
INLINE void v_store(float *p, vec v) { memcpy(p, &v, sizeof v); }
INLINE vec v_load_part(const float *p, int n, float fill) {
  vec v = v_one(fill);
  for (int i = 0; i < n; i++) v[i] = p[i];
  return v;
}
INLINE int v_pick(vec v, float least, int at, float *value, int32_t *place) {
  float lane[LANES];
  v_store(lane, v);
  return pick_each(LANES, lane, least, at, value, place);
}
INLINE void v_store_part(float *p, int n, vec v) {
  for (int i = 0; i < n; i++) p[i] = v[i];
}

#ifdef __FP_FAST_FMAF /* the target's baseline has the instruction */
INLINE vec v_fma(vec a, vec b, vec c) {
  UNROLL for (int i = 0; i < LANES; i++) c[i] = kv_fma(a[i], b[i], c[i]);
  return c;
}
#else
#  ifdef __SSE2__ /* gcc 12 makes scalar code of the conversions below */
#    include <emmintrin.h>
INLINE dual widen_low(vec a) { return (dual)_mm_cvtps_pd((__m128)a); }
INLINE dual widen_high(vec a) {
  return (dual)_mm_cvtps_pd(_mm_movehl_ps((__m128)a, (__m128)a));
}
INLINE vec narrow(dual low, dual high) {
  return (vec)_mm_movelh_ps(_mm_cvtpd_ps((__m128d)low),
                            _mm_cvtpd_ps((__m128d)high));
}
#  else
INLINE dual widen_low(vec a) { return (dual){a[0], a[1]}; }
INLINE dual widen_high(vec a) { return (dual){a[2], a[3]}; }
INLINE vec narrow(dual low, dual high) {
  return (vec){(float)low[0], (float)low[1], (float)high[0], (float)high[1]};
}
#  endif
/* p + c rounded to odd. The sign of error * s shows on which side of s the sum
 * is; a product of zero or NaN (s is exact, or infinite) leaves s as it is. */
INLINE dual add_to_odd(dual p, dual c) {
  dual s = p + c, t = s - p;
  dual error = (p - (s - t)) + (c - t), side = error * s;
  mask inside = side<0, outside = side> 0;
  return (dual)(((mask)s + inside) | ((inside | outside) & 1));
}
INLINE vec v_fma(vec a, vec b, vec c) {
  dual low = add_to_odd(widen_low(a) * widen_low(b), widen_low(c));
  dual high = add_to_odd(widen_high(a) * widen_high(b), widen_high(c));
  return narrow(low, high);
}
#endif
INLINE vec v_mul(vec a, vec b) { return a * b; }
INLINE vec v_div(vec a, vec b) { return a / b; }
INLINE vec v_add(vec a, vec b) { return a + b; }
INLINE vec v_sub(vec a, vec b) { return a - b; }

INLINE vint v_bits(vec a) { return (vint)a; }
INLINE vec v_float(vint a) { return (vec)a; }
INLINE vint vi_one(uint32_t u) {
  int32_t i = (int32_t)u;
  return (vint){i, i, i, i};
}
/* Overflow wraps, as in the instructions. For NaN the bits are unspecified. */
INLINE vint vi_add(vint a, vint b) { return (vint)((vbits)a + (vbits)b); }
INLINE vint vi_sub(vint a, vint b) { return (vint)((vbits)a - (vbits)b); }
INLINE vint vi_shl23(vint a) { return (vint)((vbits)a << 23); }
INLINE vint vi_sar23(vint a) { return a >> 23; }
INLINE vint vi_shl16(vint a) { return (vint)((vbits)a << 16); }
INLINE vint vi_high16(vint a) { return a & vi_one(0xffff0000u); }
INLINE vint vi_load(const uint32_t *p) {
  vint v;
  memcpy(&v, p, sizeof v);
  return v;
}
INLINE void vi_store(uint32_t *p, vint a) { memcpy(p, &a, sizeof a); }
INLINE vint vi_keep(vint a) { return a; }
INLINE vint vi_of_bytes(bytes *p) { return (vint){p[0], p[1], p[2], p[3]}; }
INLINE vint vi_of_signed(bytes *p) {
  return (vint){(int8_t)p[0], (int8_t)p[1], (int8_t)p[2], (int8_t)p[3]};
}
INLINE vint vi_nibbles(bytes *p) { return vi_of_bytes(p); } /* too narrow */
INLINE vint vi_xor(vint a, vint b) { return a ^ b; }
INLINE vint vi_words(bytes *const *row, size_t at) {
  vint a;
  for (int i = 0; i < LANES; i++) {
    int32_t word;
    memcpy(&word, row[i] + at, 4);
    a[i] = word;
  }
  return a;
}
INLINE vint vi_down(vint a, int by) { return (vint)((vbits)a >> by); }
INLINE vint vi_and(vint a, vint b) { return a & b; }
INLINE vec v_from_int(vint a) { return __builtin_convertvector(a, vec); }
enum { TABLE_BITS = 2 };
INLINE vec v_look(vec table, vint a) {
  return (vec){table[a[0] & 3], table[a[1] & 3], table[a[2] & 3],
               table[a[3] & 3]};
}
typedef struct vtable {
  float of[16];
} vtable;
INLINE vtable v_table(const float *p) {
  vtable t;
  memcpy(&t, p, sizeof t);
  return t;
}
INLINE vec v_entry(vtable t, vint a) {
  return (vec){t.of[a[0] & 15], t.of[a[1] & 15], t.of[a[2] & 15],
               t.of[a[3] & 15]};
}
#ifdef __SSE2__
#  include <emmintrin.h>
INLINE vint v_nearest(vec x) { return (vint)_mm_cvtps_epi32((__m128)x); }
#else
INLINE vint v_nearest(vec x) {
  vint out;
  for (int i = 0; i < LANES; i++) out[i] = (int32_t)kv_rint(x[i]);
  return out;
}
#endif
INLINE uint64_t v_above(vec x, float least) {
  uint64_t bits = 0;
  for (int i = 0; i < LANES; i++) bits |= (uint64_t)(x[i] > least) << i;
  return bits;
}
/* In each lane a where yes is -1, b where it is 0. */
INLINE vint choose(vint yes, vint a, vint b) { return (a & yes) | (b & ~yes); }
INLINE vec v_keep_sum(vec x, float least, vint a, vint b) {
  return (vec)(vi_add(a, b) & (vint)(x >= v_one(least)));
}
INLINE vec v_max(vec a, vec b) {
  return (vec)choose((vint)(a > b), (vint)a, (vint)b);
}
INLINE float v_top(vec a) {
  float x = a[0] > a[1] ? a[0] : a[1], y = a[2] > a[3] ? a[2] : a[3];
  return x > y ? x : y;
}

INLINE vec v_spoil(vec x, vec z) { return z + x * v_one(0.0f); }
INLINE int v_is_zero(vec z) {
  vint same = (vint)(z == v_one(0.0f));
  return (same[0] & same[1] & same[2] & same[3]) != 0;
}
INLINE int32_t vi_total(vint a) {
  vbits u = (vbits)a;
  return (int32_t)(u[0] + u[1] + u[2] + u[3]);
}
INLINE void vi_widen_add(vint high, int bits, vint low, int64_t *acc) {
  for (int i = 0; i < LANES; i++)
    acc[i] += high[i] * ((int64_t)1 << bits) + low[i];
}

/* Four 16-bit numbers, each to an integer. */
INLINE vint load_16(const void *p) {
  uint16_t h[4];
  memcpy(h, p, sizeof h);
  return (vint){h[0], h[1], h[2], h[3]};
}
INLINE vec v_half(bytes *p) {
  uint16_t h;
  memcpy(&h, p, 2);
  return v_one(kv_from_f16(h));
}
INLINE vec v_from_bf16(const void *p) { return (vec)(load_16(p) << 16); }
/* kv_from_f16, lane by lane without a branch. */
INLINE vec v_from_f16(const void *p) {
  vint h = load_16(p), sign = (h & 0x8000) << 16, a = (h & 0x7fff) << 13;
  vint normal = a + 0x38000000;
  vint tiny = (vint)((vec)(a + 0x38800000) - v_one(0x1p-14f));
  vint quiet = (vint)(a > 0x0f800000) & 0x400000;
  vint huge = a | 0x7f800000 | quiet;
  a = choose((vint)(a < 0x00800000), tiny,
             choose((vint)(a >= 0x0f800000), huge, normal));
  return (vec)(a | sign);
}

INLINE vec v_of_half(vint a) {
  uint16_t h[LANES];
  for (int i = 0; i < LANES; i++) h[i] = (uint16_t)a[i];
  return v_from_f16(h);
}

INLINE void v_fix_add(vec p, int64_t *acc) {
  for (int i = 0; i < LANES; i++) acc[i] += kv_fix(p[i]);
}

/* out[x * KV_PACK + lane] = element x of row[lane], which begins at byte `at`;
 * and word[x] = the lanes' 4 bytes at column x. */
INLINE void pack_16(bytes *const *row, size_t at, uint16_t *out) {
  for (int i = 0; i < LANES; i++)
    for (int x = 0; x < COLUMNS_16; x++)
      memcpy(out + x * KV_PACK + i, row[i] + at + 2 * x, 2);
}
INLINE void pack_words(bytes *const *row, size_t at, vint *word) {
  vint b[LANES];
  for (int i = 0; i < LANES; i++) memcpy(&b[i], row[i] + at, sizeof *b);
  for (int x = 0; x < COLUMNS_32; x++)
    word[x] = (vint){b[0][x], b[1][x], b[2][x], b[3][x]};
}

/* More words would save no step, and no register is free for them. */
enum { COLUMNS_MANY = COLUMNS_32, CODE_CARRIES = 0 };
INLINE void pack_step(int step, bytes *const *row, size_t at, vint *word) {
  if (step == 0) pack_words(row, at, word);
}

#include "ref/kernels/vec_run.h"

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The canonical arithmetic, version 1, for C and for CUDA.
 *
 * Every value that is stored, compared or decided on is computed by the
 * operations below in one written order, so threads, vector widths, compilers
 * and backends cannot change a bit of it. Other files call these rules
 * "arithmetic 0" to "arithmetic 8". RN is one rounding to the nearest, ties to
 * even; RN32 rounds to binary32. A chain is computed in index order, from +0.
 *
 *   0 ground     binary32 with subnormals (kv_float_ground). Every fused
 *                operation is written as such, and no other is fused
 *                (-ffp-contract=off, -fmad=false). Nothing of libm but fmaf,
 *                rintf, sqrtf. Inputs are finite
 *   1 logit      s = acc * scale + 0, then the model's cap if it has one
 *                (softcap.h), then + bias + 0 if the entry has a bias, each
 *                operation rounded; acc: the chain of fma(q[x], k[x], .).
 *                Adding 0 makes -0 a +0
 *   2 order      kv_key: larger first, then the lower entry index, then the
 *                lower lane number
 *   3 attention  chunks c of 128 entries of the view: m_c the largest s; p =
 *                expm(s - m_c); l_c = RN32(sum of RN(p 2^40)) 2^-40; a_c[x] the
 *                chain of fma(p, v[x], .). Over chunks, M the largest m_c and
 *                w = expm(m_c - M): L the chain of fma(w, l_c, .), O[x] that of
 *                fma(w, a_c[x], .); out[x] = O[x] / L, LSE = M + log(L)
 *   4 observation
 *                over all entries at once: M the largest s, e = expm(s - M),
 *                W = RN(e 2^40), L = RN32(sum of W) 2^-40, P = e * RN(1 / L).
 *                Sums of P are sums of RN(P 2^40), in any order, at most 2^22
 *                of them, rounded once (kv_unfix); a divisor common to all is
 *                not applied. Top-p ranks by s and adds up W. A sink is one
 *                more s: its W is in the sum, its P belongs to no entry
 *   5 reductions over a row: a chain of fma (dot products, norms) or of
 *                rounded additions; a mean divides once
 *   6 functions  kv_expm, kv_log, activation.h, softcap.h; rotations by
 *                positions: rope.h
 *   7 codes      computed with the scale and minimum as stored, unless a
 *                format says otherwise; every min-max code is read in
 *                binary32 as fma(code, scale, minimum) (FORMATS.md)
 *   8 merging    x = fma(a, x_into, RN(b * x_from)) / RN(a + b), rounded to
 *                the type in which it is stored
 *
 * The sink of a head (kv_layer_data.sinks) is a logit without a value. In rules
 * 3 and 4, M is no less than it and L includes expm(sink - M); in rule 3 as the
 * last term: L ends with RN(expm(sink - M) + L).
 *
 * Functions are pure, defined for all inputs of their stated domain, and
 * allocate nothing. Without hardware FMA, kv_fma is the library's fmaf: same
 * bits, slow.
 */
#ifndef KV_REF_ARITH_H
#define KV_REF_ARITH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __FAST_MATH__
#  error "fast math changes what an addition gives: take it out of CFLAGS"
#endif

#define KV_ARITHMETIC 1 /* part of every run's key */

/* Begins a function that C and CUDA share. */
#ifdef __CUDACC__
#  define KV_FN static inline __host__ __device__
#else
#  define KV_FN static inline
#endif

/* One IEEE operation each, rounded once. kv_fma is a * b + c; kv_from_int64 is
 * the nearest float of an integer (going through double would round twice);
 * kv_rint is the nearest integer, ties to even. */
#ifdef __CUDA_ARCH__
KV_FN float kv_fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
KV_FN float kv_mul(float a, float b) { return __fmul_rn(a, b); }
KV_FN float kv_add(float a, float b) { return __fadd_rn(a, b); }
KV_FN float kv_sub(float a, float b) { return __fsub_rn(a, b); }
KV_FN float kv_div(float a, float b) { return __fdiv_rn(a, b); }
KV_FN float kv_sqrt(float x) { return __fsqrt_rn(x); }
KV_FN float kv_from_int64(int64_t s) { return __ll2float_rn(s); }
KV_FN float kv_rint(float x) { return rintf(x); }
#else
KV_FN float kv_fma(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
KV_FN float kv_mul(float a, float b) { return a * b; }
KV_FN float kv_add(float a, float b) { return a + b; }
KV_FN float kv_sub(float a, float b) { return a - b; }
KV_FN float kv_div(float a, float b) { return a / b; }
KV_FN float kv_sqrt(float x) { return __builtin_sqrtf(x); }
KV_FN float kv_from_int64(int64_t s) { return (float)s; }
KV_FN float kv_rint(float x) { return __builtin_rintf(x); }
#endif

/* The bits of a float, and the float of bits. */
KV_FN uint32_t kv_bits(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

KV_FN float kv_float(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* 0 for infinities and NaN. */
KV_FN int kv_finite(float x) {
  return (kv_bits(x) & 0x7f800000u) < 0x7f800000u;
}

/* Rule 2: the order of all decisions. a comes before b if kv_key(a) is larger;
 * -0 is below +0. kv_max and kv_min follow it. */
KV_FN uint32_t kv_key(float s) {
  uint32_t u = kv_bits(s);
  return u ^ (u >> 31 ? 0xffffffffu : 0x80000000u);
}

KV_FN float kv_max(float a, float b) { return kv_key(a) >= kv_key(b) ? a : b; }
KV_FN float kv_min(float a, float b) { return kv_key(a) <= kv_key(b) ? a : b; }

/* Rules 3 and 4: fixed point at 2^-40, RN(p * 2^40) for |p| <= 2^22. The
 * product is exact. Below 2^51, adding 1.5 * 2^52 in binary64 leaves the
 * nearest integer (ties to even); above, a binary32 is already an integer. */
KV_FN int64_t kv_fix(float p) {
  double y = (double)p * 0x1p40;
  if (y > -0x1p51 && y < 0x1p51) y = (y + 0x1.8p52) - 0x1.8p52;
  return (int64_t)y;
}

/* The same for 0 <= p <= 2^11, as for exponentials of rules 3 and 4: in 2^52
 * plus the product, the mantissa is that integer. */
KV_FN int64_t kv_fix_exp(float p) {
  double y = (double)kv_mul(p, 0x1p40f) + 0x1p52;
  int64_t u;
  memcpy(&u, &y, sizeof u);
  return u - 0x4330000000000000;
}

/* RN32(s) * 2^-40: one rounding. */
KV_FN float kv_unfix(int64_t s) { return kv_mul(kv_from_int64(s), 0x1p-40f); }

/* Rule 6. exp(x) for x <= 0; below -87 (and for NaN) +0, so never a subnormal;
 * kv_expm(0) = 1 exactly. x = k ln2 + r by Cody and Waite with k = RN(x / ln2)
 * read from the low bits of t, then a degree-6 minimax polynomial in r, whose
 * exponent gets k. 0.891 ulp. */
KV_FN float kv_expm(float x) {
  if (!(x >= -87.0f)) return 0.0f;
  float t = kv_fma(x, 0x1.715476p+0f, 0x1.8p23f);
  float n = kv_sub(t, 0x1.8p23f);
  float r = kv_fma(n, -0x1.62e400p-1f, x);
  r = kv_fma(n, -0x1.7f7d1cp-20f, r);
  float q = kv_fma(0x1.6a523ap-10f, r, 0x1.12396ep-7f);
  q = kv_fma(q, r, 0x1.5558aap-5f);
  q = kv_fma(q, r, 0x1.555492p-3f);
  q = kv_fma(q, r, 0x1.fffffcp-2f);
  q = kv_fma(q, r, 1.0f);
  q = kv_fma(q, r, 1.0f);
  uint32_t k = kv_bits(t) - 0x4b400000u;
  return kv_float(kv_bits(q) + (k << 23));
}

/* log(x) for positive normals: x = 2^e m with m in [2/3, 4/3), a degree-10
 * minimax polynomial in m - 1. kv_log(1) = 0 exactly; 0.934 ulp. */
KV_FN float kv_log(float x) {
  uint32_t u = kv_bits(x);
  int32_t e = (int32_t)(u - 0x3f2aaaabu) >> 23;
  float f = kv_sub(kv_float(u - ((uint32_t)e << 23)), 1.0f);
  float s = kv_mul(f, f);
  float q = kv_fma(-0x1.07d518p-3f, f, 0x1.1e699p-3f);
  q = kv_fma(q, f, -0x1.f32c66p-4f);
  q = kv_fma(q, f, 0x1.1ed606p-3f);
  q = kv_fma(q, f, -0x1.559c8cp-3f);
  q = kv_fma(q, f, 0x1.99d048p-3f);
  q = kv_fma(q, f, -0x1.fffefap-3f);
  q = kv_fma(q, f, 0x1.555506p-2f);
  q = kv_fma(q, f, -0.5f);
  q = kv_fma(q, s, f);
  return kv_fma((float)e, 0x1.62e430p-1f, q);
}

/* Widening is exact; a NaN becomes quiet and keeps its payload. */
KV_FN float kv_from_bf16(uint16_t h) {
  uint32_t u = (uint32_t)h << 16;
  return kv_float(u);
}

/* A finite half: its bits as a small binary32, times 2^112, equal it exactly.
 * Without a branch, so that loops vectorise. */
KV_FN float kv_from_finite_f16(uint16_t h) {
  float a = kv_mul(kv_float((uint32_t)(h & 0x7fffu) << 13), 0x1p112f);
  return kv_float(kv_bits(a) | (uint32_t)(h & 0x8000u) << 16);
}

/* Any half. */
KV_FN float kv_from_f16(uint16_t h) {
  uint32_t a = (uint32_t)(h & 0x7fffu) << 13; /* exponent still biased 15 */
  uint32_t past = 0x7f800000u | a | (a > 0x0f800000u ? 0x400000u : 0);
  return a < 0x0f800000u ? kv_from_finite_f16(h)
                         : kv_float(past | (uint32_t)(h & 0x8000u) << 16);
}

/* Narrowing rounds to nearest even; past the range it gives infinity. */
KV_FN uint16_t kv_to_bf16(float x) {
  uint32_t u = kv_bits(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40u);
  return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

/* a >> shift, rounded to nearest even, 1 <= shift <= 24. */
KV_FN uint32_t kv_round_shift(uint32_t a, uint32_t shift) {
  return (a + ((1u << (shift - 1)) - 1u) + (a >> shift & 1u)) >> shift;
}

KV_FN uint16_t kv_to_f16(float x) {
  uint32_t u = kv_bits(x), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
  uint32_t r = 0;
  if (a > 0x7f800000u) {
    r = 0x7e00u | (a >> 13 & 0x3ffu);
  } else if (a >= 0x47800000u) { /* 65536 */
    r = 0x7c00u;
  } else if (a >= 0x38800000u) { /* normal: a carry may reach infinity */
    r = kv_round_shift(a - 0x38000000u, 13);
  } else if (a >= 0x33000000u) { /* 2^-25: subnormal, in units of 2^-24 */
    r = kv_round_shift((a & 0x7fffffu) | 0x800000u, 126u - (a >> 23));
  }
  return (uint16_t)(sign | r);
}

/* Read and write a finite half in memory at any address. */
KV_FN float kv_half_at(const void *at) {
  uint16_t h;
  memcpy(&h, at, sizeof h);
  return kv_from_finite_f16(h);
}

KV_FN void kv_put_half(void *at, float x) {
  uint16_t h = kv_to_f16(x);
  memcpy(at, &h, sizeof h);
}

/* x rounded to fp16, as a binary32: at bit 13, or, if subnormal, to multiples
 * of 2^-24; past the range infinity. Not for NaN. A mask instead of a branch
 * keeps loops vectorised. */
KV_FN float kv_round_f16(float x) {
  uint32_t u = kv_bits(x), a = u & 0x7fffffffu;
  uint32_t normal = (a + 0xfffu + (a >> 13 & 1u)) & ~0x1fffu;
  uint32_t small = kv_bits(kv_sub(kv_add(kv_float(a), 0.5f), 0.5f));
  uint32_t mask = 0u - (a < 0x38800000u);
  uint32_t r = (small & mask) | (normal & ~mask);
  r = r < 0x47800000u ? r : 0x7f800000u;
  return kv_float(r | (u & 0x80000000u));
}

#endif

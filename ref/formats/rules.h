/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of codes, for C and CUDA: what a run of numbers that share a
 * scale stores, and how a code is chosen and read. A rule is one case of each
 * function under "by rule" and a name in ref/formats/named.h; nothing else
 * depends on it. x is an element, x^ what its code decodes to. min and max are
 * over the run's elements (order: arithmetic 2); A is their largest magnitude.
 * RN rounds to binary32 and h to fp16. Every operation is rounded to binary32,
 * fused ones once. b is the bits of a code, L = 2^b - 1.
 *
 * Min-max codes, as in KIVI and LeanKV: a scale s and a minimum m, both fp16.
 *   KV_RULE_STORED, KIVI's formula:
 *     s = h((max - min) / L), m = h(min)
 *     code = rint(clamp((x - m) / s, 0, L))
 *     (codes are chosen for the stored s and m, which decoding uses)
 *   KV_RULE_FP16, the arithmetic of KIVI's authors; x is first rounded to h(x):
 *     s = h(h(max - min) / L), m = min
 *     code = rint(clamp(h(h(x - m) / s), 0, L))
 *   KV_RULE_UNROUNDED, only in the format token, LeanKV's equation 2; codes are
 *   chosen with scale and minimum before they are rounded:
 *     r = (max - min) / L, s = h(r), m = h(min)
 *     code = rint(clamp((x - min) * (1 / r), 0, L))
 *   all: x^ = fma(code, s, m). If s = 0 every code is 0.
 *
 * Symmetric codes: a scale s and no minimum.
 *   KV_RULE_INTEGER, here L = 2^(b-1) - 1: s = h(A / L), fp16;
 *     code = L + rint(clamp(x / s, -L, L)),  x^ = RN((code - L) * s)
 *   KV_RULE_E4M3, KV_RULE_E5M2, 8 bits, M = 448 or 57344: s = A / M, binary32;
 *     code = the float of 8 bits nearest to x / s, ties to even, at most M;
 *     x^ = RN(float * s)
 *   If s = 0, x^ is 0 and codes are those of 0. Both floats are OCP's 8-bit
 *   formats (2023): e4m3 has bias 7, no infinity and 448 as its largest number,
 *   e5m2 bias 15; both have subnormals. Codes are chosen for the stored scale.
 *
 * Codes with a zero point z, the code of the number 0: s and z, both fp16.
 *   KV_RULE_FRACTION, QServe (Lin et al. 2024, arXiv:2405.04532): z need not
 *   be an integer.
 *     s = h((max - min) / L), z = h(RN(-L * min) / (max - min))
 *     code = rint(clamp(fma(x, RN(1 / s), z), 0, L))
 *   KV_RULE_BASE, Atom (Zhao et al. 2024, arXiv:2310.19102): z is an integer
 *   among the codes, so numbers far from 0 saturate.
 *     s = h(max(max - min, 1e-5) / L), z = clamp(rint(-min / s), 0, L)
 *     code = clamp(rint(x / s) + z, 0, L)
 *   both: x^ = fma(code, s, -RN(z * s))
 *   QServe divides without a guard, which may give NaN where s would be 0: in
 *   a constant run, or one whose range is at most L times 2^-25. Here s =
 *   h(|min|) and z = -1, 1 or 0 if min is above, below or at 0, so that the
 *   code of min is 0 and x^ = h(min). If s is still 0, every code is 0.
 *
 * Coding fails if a stored number is not finite in its type; with
 * KV_RULE_FRACTION this includes runs farther from 0 than 65504 / L of their
 * range. It also fails if min, max or A, or x^ of the largest symmetric code,
 * is not finite.
 *
 * code * s is exact in binary32 (8 bits times 11), so a product and a sum equal
 * the fused operation to the bit, without hardware for it. For the same reason
 * h(fp32 operation on fp16 values) is the fp16 operation: 24 bits are at least
 * 2 * 11 + 2.
 */
#ifndef KV_REF_FORMATS_RULES_H
#define KV_REF_FORMATS_RULES_H

#include "ref/ground/arith.h"

/* The rules. The format channel supports the first two. */
typedef enum kv_rule {
  KV_RULE_STORED, /* min-max */
  KV_RULE_FP16,
  KV_RULE_UNROUNDED,
  KV_RULE_INTEGER, /* symmetric */
  KV_RULE_E4M3,
  KV_RULE_E5M2,
  KV_RULE_FRACTION, /* with a zero point */
  KV_RULE_BASE
} kv_rule;

/* The settings of the formats channel and token, for needs.coding; c below. */
typedef struct kv_minmax {
  int32_t bits;  /* of a code: 1, 2, 4 or 8 */
  int32_t group; /* rows (channel) or elements (token) that share */
  int32_t rule;  /* a kv_rule */
} kv_minmax;

/* What a run stores besides its codes, exact in the stored type. */
typedef struct kv_range {
  float scale, other; /* s; m or z, 0 without either */
} kv_range;

KV_FN int kv_rule_minmax(int rule) { return rule <= KV_RULE_UNROUNDED; }

/* Are the codes of a kv_rule floats of 8 bits? False: integers. */
KV_FN int kv_rule_floats(int rule) {
  return rule == KV_RULE_E4M3 || rule == KV_RULE_E5M2;
}

KV_FN int kv_rule_symmetric(int rule) {
  return rule == KV_RULE_INTEGER || kv_rule_floats(rule);
}

/* y as a code, 0..L; NaN becomes 0. */
KV_FN float kv_code_clamp(const kv_minmax *c, float y) {
  float top = (float)((1 << c->bits) - 1);
  y = y > 0 ? y : 0;
  return y < top ? y : top;
}

/* --- min-max ------------------------------------------------------------- */

KV_FN kv_range kv_minmax_run(const kv_minmax *c, float min, float max) {
  int fp16 = c->rule == KV_RULE_FP16;
  if (fp16) min = kv_round_f16(min), max = kv_round_f16(max);
  float width = kv_sub(max, min);
  if (fp16) width = kv_round_f16(width);
  kv_range r;
  r.scale = kv_round_f16(kv_div(width, (float)((1 << c->bits) - 1)));
  r.other = kv_round_f16(min);
  return r;
}

/* The range by which codes are chosen with KV_RULE_UNROUNDED and a stored scale
 * above 0: 1 / r and min. */
KV_FN kv_range kv_minmax_unrounded(const kv_minmax *c, float min, float max) {
  kv_range r;
  float levels = (float)((1 << c->bits) - 1);
  r.scale = kv_div(1, kv_div(kv_sub(max, min), levels));
  r.other = min;
  return r;
}

KV_FN uint32_t kv_minmax_choose(const kv_minmax *c, const kv_range *r,
                                float x) {
  float y;
  if (!(r->scale > 0)) return 0;
  if (c->rule == KV_RULE_UNROUNDED) {
    y = kv_mul(kv_sub(x, r->other), r->scale);
  } else if (c->rule == KV_RULE_FP16) {
    y = kv_round_f16(kv_sub(kv_round_f16(x), r->other));
    y = kv_round_f16(kv_div(y, r->scale));
  } else {
    y = kv_div(kv_sub(x, r->other), r->scale);
  }
  y = kv_code_clamp(c, y);
  return kv_bits(kv_add(y, 0x1p23f)) & 0xffu; /* rint: the lowest bits */
}

/* --- symmetric ----------------------------------------------------------- */

/* M or L: the largest magnitude of a code before its scale multiplies it. */
KV_FN float kv_absmax_top(const kv_minmax *c) {
  if (c->rule == KV_RULE_E4M3) return 448;
  if (c->rule == KV_RULE_E5M2) return 57344;
  return (float)((1 << (c->bits - 1)) - 1);
}

KV_FN kv_range kv_absmax_run(const kv_minmax *c, float min, float max) {
  uint32_t a = kv_bits(min) & 0x7fffffffu, b = kv_bits(max) & 0x7fffffffu;
  kv_range r;
  r.scale = kv_div(kv_float(a > b ? a : b), kv_absmax_top(c));
  if (c->rule == KV_RULE_INTEGER) r.scale = kv_round_f16(r.scale);
  r.other = 0;
  return r;
}

/* The code of the 8-bit float nearest to y, ties to even: a sign, 7 - m bits of
 * exponent with this bias and m of mantissa. If y would be subnormal, an
 * addition rounds it to units of the smallest subnormal. A y that is too large
 * becomes `largest`, the code of the largest number. */
KV_FN uint32_t kv_to_f8(float y, int m, int bias, uint32_t largest) {
  uint32_t a = kv_bits(y) & 0x7fffffffu, r;
  uint32_t unit = (uint32_t)(127 + 24 - bias - m) << 23;
  if (a >= (uint32_t)(128 - bias) << 23)
    r = kv_round_shift(a - ((uint32_t)(127 - bias) << 23), 23u - (uint32_t)m);
  else
    r = kv_bits(kv_add(kv_float(a), kv_float(unit))) - unit;
  return (r < largest ? r : largest) | (kv_bits(y) >> 24 & 0x80u);
}

/* The value of an 8-bit float's code, exact. The code's bits, shifted into a
 * binary32, give a number that is too small by 2^(difference of the biases); a
 * product corrects that, also for subnormals. */
KV_FN float kv_absmax_float(int rule, uint32_t code) {
  int e5 = rule == KV_RULE_E5M2;
  float a = kv_mul(kv_float((code & 0x7fu) << (e5 ? 21 : 20)),
                   e5 ? 0x1p112f : 0x1p120f);
  return kv_float(kv_bits(a) | (code & 0x80u) << 24);
}

/* The code of x, below 2^bits. scale: the run's, as stored. */
KV_FN uint32_t kv_absmax_code(const kv_minmax *c, float scale, float x) {
  float y = scale > 0 ? kv_div(x, scale) : 0, top = kv_absmax_top(c);
  if (c->rule == KV_RULE_E4M3) return kv_to_f8(y, 3, 7, 0x7e);
  if (c->rule == KV_RULE_E5M2) return kv_to_f8(y, 2, 15, 0x7b);
  y = y > -top ? y : -top;
  y = y < top ? y : top;
  return (uint32_t)(int32_t)kv_add(kv_rint(y), top);
}

/* --- with a zero point --------------------------------------------------- */

KV_FN kv_range kv_zeropoint_base(const kv_minmax *c, float min, float max) {
  float range = kv_sub(max, min), top = (float)((1 << c->bits) - 1);
  kv_range p;
  p.scale = kv_round_f16(kv_div(kv_max(range, 1e-5f), top));
  p.other = kv_code_clamp(c, kv_rint(kv_div(-min, p.scale)));
  return p;
}

KV_FN kv_range kv_zeropoint_fraction(const kv_minmax *c, float min, float max) {
  float range = kv_sub(max, min), top = (float)((1 << c->bits) - 1);
  kv_range p;
  p.scale = kv_round_f16(kv_div(range, top));
  p.other = kv_round_f16(kv_div(kv_mul(-top, min), range));
  if (p.scale > 0) return p;
  p.scale = kv_round_f16(min < 0 ? -min : min);
  p.other = min > 0 ? -1.0f : min < 0 ? 1.0f : 0.0f;
  return p;
}

KV_FN uint32_t kv_zeropoint_choose(const kv_minmax *c, const kv_range *p,
                                   float x) {
  if (!(p->scale > 0)) return 0;
  float y = c->rule == KV_RULE_BASE
                ? kv_add(kv_rint(kv_div(x, p->scale)), p->other)
                : kv_fma(x, kv_div(1, p->scale), p->other);
  return (uint32_t)(int32_t)kv_rint(kv_code_clamp(c, y));
}

/* --- by rule ------------------------------------------------------------- */

/* Bytes of one stored number, and of all that a run stores. */
KV_FN int kv_range_number(const kv_minmax *c) {
  return kv_rule_floats(c->rule) ? 4 : 2;
}
KV_FN int kv_range_bytes(const kv_minmax *c) {
  return kv_range_number(c) * (kv_rule_symmetric(c->rule) ? 1 : 2);
}

/* What a run with the smallest and largest elements min and max stores. */
KV_FN kv_range kv_range_of(const kv_minmax *c, float min, float max) {
  if (kv_rule_minmax(c->rule)) return kv_minmax_run(c, min, max);
  if (kv_rule_symmetric(c->rule)) return kv_absmax_run(c, min, max);
  return c->rule == KV_RULE_BASE ? kv_zeropoint_base(c, min, max)
                                 : kv_zeropoint_fraction(c, min, max);
}

/* 0 if the run cannot be coded. Call it before coding. */
KV_FN int kv_range_fits(const kv_minmax *c, float min, float max,
                        const kv_range *r) {
  int fits = kv_finite(r->scale) && kv_finite(r->other);
  if (kv_rule_minmax(c->rule)) return fits;
  if (kv_rule_symmetric(c->rule))
    fits = fits && kv_finite(kv_mul(r->scale, kv_absmax_top(c)));
  return fits && kv_finite(min) && kv_finite(max);
}

/* The code of x, below 2^bits. r: what the run stores or, with
 * KV_RULE_UNROUNDED, kv_minmax_unrounded. */
KV_FN uint32_t kv_range_code(const kv_minmax *c, const kv_range *r, float x) {
  if (kv_rule_minmax(c->rule)) return kv_minmax_choose(c, r, x);
  if (kv_rule_symmetric(c->rule)) return kv_absmax_code(c, r->scale, x);
  return kv_zeropoint_choose(c, r, x);
}

/* The value of code 0. If codes are integers, x^ = fma(code, scale, this), also
 * for KV_RULE_INTEGER, because both products are exact. For floats 0. */
KV_FN float kv_range_least(const kv_minmax *c, const kv_range *r) {
  float zero = r->other;
  if (kv_rule_minmax(c->rule)) return zero;
  if (kv_rule_floats(c->rule)) return 0;
  if (c->rule == KV_RULE_INTEGER) zero = (float)((1 << (c->bits - 1)) - 1);
  return kv_mul(-zero, r->scale);
}

/* x^ of a code. */
KV_FN float kv_range_read(const kv_minmax *c, const kv_range *r,
                          uint32_t code) {
  if (kv_rule_floats(c->rule))
    return kv_mul(kv_absmax_float(c->rule, code), r->scale);
  return kv_fma((float)code, r->scale, kv_range_least(c, r));
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of the format "absmax", for C and for CUDA. A run of `group`
 * neighbouring elements of a row (the last run may be shorter) shares one
 * scale s, made of its largest magnitude A; there is no minimum. x is an
 * element, x^ what its code decodes to; RN rounds to binary32 and h to fp16.
 *
 *   KV_RULE_INTEGER, bits b, L = 2^(b-1) - 1: s = h(A / L), fp16;
 *     code = L + rint(clamp(x / s, -L, L)),  x^ = RN((code - L) * s)
 *   KV_RULE_E4M3, KV_RULE_E5M2, 8 bits, M = 448 or 57344: s = A / M, binary32;
 *     code = the float of 8 bits nearest to x / s, ties to even, at most M;
 *     x^ = RN(float * s)
 *   s = 0: x^ is 0, and codes are those of 0.
 *
 * Both floats are those of OCP's 8-bit formats (2023): e4m3 has bias 7, no
 * infinity and 448 as its largest, e5m2 bias 15; both have subnormals. Codes
 * are chosen for the stored scale. Coding fails where A, s or x^ of the largest
 * code is not finite. Below, c is the settings of the format (kv_minmax).
 */
#ifndef KV_REF_FORMATS_ABSMAX_H
#define KV_REF_FORMATS_ABSMAX_H

#include "ref/formats/minmax.h"
#include "ref/ground/arith.h"

extern const kv_format kv_format_absmax;

/* True if the codes of a kv_rule are floats of 8 bits, false: integers. */
KV_FN int kv_rule_floats(int rule) {
  return rule == KV_RULE_E4M3 || rule == KV_RULE_E5M2;
}

/* M or L: the largest magnitude that a code stands for before its scale
 * multiplies it. */
KV_FN float kv_absmax_top(const kv_minmax *c) {
  if (c->rule == KV_RULE_E4M3) return 448;
  if (c->rule == KV_RULE_E5M2) return 57344;
  return (float)((1 << (c->bits - 1)) - 1);
}

/* Bytes of a stored scale: fp16 beside integers, binary32 beside floats. */
KV_FN int kv_absmax_scale_size(const kv_minmax *c) {
  return c->rule == KV_RULE_INTEGER ? 2 : 4;
}

/* The scale of a run, rounded as it is stored. most: A, from 0 on; where it is
 * not finite the scale is not either. */
KV_FN float kv_absmax_scale(const kv_minmax *c, float most) {
  float s = kv_div(most, kv_absmax_top(c));
  return c->rule == KV_RULE_INTEGER ? kv_round_f16(s) : s;
}

/* False if a run cannot be coded: its A (`most`), its scale or what the largest
 * code decodes to is not finite. Ask before its codes are made. */
KV_FN int kv_absmax_fits(const kv_minmax *c, float most, float scale) {
  return kv_finite(most) && kv_finite(scale) &&
         kv_finite(kv_mul(scale, kv_absmax_top(c)));
}

/* The code of the 8-bit float nearest to y, ties to even: a sign, 7 - m bits of
 * exponent with this bias and m of mantissa. Where y would be subnormal, an
 * addition rounds it to units of the least one. What is too large becomes
 * `largest`, the code of the largest number. */
KV_FN uint32_t kv_to_f8(float y, int m, int bias, uint32_t largest) {
  uint32_t a = kv_bits(y) & 0x7fffffffu, r;
  uint32_t unit = (uint32_t)(127 + 24 - bias - m) << 23;
  if (a >= (uint32_t)(128 - bias) << 23)
    r = kv_round_shift(a - ((uint32_t)(127 - bias) << 23), 23u - (uint32_t)m);
  else
    r = kv_bits(kv_add(kv_float(a), kv_float(unit))) - unit;
  return (r < largest ? r : largest) | (kv_bits(y) >> 24 & 0x80u);
}

/* The number that the code of a float stands for, exact. The code's bits, in
 * their place in a binary32, are a number too small by 2^(difference of the
 * biases), which a product mends; this holds of subnormals, too. */
KV_FN float kv_absmax_float(int rule, uint32_t code) {
  int e5 = rule == KV_RULE_E5M2;
  float a = kv_mul(kv_float((code & 0x7fu) << (e5 ? 21 : 20)),
                   e5 ? 0x1p112f : 0x1p120f);
  return kv_float(kv_bits(a) | (code & 0x80u) << 24);
}

/* What a code stands for before its scale multiplies it, exact: code - L, or
 * the float. */
KV_FN float kv_absmax_plain(const kv_minmax *c, uint32_t code) {
  if (c->rule == KV_RULE_INTEGER) return (float)code - kv_absmax_top(c);
  return kv_absmax_float(c->rule, code);
}

/* The code of x, below 2^bits. scale: that of its run, as stored. */
KV_FN uint32_t kv_absmax_code(const kv_minmax *c, float scale, float x) {
  float y = scale > 0 ? kv_div(x, scale) : 0, top = kv_absmax_top(c);
  if (c->rule == KV_RULE_E4M3) return kv_to_f8(y, 3, 7, 0x7e);
  if (c->rule == KV_RULE_E5M2) return kv_to_f8(y, 2, 15, 0x7b);
  y = y > -top ? y : -top;
  y = y < top ? y : top;
  return (uint32_t)(int32_t)kv_add(kv_rint(y), top);
}

/* Bytes of the codes of a row of `width` elements. They lie in planes of so
 * many elements: element x is in byte x mod that, the first plane in the low
 * bits (ref/formats/minmax.h). */
KV_FN int kv_absmax_plane(const kv_minmax *c, int width) {
  return (width * c->bits + 7) / 8;
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of the format "absmax", for C and for CUDA: one scale a run
 * of `group` elements, from the largest magnitude A of it, and no minimum.
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
 * code is not finite.
 */
#ifndef KV_REF_FORMATS_ABSMAX_H
#define KV_REF_FORMATS_ABSMAX_H

#include "ref/formats/minmax.h"
#include "ref/ground/arith.h"

extern const kv_format kv_format_absmax;

/* Are codes floats? Then a number is RN(float * scale). */
KV_FN int kv_rule_floats(int rule) {
  return rule == KV_RULE_E4M3 || rule == KV_RULE_E5M2;
}

/* What a scale brings to the largest code. */
KV_FN float kv_absmax_top(const kv_minmax *c) {
  if (c->rule == KV_RULE_E4M3) return 448;
  if (c->rule == KV_RULE_E5M2) return 57344;
  return (float)((1 << (c->bits - 1)) - 1);
}

/* Bytes of a scale. */
KV_FN int kv_absmax_scale_size(const kv_minmax *c) {
  return c->rule == KV_RULE_INTEGER ? 2 : 4;
}

/* The scale as stored, of the largest magnitude; 0 <= most. */
KV_FN float kv_absmax_scale(const kv_minmax *c, float most) {
  float s = kv_div(most, kv_absmax_top(c));
  return c->rule == KV_RULE_INTEGER ? kv_round_f16(s) : s;
}

KV_FN int kv_absmax_fits(const kv_minmax *c, float most, float scale) {
  return kv_finite(most) && kv_finite(scale) &&
         kv_finite(kv_mul(scale, kv_absmax_top(c)));
}

/* The float of 1 + (7 - m) + m bits nearest to y, ties to even: as its normal
 * exponent, or in units of the least subnormal; at most `largest`. */
KV_FN uint32_t kv_to_f8(float y, int m, int bias, uint32_t largest) {
  uint32_t a = kv_bits(y) & 0x7fffffffu, r;
  uint32_t unit = (uint32_t)(127 + 24 - bias - m) << 23;
  if (a >= (uint32_t)(128 - bias) << 23)
    r = kv_round_shift(a - ((uint32_t)(127 - bias) << 23), 23u - (uint32_t)m);
  else
    r = kv_bits(kv_add(kv_float(a), kv_float(unit))) - unit;
  return (r < largest ? r : largest) | (kv_bits(y) >> 24 & 0x80u);
}

/* The float of a code, exact: as a binary32 that is too small by what the
 * biases differ, also where it is subnormal. */
KV_FN float kv_absmax_float(int rule, uint32_t code) {
  int e5 = rule == KV_RULE_E5M2;
  float a = kv_mul(kv_float((code & 0x7fu) << (e5 ? 21 : 20)),
                   e5 ? 0x1p112f : 0x1p120f);
  return kv_float(kv_bits(a) | (code & 0x80u) << 24);
}

/* A code as the number that a scale multiplies: exact. */
KV_FN float kv_absmax_plain(const kv_minmax *c, uint32_t code) {
  if (c->rule == KV_RULE_INTEGER) return (float)code - kv_absmax_top(c);
  return kv_absmax_float(c->rule, code);
}

KV_FN uint32_t kv_absmax_code(const kv_minmax *c, float scale, float x) {
  float y = scale > 0 ? kv_div(x, scale) : 0, top = kv_absmax_top(c);
  if (c->rule == KV_RULE_E4M3) return kv_to_f8(y, 3, 7, 0x7e);
  if (c->rule == KV_RULE_E5M2) return kv_to_f8(y, 2, 15, 0x7b);
  y = y > -top ? y : -top;
  y = y < top ? y : top;
  return (uint32_t)(int32_t)kv_add(kv_rint(y), top);
}

/* The codes of a row lie in planes, as of ref/formats/minmax.h. */
KV_FN int kv_absmax_plane(const kv_minmax *c, int width) {
  return (width * c->bits + 7) / 8;
}

#endif

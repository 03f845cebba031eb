/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of the format "zeropoint", for C and for CUDA: codes of b bits
 * that stand for (code - z) * s. A run of `group` elements shares the scale s
 * and the zero point z, the code of the number 0; both are fp16. With
 * L = 2^b - 1, h = rounding to fp16, min and max of the run (order: arithmetic
 * 2) and every operation rounded to binary32 but the fused ones:
 *
 *   KV_RULE_FRACTION, QServe (Lin et al. 2024, arXiv:2405.04532): z is no
 *   integer.
 *     s = h((max - min) / L), z = h(RN(-L * min) / (max - min))
 *     code = rint(clamp(fma(x, RN(1 / s), z), 0, L))
 *   KV_RULE_BASE, Atom (Zhao et al. 2024, arXiv:2310.19102): z is an integer
 *   among the codes, so numbers far from 0 saturate.
 *     s = h(max(max - min, 1e-5) / L), z = clamp(rint(-min / s), 0, L)
 *     code = clamp(rint(x / s) + z, 0, L)
 *   both: x^ = fma(code, s, -RN(z * s))
 *
 * Where QServe's s would be 0 - a constant run, and one whose range is at most
 * L times 2^-25 - its division is unguarded and may give NaN. Here
 * s = h(|min|) and z = -1, 1 or 0 as min is above, below or at 0, so that the
 * code of min is 0 and x^ = h(min). Where s is 0 still, every code is 0.
 *
 * Coding fails where min or max is not finite, or s or z leaves fp16: of
 * QServe's, too, where the run is farther from 0 than 65504 / L of its ranges.
 */
#ifndef KV_REF_FORMATS_ZEROPOINT_H
#define KV_REF_FORMATS_ZEROPOINT_H

#include "ref/formats/minmax.h"
#include "ref/ground/arith.h"

extern const kv_format kv_format_zeropoint;

/* What a run stores beside its codes; both are exact in fp16. The functions
 * below are called for a run in this order: of (kv_zeropoint_base or _fraction
 * by c->rule), fits, code for each element; and least to decode. c has the bits
 * and the rule; min and max are the least and the largest element. */
typedef struct kv_zeropoint {
  float scale, zero; /* s and z */
} kv_zeropoint;

/* L, the largest code. */
KV_FN float kv_zeropoint_top(const kv_minmax *c) {
  return (float)((1 << c->bits) - 1);
}

/* y as a code, 0..L; NaN becomes 0. */
KV_FN float kv_zeropoint_clamp(const kv_minmax *c, float y) {
  float top = kv_zeropoint_top(c);
  y = y > 0 ? y : 0;
  return y < top ? y : top;
}

/* Scale and zero point of a run by KV_RULE_BASE, by KV_RULE_FRACTION, and by
 * c->rule; not finite where it cannot be coded. */
KV_FN kv_zeropoint kv_zeropoint_base(const kv_minmax *c, float min, float max) {
  float range = kv_sub(max, min), top = kv_zeropoint_top(c);
  kv_zeropoint p;
  p.scale = kv_round_f16(kv_div(kv_max(range, 1e-5f), top));
  p.zero = kv_zeropoint_clamp(c, kv_rint(kv_div(-min, p.scale)));
  return p;
}

KV_FN kv_zeropoint kv_zeropoint_fraction(const kv_minmax *c, float min,
                                         float max) {
  float range = kv_sub(max, min), top = kv_zeropoint_top(c);
  kv_zeropoint p;
  p.scale = kv_round_f16(kv_div(range, top));
  p.zero = kv_round_f16(kv_div(kv_mul(-top, min), range));
  if (p.scale > 0) return p;
  p.scale = kv_round_f16(min < 0 ? -min : min);
  p.zero = min > 0 ? -1.0f : min < 0 ? 1.0f : 0.0f;
  return p;
}

KV_FN kv_zeropoint kv_zeropoint_of(const kv_minmax *c, float min, float max) {
  return c->rule == KV_RULE_BASE ? kv_zeropoint_base(c, min, max)
                                 : kv_zeropoint_fraction(c, min, max);
}

/* 0 if the run cannot be coded: coding then fails. */
KV_FN int kv_zeropoint_fits(float min, float max, const kv_zeropoint *p) {
  return kv_finite(min) && kv_finite(max) && kv_finite(p->scale) &&
         kv_finite(p->zero);
}

/* The code of element x of a run that fits. */
KV_FN uint32_t kv_zeropoint_code(const kv_minmax *c, const kv_zeropoint *p,
                                 float x) {
  if (!(p->scale > 0)) return 0;
  float y = c->rule == KV_RULE_BASE
                ? kv_add(kv_rint(kv_div(x, p->scale)), p->zero)
                : kv_fma(x, kv_div(1, p->scale), p->zero);
  return (uint32_t)(int32_t)kv_rint(kv_zeropoint_clamp(c, y));
}

/* What code 0 stands for; x^ = fma(code, scale, this). */
KV_FN float kv_zeropoint_least(const kv_zeropoint *p) {
  return kv_mul(-p->zero, p->scale);
}

#endif

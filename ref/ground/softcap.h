/* SPDX-License-Identifier: Apache-2.0
 *
 * tanh of the canonical arithmetic (rule 6), for C and for CUDA, and the cap
 * that some models (Gemma 2) put on their logits. Made of expm, fma and
 * division; no function here fails.
 *
 *   tanh(x):  a = |x|
 *             a < 5/8: z = x x; P = a polynomial of degree 4 in z;
 *                      fma(x z, P, x)
 *             else:    e = expm(-2 a); (1 - e) / (1 + e), with the sign of x
 *   softcap:  y = c tanh(s / c), each operation rounded; fma(s, 0, y)
 *
 * P is the minimax fit of (tanh(x) / x - 1) / x^2 on [0, 5/8]. tanh has a
 * relative error within 2.6 * 2^-24 for every normal x; tanh(-0) is +0. The
 * last fma only turns an s that is not finite into NaN, so that later checks
 * for such logits still find it.
 */
#ifndef KV_REF_SOFTCAP_H
#define KV_REF_SOFTCAP_H

#include "ref/ground/arith.h"

/* tanh(x) for finite x. */
KV_FN float kv_tanh(float x) {
  uint32_t sign = kv_bits(x) & 0x80000000u;
  float a = kv_float(kv_bits(x) & 0x7fffffffu);
  float z = kv_mul(x, x), e = kv_expm(kv_mul(a, -2.0f));
  float p = kv_fma(-0x1.75e13cp-8f, z, 0x1.522678p-6f);
  p = kv_fma(p, z, -0x1.b83c54p-5f);
  p = kv_fma(p, z, 0x1.110706p-3f);
  p = kv_fma(p, z, -0x1.555532p-2f);
  p = kv_fma(kv_mul(x, z), p, x);
  e = kv_div(kv_sub(1.0f, e), kv_add(1.0f, e));
  return a < 0.625f ? p : kv_float(kv_bits(e) | sign);
}

/* The logit s capped by c > 0. */
KV_FN float kv_softcap(float c, float s) {
  return kv_fma(s, 0.0f, kv_mul(c, kv_tanh(kv_div(s, c))));
}

/* Arithmetic 1: the logit of a dot product, with the model's scale and cap (0:
 * no cap), without bias. */
KV_FN float kv_logit(float dot, float scale, float cap) {
  float s = kv_add(kv_mul(dot, scale), 0.0f);
  return cap > 0 ? kv_softcap(cap, s) : s;
}

#endif

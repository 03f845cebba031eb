/* SPDX-License-Identifier: Apache-2.0
 *
 * Activation functions of the canonical arithmetic (rule 6), for C and CUDA, as
 * perceptrons use them. Made of expm, fma and division. The row kernels compute
 * the same bits with vectors (ref/kernels/elements.h).
 *
 *   erf(x):   t = min(|x|, 4); Q = a polynomial of degree 7 in t;
 *             1 - expm(t * Q), with the sign of x
 *   SiLU(x):  e = expm(-|x|); (x < 0 ? x * e : x) / (1 + e)
 *   GELU(x):  (x / 2) * (1 + erf(x * RN(2^-1/2)))
 *
 * Against the true values, for every finite x: erf within 2^-23; SiLU within
 * 1.9 * 2^-23 of itself or 2^-119; GELU within 2^-23 * |x|. Q is the minimax
 * fit of log(erfc(t)) / t on [0, 4] whose error in erfc is even.
 */
#ifndef KV_REF_ACTIVATION_H
#define KV_REF_ACTIVATION_H

#include "ref/ground/arith.h"

#define KV_ERF_END 4.0f             /* erf is 1 from here on */
#define KV_HALF_ROOT 0x1.6a09e6p-1f /* 1 / sqrt 2 */

/* For finite x. */
KV_FN float kv_erf(float x) {
  uint32_t sign = kv_bits(x) & 0x80000000u;
  float t = kv_min(kv_float(kv_bits(x) & 0x7fffffffu), KV_ERF_END);
  float q = kv_fma(-0x1.0793acp-15f, t, 0x1.43a1fep-12f);
  q = kv_fma(q, t, -0x1.0e7f30p-10f);
  q = kv_fma(q, t, -0x1.19fc78p-11f);
  q = kv_fma(q, t, 0x1.40e09cp-6f);
  q = kv_fma(q, t, -0x1.a58f78p-4f);
  q = kv_fma(q, t, -0x1.45f020p-1f);
  q = kv_fma(q, t, -0x1.20dd88p+0f);
  return kv_float(kv_bits(kv_sub(1.0f, kv_expm(kv_mul(t, q)))) | sign);
}

KV_FN float kv_silu(float x) {
  float e = kv_expm(kv_float(kv_bits(x) | 0x80000000u));
  return kv_div(x < 0 ? kv_mul(x, e) : x, kv_add(1.0f, e));
}

KV_FN float kv_gelu(float x) {
  float e = kv_erf(kv_mul(x, KV_HALF_ROOT));
  return kv_mul(kv_mul(x, 0.5f), kv_add(1.0f, e));
}

#endif

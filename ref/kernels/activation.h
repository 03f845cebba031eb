/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations along a row, ref/ground/activation.h and softcap.h step for step,
 * by vectors. Part of ref/kernels/kernels.c; the three static functions without
 * INLINE are its kernels softcap, silu_times and gelu (ref/kernels/kernels.h).
 */
#ifndef KV_REF_KERNELS_ACTIVATION_H
#define KV_REF_KERNELS_ACTIVATION_H

/* In each lane yes where x < 0, else no. One of two sums is +0, whose bits are
 * 0. */
INLINE vec v_where_below(vec x, vec yes, vec no) {
  vint zero = vi_one(0), below, rest;
  below =
      v_bits(v_keep_sum(v_sub(v_one(0.0f), x), 0x1p-149f, v_bits(yes), zero));
  rest = v_bits(v_keep_sum(x, 0.0f, v_bits(no), zero));
  return v_float(vi_add(below, rest));
}

/* -x, but +0 of either zero; |x|. */
INLINE vec v_negative(vec x) { return v_sub(v_one(0.0f), x); }
INLINE vec v_magnitude(vec x) { return v_max(x, v_negative(x)); }

/* kv_silu, kv_erf and kv_gelu of each lane. */
INLINE vec v_silu(vec x) {
  vec e = v_expm(v_negative(v_magnitude(x)));
  return v_div(v_where_below(x, v_mul(x, e), x), v_add(v_one(1.0f), e));
}

INLINE vec v_erf(vec x) {
  vec t = v_negative(v_max(v_negative(v_magnitude(x)), v_one(-KV_ERF_END)));
  vec q = v_fma(v_one(-0x1.0793acp-15f), t, v_one(0x1.43a1fep-12f));
  q = v_fma(q, t, v_one(-0x1.0e7f30p-10f));
  q = v_fma(q, t, v_one(-0x1.19fc78p-11f));
  q = v_fma(q, t, v_one(0x1.40e09cp-6f));
  q = v_fma(q, t, v_one(-0x1.a58f78p-4f));
  q = v_fma(q, t, v_one(-0x1.45f020p-1f));
  q = v_fma(q, t, v_one(-0x1.20dd88p+0f));
  q = v_sub(v_one(1.0f), v_expm(v_mul(t, q)));
  return v_where_below(x, v_negative(q), q);
}

INLINE vec v_gelu(vec x) {
  vec e = v_erf(v_mul(x, v_one(KV_HALF_ROOT)));
  return v_mul(v_mul(x, v_one(0.5f)), v_add(v_one(1.0f), e));
}

/* kv_tanh. */
INLINE vec v_tanh(vec x) {
  vec a = v_magnitude(x), z = v_mul(x, x), one = v_one(1.0f);
  vec e = v_expm(v_mul(a, v_one(-2.0f)));
  vec p = v_fma(v_one(-0x1.75e13cp-8f), z, v_one(0x1.522678p-6f));
  p = v_fma(p, z, v_one(-0x1.b83c54p-5f));
  p = v_fma(p, z, v_one(0x1.110706p-3f));
  p = v_fma(p, z, v_one(-0x1.555532p-2f));
  p = v_fma(v_mul(x, z), p, x);
  e = v_div(v_sub(one, e), v_add(one, e));
  e = v_where_below(x, v_negative(e), e);
  return v_where_below(v_sub(a, v_one(0.625f)), p, e);
}

static void softcap(float c, int m, int n, float *s, size_t lds) {
  if (c == 0) return;
  for (; m > 0; m--, s += lds) {
    const vec cap = v_one(c), none = v_one(0.0f);
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
      vec x = v_load(s + i), y = v_mul(cap, v_tanh(v_div(x, cap)));
      v_store(s + i, v_fma(x, none, y));
    }
    for (; i < n; i++) s[i] = kv_softcap(c, s[i]);
  }
}

static void silu_times(const float *x, const float *by, int n, float *y) {
  int i = 0;
  for (; i + LANES <= n; i += LANES)
    v_store(y + i, v_mul(v_silu(v_load(x + i)), v_load(by + i)));
  for (; i < n; i++) y[i] = kv_mul(kv_silu(x[i]), by[i]);
}

static void gelu(const float *x, int n, float *y) {
  int i = 0;
  for (; i + LANES <= n; i += LANES) v_store(y + i, v_gelu(v_load(x + i)));
  for (; i < n; i++) y[i] = kv_gelu(x[i]);
}

#endif

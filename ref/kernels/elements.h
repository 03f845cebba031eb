/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels that go along one row: element by element or as an integer sum,
 * so any width gives the same bits. Part of ref/kernels/kernels.c.
 */
#ifndef KV_REF_KERNELS_ELEMENTS_H
#define KV_REF_KERNELS_ELEMENTS_H

/* A row's element x, and LANES of them. */
INLINE float one_of(kv_dtype type, bytes *row, size_t x) {
  uint16_t h;
  float f;
  if (type == KV_F32) {
    memcpy(&f, row + 4 * x, 4);
    return f;
  }
  memcpy(&h, row + 2 * x, 2);
  return type == KV_F16 ? kv_from_f16(h) : kv_from_bf16(h);
}

INLINE vec vec_of(kv_dtype type, bytes *row, size_t x) {
  if (type == KV_F16) return v_from_f16(row + 2 * x);
  if (type == KV_BF16) return v_from_bf16(row + 2 * x);
  vec v;
  memcpy(&v, row + 4 * x, sizeof v);
  return v;
}

INLINE void widen_as(kv_dtype type, bytes *in, size_t n, float *out) {
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) v_store(out + i, vec_of(type, in, i));
  for (; i < n; i++) out[i] = one_of(type, in, i);
}

static void widen(kv_dtype type, const void *in, size_t n, float *out) {
  switch (type) {
  case KV_F16:
    widen_as(KV_F16, in, n, out);
    break;
  case KV_BF16:
    widen_as(KV_BF16, in, n, out);
    break;
  case KV_F32:
    memcpy(out, in, 4 * n);
    break;
  }
}

/* Four running maxima hide the latency; the order of a maximum is free. */
static float max(const float *s, int n) {
  vec m0 = v_one(s[0]), m1 = m0, m2 = m0, m3 = m0;
  int i = 0;
  for (; i + 4 * LANES <= n; i += 4 * LANES) {
    m0 = v_max(m0, v_load(s + i));
    m1 = v_max(m1, v_load(s + i + LANES));
    m2 = v_max(m2, v_load(s + i + 2 * LANES));
    m3 = v_max(m3, v_load(s + i + 3 * LANES));
  }
  for (; i + LANES <= n; i += LANES) m0 = v_max(m0, v_load(s + i));
  if (i < n) m0 = v_max(m0, v_load_part(s + i, n - i, s[0]));
  return v_top(v_max(v_max(m0, m1), v_max(m2, m3)));
}

/* kv_expm, step for step. */
INLINE vec v_expm(vec x) {
  const vec magic = v_one(0x1.8p23f), one = v_one(1.0f);
  vec t = v_fma(x, v_one(0x1.715476p+0f), magic);
  vec n = v_sub(t, magic);
  vec r = v_fma(n, v_one(-0x1.62e400p-1f), x);
  r = v_fma(n, v_one(-0x1.7f7d1cp-20f), r);
  vec q = v_fma(v_one(0x1.6a523ap-10f), r, v_one(0x1.12396ep-7f));
  q = v_fma(q, r, v_one(0x1.5558aap-5f));
  q = v_fma(q, r, v_one(0x1.555492p-3f));
  q = v_fma(q, r, v_one(0x1.fffffcp-2f));
  q = v_fma(q, r, one);
  q = v_fma(q, r, one);
  vint k = vi_sub(v_bits(t), vi_one(0x4b400000u));
  return v_keep(x, -87.0f, v_float(vi_add(v_bits(q), vi_shl23(k))));
}

/* Lanes past the end hold -inf and give 0. */
static int64_t exp_sum(const float *s, float m, int n, float *e) {
  const vec top = v_one(m);
  vfix sum = vfix_zero();
  int i = 0;
  for (; i + LANES <= n; i += LANES) {
    vec v = v_expm(v_sub(v_load(s + i), top));
    v_store(e + i, v);
    sum = vfix_add(sum, v);
  }
  if (i < n) {
    vec v = v_load_part(s + i, n - i, -__builtin_inff());
    v = v_expm(v_sub(v, top));
    v_store_part(e + i, n - i, v);
    sum = vfix_add(sum, v);
  }
  return vfix_total(sum);
}

static void scale_by(float r, int n, float *p) {
  const vec by = v_one(r);
  int i = 0;
  for (; i + LANES <= n; i += LANES) {
    v_store(p + i, v_mul(v_load(p + i), by));
  }
  for (; i < n; i++) p[i] = kv_mul(p[i], r);
}

static void fix_add(const float *p, int n, int64_t *acc) {
  int i = 0;
  for (; i + LANES <= n; i += LANES) v_fix_add(v_load(p + i), acc + i);
  for (; i < n; i++) acc[i] += kv_fix(p[i]);
}

/* kv_log, step for step. */
INLINE vec v_log(vec x) {
  vint u = v_bits(x);
  vint e = vi_sar23(vi_sub(u, vi_one(0x3f2aaaabu)));
  vec f = v_sub(v_float(vi_sub(u, vi_shl23(e))), v_one(1.0f));
  vec s = v_mul(f, f);
  vec q = v_fma(v_one(-0x1.07d518p-3f), f, v_one(0x1.1e699p-3f));
  q = v_fma(q, f, v_one(-0x1.f32c66p-4f));
  q = v_fma(q, f, v_one(0x1.1ed606p-3f));
  q = v_fma(q, f, v_one(-0x1.559c8cp-3f));
  q = v_fma(q, f, v_one(0x1.99d048p-3f));
  q = v_fma(q, f, v_one(-0x1.fffefap-3f));
  q = v_fma(q, f, v_one(0x1.555506p-2f));
  q = v_fma(q, f, v_one(-0.5f));
  q = v_fma(q, s, f);
  return v_fma(v_from_int(e), v_one(0x1.62e430p-1f), q);
}

static void log_of(const float *x, int n, float *y) {
  int i = 0;
  for (; i + LANES <= n; i += LANES) v_store(y + i, v_log(v_load(x + i)));
  if (i < n) {
    v_store_part(y + i, n - i, v_log(v_load_part(x + i, n - i, 1.0f)));
  }
}

#endif

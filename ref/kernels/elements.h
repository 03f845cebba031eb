/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels that work along one row (widen, max .. fix_rows and log of
 * ref/kernels/kernels.h). They work element by element or add integers, so any
 * width gives the same bits. Part of ref/kernels/kernels.c.
 */
#ifndef KV_REF_KERNELS_ELEMENTS_H
#define KV_REF_KERNELS_ELEMENTS_H

/* Element x of a row as fp32; below, elements x .. x + LANES - 1. */
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

/* Four running maxima hide the latency; the order does not change a maximum. */
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

/* The same. One register becomes NaN if a value is not finite, because zero
 * times that value is NaN. */
static float max_finite(const float *s, int n, bool *finite) {
  const vec zero = v_one(0.0f);
  vec m[4], z[4];
  int i = 0;
  UNROLL for (int v = 0; v < 4; v++) m[v] = v_one(s[0]), z[v] = zero;
  for (; i + 4 * LANES <= n; i += 4 * LANES)
    UNROLL for (int v = 0; v < 4; v++) {
      vec x = v_load(s + i + v * LANES);
      m[v] = v_max(m[v], x);
      z[v] = v_spoil(x, z[v]);
    }
  for (int left; i < n; i += LANES) {
    left = n - i < LANES ? n - i : LANES;
    vec x = v_load_part(s + i, left, s[0]);
    m[0] = v_max(m[0], x);
    z[0] = v_spoil(x, z[0]);
  }
  z[0] = v_add(v_add(z[0], z[1]), v_add(z[2], z[3]));
  *finite = v_is_zero(z[0]);
  return v_top(v_max(v_max(m[0], m[1]), v_max(m[2], m[3])));
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
  /* k is in the low bits of t; the shift drops the others */
  return v_keep_sum(x, -87.0f, v_bits(q), vi_shl23(v_bits(t)));
}

/* Sums of RN(p * 2^40) for 0 <= p <= 1 in two int32 a lane: p is split into a
 * multiple of 2^-18, `high`, and the rest, at most 2^-19 in magnitude, rounded
 * to 2^-40, `low`. The multiple is even in units of 2^-40, so ties round as
 * they do for p. Adding 1.5 * 2^(23 - b) rounds to 2^-b and leaves the integer
 * in the low bits; those of the constants are subtracted at the end, all modulo
 * 2^32. This takes six additions a vector, fewer than with 64-bit integers,
 * which some machines cannot multiply in vectors. */
typedef struct vsums {
  vint high, low; /* with the bits of the constants in them */
} vsums;

#define COARSE 0x1.8p5f  /* units of 2^-18 */
#define FINE 0x1.8p-17f  /* units of 2^-40 */
enum { HIGH_BITS = 22 }; /* a unit of high is 2^22 of low */

INLINE vsums vsums_zero(void) { return (vsums){vi_one(0), vi_one(0)}; }

INLINE void vsums_add(vsums *s, vec p) {
  vec u = v_add(p, v_one(COARSE));
  vec rest = v_sub(p, v_sub(u, v_one(COARSE))); /* exact */
  s->high = vi_add(s->high, v_bits(u));
  s->low = vi_add(s->low, v_bits(v_add(rest, v_one(FINE))));
}

/* Without the bits of the constants of `count` additions. */
INLINE vsums vsums_plain(vsums s, int count) {
  const uint32_t n = (uint32_t)count;
  return (vsums){vi_sub(s.high, vi_one(n * kv_bits(COARSE))),
                 vi_sub(s.low, vi_one(n * kv_bits(FINE)))};
}

/* The sum of all lanes, in 2^-40, after `count` <= SUMS additions, of which all
 * lanes together stay within an int32: SUMS * 16 lanes * 2^21. */
enum { SUMS = 32 };
INLINE int64_t vsums_total(vsums s, int count) {
  const uint32_t n = (uint32_t)(count * LANES);
  uint32_t high = (uint32_t)vi_total(s.high) - n * kv_bits(COARSE);
  uint32_t low = (uint32_t)vi_total(s.low) - n * kv_bits(FINE);
  return (int32_t)high * ((int64_t)1 << HIGH_BITS) + (int32_t)low;
}

/* exp_sum of at most SUMS vectors; lanes past the end hold -inf and give 0. */
INLINE int64_t exp_some(const float *s, vec top, int n, float *e) {
  vsums sum = vsums_zero();
  int i = 0;
  for (; i + LANES <= n; i += LANES) {
    vec v = v_expm(v_sub(v_load(s + i), top));
    v_store(e + i, v);
    vsums_add(&sum, v);
  }
  if (i < n) {
    vec v = v_load_part(s + i, n - i, -__builtin_inff());
    v = v_expm(v_sub(v, top));
    v_store_part(e + i, n - i, v);
    vsums_add(&sum, v);
  }
  return vsums_total(sum, (n + LANES - 1) / LANES);
}

static int64_t exp_sum(const float *s, float m, int n, float *e) {
  const vec top = v_one(m);
  int64_t sum = 0;
  for (int i = 0, some; i < n; i += some) {
    some = n - i < SUMS * LANES ? n - i : SUMS * LANES;
    sum += exp_some(s + i, top, some, e + i);
  }
  return sum;
}

static int64_t exp_over(const float *less, float t, int n, float *e) {
  const vec by = v_one(t), zero = v_one(0.0f);
  int64_t sum = 0;
  for (int i = 0, some; i < n; i += some) {
    int j = 0;
    some = n - i < SUMS * LANES ? n - i : SUMS * LANES;
    for (; j + LANES <= some; j += LANES)
      v_store(e + i + j, v_div(v_load(less + i + j), by));
    for (; j < some; j++) e[i + j] = kv_div(less[i + j], t);
    sum += exp_some(e + i, zero, some, e + i);
  }
  return sum;
}

/* From one vector of RN(less / t), adds the exponentials e and, if `fallen` is
 * not NULL, e * u, which is at most .37 (1 over Euler's number), and 0 where e
 * is 0 for any u. */
INLINE void masses_add(vec x, vsums *mass, vsums *fallen) {
  vec e = v_expm(x), lost;
  vsums_add(mass, e);
  if (!fallen) return;
  lost = v_mul(e, v_sub(v_one(0.0f), x));
  vsums_add(fallen, v_keep_sum(x, -87.0f, v_bits(lost), vi_one(0)));
}

/* exp_mass of at most SUMS vectors, t in all lanes of `by`. */
INLINE int64_t masses_of_some(const float *less, vec by, int n,
                              int64_t *fallen) {
  const int vectors = (n + LANES - 1) / LANES;
  vsums mass = vsums_zero(), lost = vsums_zero();
  int i = 0;
  for (; i + LANES <= n; i += LANES)
    masses_add(v_div(v_load(less + i), by), &mass, fallen ? &lost : NULL);
  if (i < n) {
    vec v = v_load_part(less + i, n - i, -__builtin_inff());
    masses_add(v_div(v, by), &mass, fallen ? &lost : NULL);
  }
  if (fallen) *fallen += vsums_total(lost, vectors);
  return vsums_total(mass, vectors);
}

INLINE int64_t masses(const float *less, float t, int n, int64_t *fallen) {
  const vec by = v_one(t);
  int64_t sum = 0;
  for (int i = 0, some; i < n; i += some) {
    some = n - i < SUMS * LANES ? n - i : SUMS * LANES;
    sum += masses_of_some(less + i, by, some, fallen);
  }
  return sum;
}

static int64_t exp_mass(const float *less, float t, int n, int64_t *fallen) {
  if (!fallen) return masses(less, t, n, NULL);
  *fallen = 0;
  return masses(less, t, n, fallen);
}

/* After i elements, at most i + LANES are written. */
static int at_least(const float *s, int n, float least, float *value,
                    int32_t *place) {
  int m = 0, i = 0;
  for (; i + LANES <= n; i += LANES)
    m += v_pick(v_load(s + i), least, i, value + m, place + m);
  return m + pick_each(n - i, s + i, least, i, value + m, place + m);
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

/* Rows of one call of fix_some, whose sums stay in an int32 a lane:
 * FIX_ROWS * 2^21. */
enum { FIX_ROWS = 512, FIX_VECTORS = LANES > 8 ? 4 : 2 };

/* fix_rows of `vectors` registers of elements of a row. */
INLINE void fix_columns(int vectors, int m, const float *e, size_t lde,
                        const float *r, int64_t *acc) {
  vsums sum[FIX_VECTORS];
  UNROLL for (int v = 0; v < vectors; v++) sum[v] = vsums_zero();
  for (int i = 0; i < m; i++, e += lde) {
    const vec by = v_one(r[i]);
    UNROLL for (int v = 0; v < vectors; v++)
        vsums_add(&sum[v], v_mul(v_load(e + v * LANES), by));
  }
  UNROLL for (int v = 0; v < vectors; v++) {
    vsums s = vsums_plain(sum[v], m);
    vi_widen_add(s.high, HIGH_BITS, s.low, acc + v * LANES);
  }
}

/* fix_rows of the last n < LANES elements. */
static void fix_last(int m, int n, const float *e, size_t lde, const float *r,
                     int64_t *acc) {
  vsums sum = vsums_zero();
  int64_t all[LANES] = {0};
  for (int i = 0; i < m; i++, e += lde)
    vsums_add(&sum, v_mul(v_load_part(e, n, 0.0f), v_one(r[i])));
  sum = vsums_plain(sum, m);
  vi_widen_add(sum.high, HIGH_BITS, sum.low, all);
  for (int j = 0; j < n; j++) acc[j] += all[j];
}

/* Columns are processed a few vectors at a time, over all rows. */
static void fix_some(int m, int n, const float *e, size_t lde, const float *r,
                     int64_t *acc) {
  const int step = FIX_VECTORS * LANES;
  int j = 0;
  for (; j + step <= n; j += step)
    fix_columns(FIX_VECTORS, m, e + j, lde, r, acc + j);
  for (; j + LANES <= n; j += LANES) fix_columns(1, m, e + j, lde, r, acc + j);
  if (j < n) fix_last(m, n - j, e + j, lde, r, acc + j);
}

static void fix_rows(int m, int n, const float *e, size_t lde, const float *r,
                     int64_t *acc) {
  for (int i = 0; i < m; i += FIX_ROWS)
    fix_some(m - i < FIX_ROWS ? m - i : FIX_ROWS, n, e + (size_t)i * lde, lde,
             r + i, acc);
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

/* Activations along a row, ref/ground/activation.h and softcap.h step for step,
 * by vectors. Part of ref/kernels/kernels.c; the three static functions without
 * INLINE are its kernels softcap, silu_times and gelu (ref/kernels/kernels.h).
 */

/* In each lane yes where x < 0, else no: their bits are added after the other
 * one became +0, whose bits are 0. */
INLINE vec v_where_below(vec x, vec yes, vec no) {
  vint zero = vi_one(0), below, rest;
  below =
      v_bits(v_keep_sum(v_sub(v_one(0.0f), x), 0x1p-149f, v_bits(yes), zero));
  rest = v_bits(v_keep_sum(x, 0.0f, v_bits(no), zero));
  return v_float(vi_add(below, rest));
}

/* v_negative: -x, but +0 for either zero. v_magnitude: |x|. */
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of the canonical arithmetic:
 * - expm(0) = 1, log(1) = 0, expm never leaves [0, 1] nor gives a subnormal;
 *   expm within 0.9 ulp and log within 0.94 ulp of the true value;
 * - the order of keys is the order of numbers, with -0 below +0;
 * - every half and bfloat16 widens exactly and narrows back, every tie goes
 *   to the even neighbour and every neighbour of a tie to its own side;
 * - fixed point rounds once each way, ties to even, and sums commute;
 * - sine and cosine lie within 0.50001 ulp, odd and even to the bit; rotation
 *   is its written sequence, in place too, in both layouts;
 * - the float ground switches off what a library may have switched on.
 */
#include "ref/ground/arith.h"
#include "ref/ground/rope.h"
#include "ref/kernels/kernels.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static uint64_t seed = 0x9e3779b97f4a7c15u;

static float any_finite(void) {
  float x;
  do {
    x = kv_float((uint32_t)(draw(&seed) >> 32));
  } while (!kv_finite(x));
  return x;
}

/* |got - want| in units of the last place of want's binade. */
static double ulps(float got, long double want) {
  int e;
  frexpl(want, &e);
  return (double)(fabsl((long double)got - want) / ldexpl(1, e - 24));
}

TEST(exp_is_close) {
  double worst = 0;
  assert_true(kv_expm(0.0f) == 1.0f && kv_expm(-0.0f) == 1.0f);
  assert_true(kv_bits(kv_expm(-87.5f)) == 0);
  assert_true(kv_bits(kv_expm(-INFINITY)) == 0);
  assert_true(kv_bits(kv_expm(NAN)) == 0);
  assert_true(kv_expm(-87.0f) >= FLT_MIN);
  for (uint32_t u = 0x80000000u; u <= kv_bits(-87.0f); u += 1009) {
    float x = kv_float(u), y = kv_expm(x);
    double error = ulps(y, expl((long double)x));
    if (error > worst) worst = error;
    assert_true(y > 0 && y <= 1);
  }
  assert_true(worst < 0.9);
  assert_true(worst > 0.8); /* the sequence itself, not a better one */
}

TEST(log_is_close) {
  double worst = 0;
  assert_int_equal(kv_bits(kv_log(1.0f)), 0);
  for (uint32_t u = 0x00800000u; u < 0x7f800000u; u += 1013) {
    float x = kv_float(u);
    if (x == 1.0f) continue;
    double error = ulps(kv_log(x), logl((long double)x));
    if (error > worst) worst = error;
  }
  assert_true(worst < 0.94);
}

TEST(keys_order) {
  assert_true(kv_key(-0.0f) < kv_key(0.0f));
  assert_int_equal(kv_key(0.0f), 0x80000000u);
  assert_int_equal(kv_bits(kv_max(-0.0f, 0.0f)), 0);
  assert_int_equal(kv_bits(kv_min(0.0f, -0.0f)), 0x80000000u);
  for (int i = 0; i < 1000000; i++) {
    float a = any_finite(), b = any_finite();
    if (a < b) assert_true(kv_key(a) < kv_key(b));
    if (a > b) assert_true(kv_key(a) > kv_key(b));
  }
}

/* A 16-bit format's value from its fields, by ldexp. */
static float half_value(uint32_t h) {
  int e = (int)(h >> 10 & 31), f = (int)(h & 1023);
  double x = e ? ldexp(1024 + f, e - 25) : ldexp(f, -24);
  if (e == 31) x = (double)INFINITY;
  return (float)(h & 0x8000 ? -x : x);
}

TEST(halves_widen) {
  for (uint32_t h = 0; h < 65536; h++) {
    float x = kv_from_f16((uint16_t)h), y = kv_from_bf16((uint16_t)h);
    assert_int_equal(kv_bits(y), h << 16);
    if ((h & 0x7fff) > 0x7c00) {
      assert_true(isnan(x));
      assert_true(isnan(kv_from_f16(kv_to_f16(x))));
    } else {
      assert_int_equal(kv_bits(x), kv_bits(half_value(h)));
      assert_int_equal(kv_to_f16(x), h);
    }
    if (isnan(y)) {
      assert_true(isnan(kv_from_bf16(kv_to_bf16(y))));
    } else {
      assert_int_equal(kv_to_bf16(y), h);
    }
  }
}

/* Between h and its larger neighbour: the tie and the floats beside it. */
static void tie_splits(uint32_t h, float tie, uint16_t (*narrow)(float)) {
  uint32_t u = kv_bits(tie), even = h & 1 ? h + 1 : h;
  assert_int_equal(narrow(tie), even);
  assert_int_equal(narrow(-tie), even | 0x8000);
  assert_int_equal(narrow(kv_float(u - 1)), h);
  assert_int_equal(narrow(kv_float(u + 1)), h + 1);
}

static uint16_t to_f16(float x) { return kv_to_f16(x); }
static uint16_t to_bf16(float x) { return kv_to_bf16(x); }

TEST(ties_go_even) {
  for (uint32_t h = 0; h < 0x7c00; h++) {
    double next = h == 0x7bff ? 65536.0 : (double)half_value(h + 1);
    double tie = ((double)half_value(h) + next) / 2;
    tie_splits(h, (float)tie, to_f16);
  }
  for (uint32_t h = 0; h < 0x7f80; h++)
    tie_splits(h, kv_float(h << 16 | 0x8000u), to_bf16);
  assert_int_equal(kv_to_f16(1e30f), 0x7c00);
  assert_int_equal(kv_to_f16(-1e30f), 0xfc00);
  assert_int_equal(kv_to_f16(kv_float(1)), 0);
}

TEST(fixed_point_rounds_once) {
  for (int i = 0; i < 1000000; i++) {
    uint32_t below_2 = (uint32_t)(draw(&seed) >> 32) & 0xbfffffffu;
    float p = kv_mul(kv_float(below_2), i % 3 ? 1.0f : 0x1p20f);
    int64_t want = (int64_t)llrintl(ldexpl((long double)p, 40));
    assert_true(kv_fix(p) == want);
    if (p >= 0 && p <= 0x1p11f) assert_true(kv_fix_exp(p) == want);
  }
  for (int k = -9; k <= 9; k++) { /* ties to even */
    int64_t even = k % 2 == 0 ? k : k + 1;
    assert_true(kv_fix(ldexpf((float)(2 * k + 1), -41)) == even);
    if (k >= 0) assert_true(kv_fix_exp((float)(2 * k + 1) * 0x1p-41f) == even);
  }
  assert_true(kv_fix_exp(0) == 0 && kv_fix_exp(0x1p11f) == (int64_t)1 << 51);
  assert_true(kv_fix(0x1p22f) == (int64_t)1 << 62);
  assert_true(kv_fix(-0x1p22f) == -((int64_t)1 << 62));
  /* One past a tie of binary32, lost by a detour through binary64. */
  int64_t s = ((int64_t)1 << 60) + ((int64_t)1 << 36) + 1;
  assert_true(kv_unfix(s) == 0x1.000002p20f);
  assert_true(kv_unfix(s - 1) == 0x1p20f);
}

TEST(sums_commute) {
  float p[999];
  int64_t forward = 0, backward = 0, mixed = 0;
  for (int i = 0; i < 999; i++)
    p[i] = kv_expm(-(float)(draw(&seed) >> 40) * 1e-6f);
  for (int i = 0; i < 999; i++) {
    forward += kv_fix(p[i]);
    backward += kv_fix(p[998 - i]);
    mixed += kv_fix(p[i * 500 % 999]);
  }
  assert_true(forward == backward && forward == mixed);
}

TEST(sincos_is_close) {
  double worst = 0;
  float s, c, t, d;
  kv_sincos(0.0f, &s, &c);
  assert_true(kv_bits(s) == 0 && c == 1.0f);
  for (int i = 0; i < 400000; i++) {
    float x = kv_float((uint32_t)(draw(&seed) >> 33) % kv_bits(0x1p24f));
    if (i & 1) x = (float)(draw(&seed) >> 40); /* integers: large angles */
    if (x == 0) continue;
    kv_sincos(x, &s, &c);
    kv_sincos(-x, &t, &d);
    assert_true(kv_bits(t) == (kv_bits(s) ^ 0x80000000u));
    assert_true(kv_bits(d) == kv_bits(c));
    double es = ulps(s, sinl((long double)x)), ec = ulps(c, cosl(x));
    if (fabsf(s) < FLT_MIN) es = 0;
    if (es > worst) worst = es;
    if (ec > worst) worst = ec;
  }
  assert_true(worst <= 0.50001);
}

TEST(angles_are_rounded) {
  const float freq[3] = {1.0f, 0x1.b2b3c4p-4f, 0x1.23456ap-9f};
  float sc[6], s, c;
  kv_rope_table(freq, 6, 131071, sc);
  for (int i = 0; i < 3; i++) {
    kv_sincos(kv_mul(131071.0f, freq[i]), &s, &c);
    assert_true(sc[2 * i] == s && sc[2 * i + 1] == c);
  }
  kv_rope_table(freq, 6, -131071, sc);
  assert_true(sc[4] == -s && sc[5] == c);
}

TEST(rotation_is_its_sequence) {
  enum { D = 46 };
  float freq[D / 2], sc[D], x[D], y[D], z[D];
  int seen = 0;
  for (int i = 0; i < D / 2; i++) freq[i] = 1.0f / (float)(1 << (i / 2));
  kv_rope_table(freq, D, 777, sc);
  for (int inter = 0; inter < 2; inter++) {
    for (int i = 0; i < D; i++) x[i] = kv_expm(-(float)i / 7) - 0.3f;
    kv_rope_rotate(D, inter, sc, x, y);
    kv_rope_unrotate(D, inter, sc, y, z);
    for (int i = 0; i < D / 2; i++) {
      int a = inter ? 2 * i : i, b = inter ? 2 * i + 1 : i + D / 2;
      float s = sc[2 * i], c = sc[2 * i + 1];
      assert_true(y[a] == fmaf(-x[b], s, kv_mul(x[a], c)));
      assert_true(y[b] == fmaf(x[b], c, kv_mul(x[a], s)));
      assert_true(z[a] == fmaf(y[b], s, kv_mul(y[a], c)));
      assert_true(z[b] == fmaf(-y[a], s, kv_mul(y[b], c)));
      seen += z[b] != fmaf(y[b], c, -kv_mul(y[a], s));
      assert_true(fabsf(z[a] - x[a]) < 1e-6f && fabsf(z[b] - x[b]) < 1e-6f);
    }
    kv_rope_rotate(D, inter, sc, x, x);
    assert_memory_equal(x, y, sizeof x);
    kv_rope_unrotate(D, inter, sc, x, x);
    assert_memory_equal(x, z, sizeof x);
  }
  assert_true(seen > 0); /* the other order of the inverse would show */
}

TEST(ground_keeps_subnormals) {
#if defined(__x86_64__)
  /* volatile: a compiler moves arithmetic across the control register */
  const unsigned before = __builtin_ia32_stmxcsr();
  volatile float least = 0x1p-126f, sub = 0x1p-127f, three = 3.0f;
  volatile float flushed, kept, back, third;
  __builtin_ia32_ldmxcsr(before | 0xe040u);
  flushed = least * 0.5f;
  kv_float_ground();
  kept = least * 0.5f;
  back = sub * 2.0f;
  third = 1.0f / three; /* nearest is up */
  __builtin_ia32_ldmxcsr(before);
  assert_int_equal(kv_bits(flushed), 0);
  assert_int_equal(kv_bits(kept), 0x00400000u);
  assert_int_equal(kv_bits(back), 0x00800000u);
  assert_int_equal(kv_bits(third), 0x3eaaaaabu);
#else
  skip();
#endif
}

/* Whoever changes the mode is seen, in words, and undone: MXCSR, and the x87
 * word that libc's printf obeys. A trap would end this process. */
TEST(astray_is_named) {
#if defined(__x86_64__)
  static const struct {
    int round;
    unsigned set, clear; /* of MXCSR */
    const char *words;
  } ways[] = {{FE_UPWARD, 0, 0, "rounding not to nearest"},
              {FE_TOWARDZERO, 0, 0, "rounding not to nearest"},
              {FE_TONEAREST, 0x8000, 0, "flushed to zero"},
              {FE_TONEAREST, 0x0040, 0, "taken as zero"},
              {FE_TONEAREST, 0, 0x0200, "that trap"}};
  volatile float zero = 0, one = 1;
  char text[16];
  kv_float_ground();
  assert_null(kv_float_astray());
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    fesetround(ways[i].round);
    unsigned word = __builtin_ia32_stmxcsr() | ways[i].set;
    __builtin_ia32_ldmxcsr(word & ~ways[i].clear);
    const char *words = kv_float_astray();
    kv_float_ground();
    assert_non_null(words);
    assert_non_null(strstr(words, ways[i].words));
    assert_null(kv_float_astray());
    assert_int_equal(fegetround(), FE_TONEAREST);
    assert_false(kv_finite(one / zero));
    snprintf(text, sizeof text, "%.1f", 0.26);
    assert_string_equal(text, "0.3");
  }
#else
  skip();
#endif
}

int main(void) { return tests_run("arith", NULL, NULL); }

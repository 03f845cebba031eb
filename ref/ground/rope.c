/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary positions. Contract: ref/ground/rope.h.
 *
 * Sine and cosine of a binary32 x, in binary64 with explicit fma: |x| is
 * reduced by n = RN(|x| 2/pi), r = |x| - n pi/2. With HALF_PI the binary64
 * nearest pi/2 and n < 2^24 the first step is exact: n HALF_PI and |x| are
 * multiples of 2^-52 when n > 0, their difference is below 1 and fits 53
 * bits. The second step takes off n times what HALF_PI lacks; what both lack
 * is below n 2^-108. Then the Taylor series on |r| <= pi/4 (+ 1e-8): sine to
 * r^17 (the next term is below 2^-61 of the result), cosine to r^16 (below
 * 2^-58). The coefficients are the binary64 nearest 1/k!.
 *
 * Measured against an 80-bit library over 1.6 million values of
 * 0 < |x| < 2^24, a fixed stride through the bit patterns: rounded to
 * binary32 both are within 0.499999875 ulp, that is, correctly rounded there.
 *
 * Odd and even to the bit: all is computed from |x|, the sign of x returns
 * to the sine at the end (so the sine of -0 is -0).
 */
#include "ref/ground/rope.h"
#include "ref/ground/arith.h"

#include <assert.h>
#include <stdlib.h>

#define TWO_OVER_PI 0x1.45f306dc9c883p-1
#define HALF_PI 0x1.921fb54442d18p+0
#define HALF_PI_REST 0x1.1a62633145c07p-54 /* pi/2 - HALF_PI */
#define MAGIC 0x1.8p52 /* y + MAGIC - MAGIC: the integer nearest y */

/* 1/k! with alternating sign, highest first: the series in r^2. */
static const double sine_terms[] = {
    0x1.952c77030ad4ap-49,  -0x1.ae7f3e733b81fp-41, 0x1.6124613a86d09p-33,
    -0x1.ae64567f544e4p-26, 0x1.71de3a556c734p-19,  -0x1.a01a01a01a01ap-13,
    0x1.1111111111111p-7,   -0x1.5555555555555p-3};
static const double cosine_terms[] = {
    0x1.ae7f3e733b81fp-45,  -0x1.93974a8c07c9dp-37, 0x1.1eed8eff8d898p-29,
    -0x1.27e4fb7789f5cp-22, 0x1.a01a01a01a01ap-16,  -0x1.6c16c16c16c17p-10,
    0x1.5555555555555p-5,   -0x1.0000000000000p-1};

/* sum of term[i] z^(7 - i), by Horner. */
static double series(const double term[8], double z) {
  double y = term[0];
  for (int i = 1; i < 8; i++) y = __builtin_fma(y, z, term[i]);
  return y;
}

void kv_sincos(float x, float *sine, float *cosine) {
  double a = x < 0 ? -(double)x : (double)x;
  assert(a < 0x1p24 && "the angle is in the range of the reduction");
  double n = (a * TWO_OVER_PI + MAGIC) - MAGIC;
  double r = __builtin_fma(-n, HALF_PI, a);
  r = __builtin_fma(-n, HALF_PI_REST, r);
  double z = r * r;
  double s = __builtin_fma(r * z, series(sine_terms, z), r);
  double c = __builtin_fma(z, series(cosine_terms, z), 1.0);
  int quadrant = (int)n & 3;
  double y = quadrant & 1 ? c : s, w = quadrant & 1 ? s : c;
  if (quadrant & 2) y = -y;
  if (quadrant == 1 || quadrant == 2) w = -w;
  uint32_t sign = kv_bits(x) & 0x80000000u;
  *sine = kv_float(kv_bits((float)y) ^ sign);
  *cosine = (float)w;
}

bool kv_rope_reaches(const kv_rope *rope, int d, int n_tokens) {
  int64_t last = (int64_t)kv_rope_position(rope, 0) + n_tokens - 1;
  if (last > INT32_MAX) return false;
  for (int i = 0; i < d / 2; i++) {
    float angle = kv_mul((float)last, rope->inv_freq[i]);
    if (!(angle < 0x1p24f && angle > -0x1p24f)) return false;
  }
  return true;
}

void kv_rope_table(const float *inv_freq, int d, int32_t position, float *sc) {
  for (int i = 0; i < d / 2; i++) {
    float angle = kv_mul((float)position, inv_freq[i]);
    kv_sincos(angle, &sc[2 * i], &sc[2 * i + 1]);
  }
}

/* Pairs (first, second): i and i + d/2, or 2i and 2i + 1. Products are rounded
 * before the fma (arithmetic 6). Both of a pair are read before either is
 * written, so y may be x. */
static inline __attribute__((always_inline)) void
turn(int d, int interleaved, const float *sc, const float *x, float *y) {
  const int step = interleaved ? 2 : 1, apart = interleaved ? 1 : d / 2;
  for (int i = 0; i < d / 2; i++) {
    int a = i * step, b = a + apart;
    float s = sc[2 * i], c = sc[2 * i + 1], x1 = x[a], x2 = x[b];
    y[a] = kv_fma(-x2, s, kv_mul(x1, c));
    y[b] = kv_fma(x2, c, kv_mul(x1, s));
  }
}

static inline __attribute__((always_inline)) void
turn_back(int d, int interleaved, const float *sc, const float *y, float *x) {
  const int step = interleaved ? 2 : 1, apart = interleaved ? 1 : d / 2;
  for (int i = 0; i < d / 2; i++) {
    int a = i * step, b = a + apart;
    float s = sc[2 * i], c = sc[2 * i + 1], y1 = y[a], y2 = y[b];
    x[a] = kv_fma(y2, s, kv_mul(y1, c));
    x[b] = kv_fma(-y1, s, kv_mul(y2, c));
  }
}

/* Rows that do not overlap: a register takes several pairs of halves. */
static inline __attribute__((always_inline)) void
move(int d, int step, int apart, const float *restrict from,
     const float *restrict to, const float *restrict x, float *restrict y) {
  for (int i = 0; i < d / 2; i++) {
    int a = i * step, b = a + apart;
    float s = from[2 * i], c = from[2 * i + 1];
    float x1 = kv_fma(x[b], s, kv_mul(x[a], c));
    float x2 = kv_fma(-x[a], s, kv_mul(x[b], c));
    s = to[2 * i], c = to[2 * i + 1];
    y[a] = kv_fma(-x2, s, kv_mul(x1, c));
    y[b] = kv_fma(x2, c, kv_mul(x1, s));
  }
}

#if defined(__x86_64__)
/* The same bodies for processors that have the instruction: a library call for
 * every fmaf is about ten times slower. */
__attribute__((target("fma"))) static void
turn_fma(int d, int interleaved, const float *sc, const float *x, float *y) {
  turn(d, interleaved, sc, x, y);
}

__attribute__((target("fma"))) static void turn_back_fma(int d, int interleaved,
                                                         const float *sc,
                                                         const float *y,
                                                         float *x) {
  turn_back(d, interleaved, sc, y, x);
}

__attribute__((target("fma"))) static void
move_fma(int d, int step, int apart, const float *restrict from,
         const float *restrict to, const float *restrict x, float *restrict y) {
  if (step == 1)
    move(d, 1, apart, from, to, x, y);
  else
    move(d, step, apart, from, to, x, y);
}

static int has_fma(void) { return __builtin_cpu_supports("fma"); }
#else
#  define turn_fma turn
#  define turn_back_fma turn_back
#  define move_fma move
static int has_fma(void) { return 0; }
#endif

void kv_rope_rotate(int d, int interleaved, const float *sc, const float *x,
                    float *y) {
  if (has_fma()) {
    turn_fma(d, interleaved, sc, x, y);
  } else {
    turn(d, interleaved, sc, x, y);
  }
}

void kv_rope_unrotate(int d, int interleaved, const float *sc, const float *y,
                      float *x) {
  if (has_fma()) {
    turn_back_fma(d, interleaved, sc, y, x);
  } else {
    turn_back(d, interleaved, sc, y, x);
  }
}

void kv_rope_move(int d, int interleaved, const float *from, const float *to,
                  const float *x, float *y) {
  const int step = interleaved ? 2 : 1, apart = interleaved ? 1 : d / 2;
  if (has_fma()) {
    move_fma(d, step, apart, from, to, x, y);
  } else {
    move(d, step, apart, from, to, x, y);
  }
}

/* --- rotations of tokens ------------------------------------------------- */

/* Writes the mean rotation to table, which holds each distance's on the way. */
static void mean_turn(const kv_rope *rope, int d, int ahead, int64_t *sum,
                      float *table) {
  for (int f = 1; f <= ahead; f++) {
    kv_rope_table(rope->inv_freq, d, f, table);
    for (int i = 0; i < d / 2 * 2; i++) sum[i] += kv_fix(table[i]);
  }
  for (int i = 0; i < d / 2 * 2; i++)
    table[i] = kv_div(kv_unfix(sum[i]), (float)ahead);
}

static kv_rc add_mean(const kv_turns *t, int n_tokens, int ahead, kv_err *e) {
  int64_t *sum = kv_zalloc((size_t)t->d, sizeof *sum);
  if (!sum) return kv_no_memory(e, "rotations", (size_t)t->d * sizeof *sum);
  mean_turn(t->rope, t->d, ahead, sum, t->sc + (size_t)n_tokens * (size_t)t->d);
  free(sum);
  return KV_OK;
}

kv_rc kv_turns_open(const kv_rope *rope, int n_tokens, int d, int ahead,
                    kv_turns *out, kv_err *e) {
  size_t n = (size_t)n_tokens, size = (size_t)d * sizeof *out->sc;
  size_t rows = n + (ahead > 0);
  *out = (kv_turns){.rope = rope, .d = d, .sc = kv_zalloc(rows, size)};
  if (!out->sc) return kv_no_memory(e, "rotations of keys", rows * size);
  for (size_t t = 0; t < n; t++)
    kv_rope_table(rope->inv_freq, d, kv_rope_position(rope, (uint32_t)t),
                  out->sc + t * (size_t)d);
  return ahead > 0 ? add_mean(out, n_tokens, ahead, e) : KV_OK;
}

void kv_turns_close(kv_turns *t) {
  free(t->sc);
  t->sc = NULL;
}

void kv_turn_back(const kv_turns *turns, uint32_t t, float *key) {
  const float *sc = turns->sc + (size_t)t * (size_t)turns->d;
  if (kv_rope_position(turns->rope, t) == 0) return;
  kv_rope_unrotate(turns->d, turns->rope->interleaved, sc, key, key);
}

void kv_turn_forth(const kv_turns *turns, uint32_t t, float *key) {
  const float *sc = turns->sc + (size_t)t * (size_t)turns->d;
  if (kv_rope_position(turns->rope, t) == 0) return;
  kv_rope_rotate(turns->d, turns->rope->interleaved, sc, key, key);
}

void kv_turn_add(const kv_turns *turns, uint32_t t, float sign, const float *u,
                 float *key) {
  int d = turns->d, wide = turns->rope->interleaved;
  bool still = kv_rope_position(turns->rope, t) == 0;
  const float *sc = turns->sc + (size_t)t * (size_t)d;
  for (int i = 0; i < d / 2; i++) {
    int a = wide ? 2 * i : i, b = wide ? a + 1 : i + d / 2;
    float s[2] = {u[a], u[b]};
    if (!still) kv_rope_rotate(2, 0, sc + 2 * i, s, s);
    key[a] += sign * s[0];
    key[b] += sign * s[1];
  }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of the activations (ref/ground/activation.h):
 * - erf, SiLU and GELU lie within their stated bounds of the true values, and
 *   not within better ones: it is the written sequence that is measured;
 * - erf is odd and never leaves [-1, 1], SiLU and GELU keep the sign of 0;
 * - every set of kernels gives the scalar bits for any length, in place too,
 *   and touches the elements named alone.
 */
#include "ref/ground/activation.h"
#include "tests/support/draw.h"
#include "tests/support/sets.h"

#include <math.h>
#include <string.h>

#include "tests/support/guarded.h"
#include "tests/support/test.h"

static uint64_t seed = 0x2545f4914f6cdd1du;

static int make_memory(void **state) {
  guarded_open();
  kv_float_ground();
  return find_sets(state);
}

/* --- against long double ------------------------------------------------- */

typedef struct worst {
  long double erf, silu, gelu; /* in units of their bounds */
} worst;

static void larger(long double *most, long double x) {
  if (x > *most) *most = x;
}

static void measure(float x, worst *w) {
  const long double t = (long double)x, unit = 0x1p-23L;
  long double silu = t < -11000 ? 0 : t / (1 + expl(-t));
  long double gelu = t / 2 * erfcl(-t / sqrtl(2));
  larger(&w->erf, fabsl(kv_erf(x) - erfl(t)) / unit);
  larger(&w->silu, fabsl(kv_silu(x) - silu) /
                       fmaxl(1.9L * unit * fabsl(silu), 0x1p-119L));
  larger(&w->gelu,
         fabsl(kv_gelu(x) - gelu) / fmaxl(unit * fabsl(t), 0x1p-149L));
  assert_true(kv_erf(x) >= -1 && kv_erf(x) <= 1);
  assert_int_equal(kv_bits(kv_erf(-x)), kv_bits(kv_erf(x)) ^ 0x80000000u);
}

TEST(they_are_close) {
  worst w = {0, 0, 0};
  for (uint32_t u = 0; u < 0x7f800000u; u += 4099) {
    measure(kv_float(u), &w);
    measure(-kv_float(u), &w);
  }
  for (float x = -20; x < 20; x += 0x1.9p-13f) measure(x, &w);
  assert_true(w.erf < 1 && w.silu < 1 && w.gelu < 1);
  assert_true(w.erf > 0.6L && w.silu > 0.8L && w.gelu > 0.7L);
}

TEST(ends_are_exact) {
  assert_true(kv_erf(4.0f) == 1 && kv_erf(-1e30f) == -1 && kv_erf(0) == 0);
  assert_true(kv_silu(100.0f) == 100 && kv_gelu(100.0f) == 100);
  assert_true(kv_silu(-100.0f) == 0 && kv_gelu(-100.0f) == 0);
  assert_int_equal(kv_bits(kv_silu(-0.0f)), 0x80000000u);
  assert_int_equal(kv_bits(kv_gelu(-0.0f)), 0x80000000u);
}

/* --- the sets ------------------------------------------------------------ */

/* Any finite number; most of them where the functions bend. */
static float any(void) {
  uint32_t u = (uint32_t)(draw(&seed) >> 32);
  float x = kv_float(u);
  if (u % 8 && kv_finite(x)) x = kv_mul((float)(int32_t)u, 0x1p-27f);
  return kv_finite(x) ? x : -0.0f;
}

static void check(const kv_kernels *k, int n) {
  const size_t size = 4 * (size_t)n;
  float *x = floats(0, (size_t)n, any), *by = floats(1, (size_t)n, any);
  float *y = last(2, size), *want = last(3, size);
  for (int i = 0; i < n; i++) want[i] = kv_mul(kv_silu(x[i]), by[i]);
  k->silu_times(x, by, n, y);
  assert_memory_equal(y, want, size);
  memcpy(y, x, size);
  k->silu_times(y, by, n, y);
  assert_memory_equal(y, want, size);
  for (int i = 0; i < n; i++) want[i] = kv_gelu(x[i]);
  k->gelu(x, n, x);
  assert_memory_equal(x, want, size);
}

TEST(sets_agree) {
  for (int s = 0; s < n_sets; s++) {
    for (int n = 1; n <= 100; n++) check(sets[s], n);
    check(sets[s], 50001);
  }
}

int main(void) { return tests_run("activation", make_memory, NULL); }

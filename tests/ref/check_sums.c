/* SPDX-License-Identifier: Apache-2.0
 *
 * The sums in fixed point of the row kernels, where rows are many: exponentials
 * of long rows, and probabilities of all rows of a tile made and added up at
 * once. Every set gives what the scalar definitions give, as exactly where the
 * sums of 32 bits that the kernels begin with are full; it reads and writes the
 * elements named and no others. And the largest logit finds what is not finite,
 * wherever it stands. All arrays end at a page that may not be touched.
 */
#include "ref/ground/arith.h"
#include "tests/support/draw.h"
#include "tests/support/sets.h"

#include <string.h>

#include "tests/support/guarded.h"
#include "tests/support/test.h"

static uint64_t seed = 0x853c49e6748fea9bu;
static uint32_t word(void) { return (uint32_t)(draw(&seed) >> 32); }
static int below(int n) { return draw_below(&seed, n); }

static int make_memory(void **state) {
  guarded_open();
  kv_float_ground();
  return find_sets(state);
}

/* --- numbers from 0 to 1 ------------------------------------------------- */

static float one(void) { return 1.0f; }
/* Halfway between two coarse units of the kernels, 2^-18, so that as much as
 * can be is left over, to one side or to either. */
static float half_unit(void) { return 0x1p-19f; }
static float half_units(void) { return below(2) ? 0x1p-19f : 0x3p-19f; }

/* Anything: the ends, ties of the fixed point and of its coarse units,
 * exponentials, and subnormals. */
static float share(void) {
  switch (below(6)) {
  case 0:
    return kv_mul((float)(2 * below(1 << 20) + 1), 0x1p-41f);
  case 1:
    return (float)below(2);
  case 2:
    return kv_mul((float)(2 * below(1 << 18) + 1), 0x1p-19f);
  case 3:
    return kv_float(word() & 0x007fffffu);
  default:
    return kv_expm(kv_mul((float)below(1 << 24), -0x1p-19f));
  }
}

/* --- rows of probabilities ------------------------------------------------ */

static void check_rows(const kv_kernels *k, int m, int n, float (*make)(void)) {
  const size_t lde = (size_t)(n + below(5)), cells = (size_t)(m - 1) * lde;
  float *e = floats(0, cells + (size_t)n, make);
  float *r = floats(1, (size_t)m, share);
  int64_t *acc = last(2, 8 * (size_t)n), *want = last(3, 8 * (size_t)n);
  for (int i = 0; i < m; i++)
    if (make != share || below(2)) r[i] = 1.0f;
  for (int j = 0; j < n; j++) {
    acc[j] = (int64_t)((uint64_t)word() << 20) - ((int64_t)1 << 50);
    want[j] = acc[j];
    for (int i = 0; i < m; i++)
      want[j] += kv_fix(kv_mul(e[(size_t)i * lde + (size_t)j], r[i]));
  }
  k->fix_rows(m, n, e, lde, r, acc);
  assert_memory_equal(acc, want, 8 * (size_t)n);
}

TEST(rows_add_up) {
  for (int s = 0; s < n_sets; s++) {
    for (int n = 1; n <= 150; n++) check_rows(sets[s], 1 + below(9), n, share);
    check_rows(sets[s], 1200, 70, share);
    check_rows(sets[s], 1200, 70, half_units);
    check_rows(sets[s], 9000, 9, one);
    check_rows(sets[s], 9000, 9, half_unit);
  }
}

/* --- exponentials of a row ------------------------------------------------ */

static float score(void) {
  float e = kv_mul((float)below(1 << 24), -0x1p-20f);
  return below(9) ? e : 8 * e;
}
static float zero(void) { return 0; }
/* Its exponential lies next to half a coarse unit. */
static float far_down(void) { return -13.1698f; }

static void check_row(const kv_kernels *k, int n, float (*make)(void)) {
  float *s = floats(0, (size_t)n, make), *e = last(1, 4 * (size_t)n);
  int64_t want = 0, sum;
  s[below(n)] = 0; /* the largest */
  for (int j = 0; j < n; j++) want += kv_fix(kv_expm(s[j]));
  sum = k->exp_sum(s, 0, n, e);
  assert_true(sum == want);
  for (int j = 0; j < n; j++)
    assert_int_equal(kv_bits(e[j]), kv_bits(kv_expm(s[j])));
}

/* Over a small temperature some are infinitely far down and add nothing. */
static void check_masses(const kv_kernels *k, int n, float (*make)(void)) {
  float *s = floats(0, (size_t)n, make), t = below(2) ? 1.0f : 0.001f;
  int64_t mass = 0, fallen = 0, got = 1;
  for (int j = 0; j < n; j++) {
    if (below(30) == 0) s[j] = -0x1p127f;
    float u = kv_div(-s[j], t), e = kv_expm(-u);
    mass += kv_fix(e);
    if (e > 0) fallen += kv_fix(kv_mul(e, u));
  }
  assert_true(k->exp_mass(s, t, n, NULL) == mass);
  assert_true(k->exp_mass(s, t, n, &got) == mass && got == fallen);
}

/* What falls off it is the most there is, .37. */
static float steepest(void) { return -1.0f; }

TEST(masses_add_up) {
  for (int s = 0; s < n_sets; s++) {
    for (int n = 1; n <= 1100; n += 1 + n / 40) check_masses(sets[s], n, score);
    check_masses(sets[s], 100001, score);
    check_masses(sets[s], 100001, zero);
    check_masses(sets[s], 100001, steepest);
  }
}

TEST(long_rows_add_up) {
  for (int s = 0; s < n_sets; s++) {
    for (int n = 1; n <= 1100; n += 1 + n / 40) check_row(sets[s], n, score);
    check_row(sets[s], 100001, score);
    check_row(sets[s], 100001, zero);
    check_row(sets[s], 100001, far_down);
  }
}

/* --- what is not finite --------------------------------------------------- */

static void check_finite(const kv_kernels *k, int n) {
  static const uint32_t not_finite[] = {0x7f800000u, 0xff800000u, 0x7fc00000u,
                                        0xffc00001u};
  float *s = floats(0, (size_t)n, score);
  bool finite = false;
  float top = k->max_finite(s, n, &finite);
  assert_true(finite);
  assert_int_equal(kv_bits(top), kv_bits(k->max(s, n)));
  for (int i = 0; i < n; i++) {
    float was = s[i];
    s[i] = kv_float(not_finite[below(4)]);
    k->max_finite(s, n, &finite);
    assert_false(finite);
    s[i] = was;
  }
}

TEST(any_place_is_seen) {
  for (int s = 0; s < n_sets; s++)
    for (int n = 1; n <= 150; n++) check_finite(sets[s], n);
}

int main(void) { return tests_run("sums", make_memory, NULL); }

/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats of ref/formats/named.h by the laws of ref/FORMATS.md: `law` is
 * the table of that page, and what it says not to hold has its counterexample
 * here. Rows are full mantissas, halves, far from zero, subnormal, constant, up
 * to the largest half; by every set of kernels; with one group and with four.
 */

#include "ref/formats/named.h"
#include "ref/ground/arith.h"
#include "ref/kernels/kernels.h"
#include "tests/support/test.h"
#include <math.h>
#include <string.h>

enum { WIDTH = 96, GUARD = 16, ROOM = 4 * WIDTH + GUARD };

typedef struct law law;
struct law {
  const char *name;
  double (*bound)(const law *l, double x, double lo, double hi);
  int levels;  /* codes less one */
  size_t pair; /* bytes of metadata a group */
  int fit;     /* of the rows of too_large, how many can be coded */
};

/* Half a step, and what fp16 makes of scale and minimum. */
static double of_range(const law *l, double x, double lo, double hi) {
  double half = 0x1p-11, least = 0x1p-25, range = hi - lo;
  (void)x;
  return range / l->levels * (0.5 + 0x1p-20) + range * half + fabs(lo) * half +
         (l->levels + 1) * least;
}

/* Of integers about 0: levels are those of one side. */
static double of_largest(const law *l, double x, double lo, double hi) {
  double most = fmax(fabs(lo), fabs(hi));
  (void)x;
  return most / l->levels * (0.5 + 0x1p-10) + most * 0x1p-11 +
         l->levels * 0x1p-25;
}

/* Of floats: half a unit in the last place, or half the least subnormal. */
static double of_itself(double x, double least, double half) {
  return fmax(fabs(x) * half, least * 0.5) + fabs(x) * 0x1p-20 + 0x1p-140;
}
static double of_e4m3(const law *l, double x, double lo, double hi) {
  double scale = fmax(fabs(lo), fabs(hi)) / 448;
  (void)l;
  return of_itself(x, scale * 0x1p-9, 0x1p-4);
}
static double of_e5m2(const law *l, double x, double lo, double hi) {
  double scale = fmax(fabs(lo), fabs(hi)) / 57344;
  (void)l;
  return of_itself(x, scale * 0x1p-16, 0x1p-3);
}

/* Of a zero point in fp16: what it is off by, and the scale, moves the ends out
 * of the codes. */
static double of_fraction(const law *l, double x, double lo, double hi) {
  double half = 0x1p-11, range = hi - lo;
  double zero = range > 0 ? l->levels * fabs(lo) / range : 0;
  (void)x;
  return range / l->levels * (0.5 + 0x1p-7) + (range + 2 * fabs(lo)) * half +
         (l->levels + 1 + fmin(zero, 65504)) * 0x1p-25;
}

/* Of a zero point among the codes: half a step, and how far 0 is from the row,
 * which may be all of it. */
static double of_base(const law *l, double x, double lo, double hi) {
  double range = fmax(hi - lo, 1e-5), away = fmax(0, fmax(lo, -hi));
  (void)x;
  return range / l->levels * (0.5 + 0x1p-20) + range * 0x1p-11 +
         (l->levels + 1) * 0x1p-25 + away;
}

static const law laws[] = {
    {"int8", of_range, 255, 4, 1},       {"int4", of_range, 15, 4, 1},
    {"int2", of_range, 3, 4, 1},         {"int1", of_range, 1, 4, 0},
    {"sym8", of_largest, 127, 2, 2},     {"sym4", of_largest, 7, 2, 2},
    {"e4m3", of_e4m3, 0, 4, 4},          {"e5m2", of_e5m2, 0, 4, 4},
    {"qserve8", of_fraction, 255, 4, 2}, {"qserve4", of_fraction, 15, 4, 2},
    {"atom4", of_base, 15, 4, 2}};
enum { LAWS = sizeof laws / sizeof *laws };

typedef struct coding {
  const kv_format *format;
  kv_minmax is;
  int bits;
} coding;

static coding of(const law *l, int groups) {
  int i = kv_named_format_find(l->name);
  const kv_named_format *f = kv_named_format_at(i);
  assert_true(i > 0);
  return (coding){f->format, {f->bits, WIDTH / groups, f->rule}, f->bits};
}

/* Coded and read again by every set of kernels; false: it cannot be coded. The
 * block is as long as its size says. */
static bool again(const coding *c, const float *x, float *out) {
  static const char *const name[] = {"avx512", "avx2", "portable"};
  char block[ROOM];
  float first[WIDTH];
  kv_coded_size s = c->format->size(&c->is, 1, WIDTH);
  size_t n = s.codes + s.metadata;
  assert_true(n + GUARD <= ROOM);
  memset(block, 0x5a, sizeof block);
  bool fits = c->format->encode(&c->is, 1, WIDTH, &x, block);
  for (size_t i = 0; i < GUARD; i++) assert_int_equal(block[n + i], 0x5a);
  for (int i = 0; fits && i < 3; i++) {
    const kv_kernels *kernels;
    assert_int_equal(kv_kernels_named(name[i], &kernels, NULL, NULL), KV_OK);
    c->format->decode(kernels, &c->is, 1, WIDTH, block, 0, out);
    if (i == 0) memcpy(first, out, sizeof first);
    assert_memory_equal(first, out, sizeof first);
  }
  return fits;
}

static uint32_t seed = 1;

/* In (-1, 1) with 24 bits. */
static float number(void) {
  seed = seed * 1664525u + 1013904223u;
  return (float)((int32_t)(seed >> 8) - 0x800000) * 0x1p-23f;
}

/* Row i of some that differ in kind. */
enum { KINDS = 8, ROWS = 5 * KINDS };
static void fill(int i, float *x) {
  static const float scale[KINDS] = {1,        1,        0x1p-10f, 0x1p-22f,
                                     0x1p-26f, 0x1p-30f, 30000,    0.01f};
  static const float middle[KINDS] = {0, 1000, 0.5f, 0, 0, 0, 0, -7};
  int kind = i % KINDS;
  for (int j = 0; j < WIDTH; j++) {
    x[j] = middle[kind] + number() * scale[kind];
    if (i / KINDS % 2) x[j] = kv_round_f16(x[j]);
  }
}

static void ends(int n, const float *x, double *lo, double *hi) {
  *lo = *hi = (double)x[0];
  for (int i = 1; i < n; i++) {
    *lo = fmin(*lo, (double)x[i]);
    *hi = fmax(*hi, (double)x[i]);
  }
}

/* Is the row too far from 0 for a zero point in fp16? */
static bool is_far(const law *l, const float *x) {
  double lo, hi;
  ends(WIDTH, x, &lo, &hi);
  return l->bound == of_fraction &&
         fabs(lo) * l->levels > 65504 * (hi - lo) / 2;
}

TEST(error_within_bound) {
  float x[WIDTH], y[WIDTH];
  double lo, hi;
  for (int l = 0; l < LAWS; l++)
    for (int groups = 1; groups <= 4; groups += 3)
      for (int i = 0; i < ROWS; i++) {
        coding c = of(&laws[l], groups);
        fill(i, x);
        if (!again(&c, x, y)) {
          assert_true(is_far(&laws[l], x));
          continue;
        }
        for (int j = 0; j < WIDTH; j++) {
          int first = j / c.is.group * c.is.group;
          ends(c.is.group, x + first, &lo, &hi);
          double most = laws[l].bound(&laws[l], (double)x[j], lo, hi);
          double off = fabs((double)y[j] - (double)x[j]);
          if (!(off <= most))
            fail_msg("%s, row %d, element %d: %a is read as %a", laws[l].name,
                     i, j, (double)x[j], (double)y[j]);
        }
      }
}

/* Place j of a grid of half a row: what codes stand for by a scale and a
 * minimum that fp16 holds; its ends come first. */
static float on_grid(const law *l, int j) {
  coding c = of(l, 1);
  int i = j % 48, n = l->levels;
  if (!kv_rule_symmetric(c.is.rule))
    return -1.5f + 0.25f * (float)(i == 0 ? 0 : i == 1 ? n : i * 7 % (n + 1));
  if (c.is.rule == KV_RULE_INTEGER)
    return 0.25f * (float)(i == 0 ? n : i * 7 % (2 * n + 1) - n);
  uint32_t top = c.is.rule == KV_RULE_E4M3 ? 0x7e : 0x7b;
  uint32_t code = i == 0 ? top : (uint32_t)i * 5 % top + (uint32_t)i % 2 * 128;
  return 0.25f * kv_absmax_float(c.is.rule, code);
}

TEST(exact_on_its_grid) {
  float x[WIDTH], y[WIDTH];
  for (int l = 0; l < LAWS; l++) {
    coding c = of(&laws[l], 2);
    for (int j = 0; j < WIDTH; j++) x[j] = on_grid(&laws[l], j);
    assert_true(again(&c, x, y));
    for (int j = 0; j < WIDTH; j++) assert_true(x[j] == y[j]);
  }
}

TEST(monotone) {
  float x[WIDTH], y[WIDTH];
  for (int l = 0; l < LAWS; l++)
    for (int r = 0; r < ROWS; r++) {
      coding c = of(&laws[l], 1);
      fill(r, x);
      if (!again(&c, x, y)) continue; /* error_within_bound says why */
      for (int i = 0; i < WIDTH; i++)
        for (int j = 0; j < WIDTH; j++)
          if (x[i] <= x[j]) assert_true(y[i] <= y[j]);
    }
}

/* The order of channels is nothing to a row of one group; of two groups it
 * decides what is shared: the counterexample. */
TEST(permuted) {
  float x[WIDTH], y[WIDTH], turned[WIDTH], back[WIDTH];
  for (int l = 0; l < LAWS; l++)
    for (int groups = 1; groups <= 2; groups++) {
      coding c = of(&laws[l], groups);
      bool same = true;
      fill(0, x);
      x[0] = 3;
      x[1] = -2;
      for (int j = 0; j < WIDTH; j++) turned[j] = x[(j * 25 + 7) % WIDTH];
      assert_true(again(&c, x, y) && again(&c, turned, back));
      for (int j = 0; j < WIDTH; j++)
        same &= back[j] == y[(j * 25 + 7) % WIDTH];
      assert_int_equal(same, groups == 1);
    }
}

/* Without a minimum it is the largest code: L * h(c / L), RN(448 * (c / 448)),
 * which is c but for the last bits. */
static void constant_is(const law *l, float c, float y) {
  double v = (double)c;
  if (of(l, 1).is.rule == KV_RULE_UNROUNDED ||
      of(l, 1).is.rule == KV_RULE_FRACTION)
    assert_true(y == kv_from_f16(kv_to_f16(c)));
  else
    assert_true(fabs((double)y - v) <=
                (l->levels ? l->bound(l, v, v, v) : fabs(v) * 0x1p-22));
}

TEST(constant) {
  static const float value[] = {0, -0.0f, 1, -3.25f, 20007, -65504, 0x1p-24f};
  float x[WIDTH], y[WIDTH];
  for (int l = 0; l < LAWS; l++)
    for (size_t i = 0; i < sizeof value / sizeof *value; i++) {
      coding c = of(&laws[l], 1);
      for (int j = 0; j < WIDTH; j++) x[j] = value[i];
      assert_true(again(&c, x, y));
      for (int j = 0; j < WIDTH; j++) constant_is(&laws[l], value[i], y[j]);
    }
}

/* What has no scale or minimum in its type is refused, as NaN is. */
TEST(too_large) {
  static const struct {
    float lo, hi;
  } at[] = {{-65504, 65504}, {-70000, 1}, {0, 3e38f},    {-3e38f, 3e38f},
            {NAN, 1},        {-1, -NAN},  {0, INFINITY}, {-INFINITY, 0}};
  float x[WIDTH], y[WIDTH];
  for (int l = 0; l < LAWS; l++)
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
      coding c = of(&laws[l], 1);
      fill(0, x);
      x[40] = at[i].lo;
      x[70] = at[i].hi;
      assert_int_equal(again(&c, x, y), (int)i < laws[l].fit);
    }
}

TEST(sizes) {
  for (int l = 0; l < LAWS; l++)
    for (int groups = 1; groups <= 4; groups *= 2)
      for (int width = 5; width < 150; width += 29) {
        coding c = of(&laws[l], 1);
        c.is.group = (width + groups - 1) / groups;
        size_t runs = (size_t)((width + c.is.group - 1) / c.is.group);
        kv_coded_size s = c.format->size(&c.is, 1, width);
        assert_int_equal(s.codes, (width * c.bits + 7) / 8);
        assert_int_equal(s.metadata, runs * laws[l].pair);
        assert_int_equal(c.format->members(&c.is), 1);
      }
}

/* Coded in 8 bits, then from what the codes stand for in 4: within the bounds
 * of both. */
TEST(demoted) {
  float x[WIDTH], y[WIDTH], z[WIDTH];
  double lo, hi, most = 0;
  coding high = of(&laws[0], 1), low = of(&laws[1], 1);
  fill(0, x);
  assert_true(again(&high, x, y) && again(&low, y, z));
  ends(WIDTH, x, &lo, &hi);
  for (int l = 0; l < 2; l++) most += laws[l].bound(&laws[l], 0, lo, hi);
  for (int i = 0; i < WIDTH; i++)
    assert_true(fabs((double)z[i] - (double)x[i]) <= most);
}

/* Ends 0 and 255.11767578125, which is 15 times 17.0078 and a little: the scale
 * of 8 bits is 1.00046, rounded 1, so what is left of the row ends at 255 and
 * its scale of 4 bits is 17; at once it would be 17.015625. 100 has the codes
 * 100 and 6. The codes are those of coding at once, as 255 is 15 * 17 and half
 * a step of 4 bits lies amid two codes of 8; the numbers are not. */
TEST(rounded_twice) {
  float x[WIDTH], y[WIDTH], z[WIDTH], once[WIDTH];
  coding high = of(&laws[0], 1), low = of(&laws[1], 1);
  for (int i = 0; i < WIDTH; i++) x[i] = 0;
  x[3] = 255.11767578125f;
  x[90] = 100;
  assert_true(again(&high, x, y) && again(&low, y, z) && again(&low, x, once));
  assert_true(y[0] == 0 && y[3] == 255 && y[90] == 100);
  assert_true(z[0] == 0 && z[3] == 255 && z[90] == 102);
  assert_true(once[0] == 0 && once[3] == 255.234375f && once[90] == 102.09375f);
}

/* The table has every name; after them come those of check_block. */
TEST(all_names) {
  for (int i = 1; i <= LAWS; i++)
    assert_ptr_equal(kv_named_format_at(i)->format, &kv_format_token);
  assert_ptr_equal(kv_named_format_at(LAWS + 1)->format, &kv_format_block);
  assert_null(kv_named_format_at(0)->format);
  assert_int_equal(kv_named_format_find("int3"), -1);
}

int main(void) { return tests_run("named", NULL, NULL); }

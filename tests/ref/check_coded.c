/* SPDX-License-Identifier: Apache-2.0
 *
 * The law of the kernels over rows of codes as they are stored: every set that
 * this machine can run gives, bit for bit, what chains over the numbers give
 * that each code stands for, and reads and writes exactly the bytes named. All
 * arrays end at a page that may not be touched; rows start at odd addresses
 * too. Which rows suit is a rule that no set may bend.
 */
#include "ref/ground/arith.h"
#include "ref/kernels/kernels.h"
#include "tests/support/draw.h"
#include "tests/support/little.h"
#include "tests/support/sets.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/guarded.h"
#include "tests/support/test.h"

enum { ROWS = 130, MOST_D = 256 };

/* Widths with bits and runs that suit, a last run shorter than the others
 * among them. */
static const struct {
  int d, bits, run;
} shapes[] = {{128, 8, 128}, {128, 4, 128}, {128, 2, 128}, {128, 8, 64},
              {128, 4, 32},  {128, 2, 16},  {64, 8, 64},   {64, 4, 64},
              {64, 2, 64},   {256, 4, 256}, {256, 2, 64},  {16, 8, 16},
              {32, 4, 400},  {96, 8, 64},   {96, 4, 48},   {192, 2, 128}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static uint64_t seed = 0x9e3779b97f4a7c15u;
static int below(int n) { return draw_below(&seed, n); }

/* Full mantissas, magnitudes 2^-6 to 2^2. */
static float full(void) {
  uint32_t u = (uint32_t)(draw(&seed) >> 32);
  return kv_float((u & 0x807fffffu) | (121u + (u >> 23 & 7u)) << 23);
}

static unsigned char *row_end[ROWS];
static const void *row[ROWS];
static float number[ROWS][MOST_D]; /* what the rows stand for */

static int make_memory(void **state) {
  for (int i = 0; i < ROWS; i++) row_end[i] = guarded(4096);
  guarded_open();
  kv_float_ground();
  return find_sets(state);
}

static float half_of(const unsigned char *at) {
  uint16_t h;
  memcpy(&h, at, 2);
  return kv_from_f16(h);
}

/* A block of scales, minima (one in eight of them zero) and codes, and its
 * numbers by the formula of ref/formats/minmax.h. */
static void fill_row(int j, int d, int bits, int run) {
  int runs = (d + run - 1) / run, plane = d * bits / 8;
  unsigned char *block = row_end[j] - (4 * runs + plane) - (j & 1);
  for (int g = 0; g < 2 * runs; g++) {
    uint16_t h = below(8) ? kv_to_f16(full()) : 0;
    if (g < runs) h &= 0x7fffu;
    memcpy(block + 2 * g, &h, 2);
  }
  for (int i = 0; i < plane; i++)
    block[4 * runs + i] = (unsigned char)below(256);
  for (int x = 0; x < d; x++) {
    int code = block[4 * runs + x % plane] >> x / plane * bits;
    float scale = half_of(block + 2 * (x / run));
    float min = half_of(block + 2 * (runs + x / run));
    number[j][x] = fmaf((float)(code & ((1 << bits) - 1)), scale, min);
  }
  row[j] = block;
}

static void same(const float *got, const float *want, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (kv_bits(got[i]) != kv_bits(want[i]))
      fail_msg("element %zu of %zu: got %a, want %a", i, n, (double)got[i],
               (double)want[i]);
}

static void check_logits(const kv_kernels *k, int d, int bits, int run, int m,
                         int n) {
  const size_t ldq = (size_t)d + (size_t)below(3), lds = (size_t)(n + below(5));
  const size_t held = (size_t)(m - 1) * lds + (size_t)n;
  const float scale = full();
  float *q = floats(0, (size_t)(m - 1) * ldq + (size_t)d, full);
  float *s = floats(1, held, full), *want = last(2, 4 * held);
  float *pack = last(3, (size_t)d * KV_PACK * 4);
  memcpy(want, s, 4 * held); /* between n and lds nothing may change */
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      float sum = 0;
      for (int x = 0; x < d; x++)
        sum = fmaf(q[(size_t)i * ldq + (size_t)x], number[j][x], sum);
      want[(size_t)i * lds + (size_t)j] = kv_add(kv_mul(sum, scale), 0);
    }
  k->code_logits(m, n, d, q, ldq, row, bits, run, scale, s, lds, pack);
  same(s, want, held);
}

static void check_weigh(const kv_kernels *k, int d, int bits, int run, int m,
                        int n) {
  const size_t ldp = (size_t)(n + below(5)), all = (size_t)m * (size_t)d;
  float *p = floats(0, (size_t)(m - 1) * ldp + (size_t)n, full);
  float *a = floats(1, all, full), *want = last(2, 4 * all);
  memcpy(want, a, 4 * all);
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++)
      for (int x = 0; x < d; x++) {
        float *y = want + (size_t)i * (size_t)d + x;
        *y = fmaf(p[(size_t)i * ldp + (size_t)j], number[j][x], *y);
      }
  k->code_weigh(m, n, d, p, ldp, row, bits, run, a);
  same(a, want, all);
}

static void each_shape(void (*check)(const kv_kernels *, int, int, int, int,
                                     int)) {
  for (int i = 0; i < SHAPES; i++)
    for (int n = 1; n <= ROWS; n += little_step(9)) {
      int d = shapes[i].d, bits = shapes[i].bits, run = shapes[i].run;
      for (int j = 0; j < n; j++) fill_row(j, d, bits, run);
      for (int s = 0; s < n_sets; s++) {
        assert_true(sets[s]->codes_suit(bits, run, d));
        check(sets[s], d, bits, run, 1, n); /* has ways of its own */
        check(sets[s], d, bits, run, 2 + below(8), n);
      }
    }
}

TEST(logits_are_chains) { each_shape(check_logits); }

TEST(weigh_is_chains) { each_shape(check_weigh); }

/* Bits of no plane of whole bytes, runs that end within a register, planes
 * that do. */
TEST(others_do_not_suit) {
  for (int s = 0; s < n_sets; s++) {
    bool (*suit)(int, int, int) = sets[s]->codes_suit;
    assert_false(suit(1, 128, 128) || suit(3, 128, 128) || suit(16, 128, 128));
    assert_false(suit(8, 8, 128) || suit(8, 24, 128) || suit(4, 1, 128));
    assert_false(suit(8, 8, 8) || suit(4, 16, 16) || suit(2, 32, 32));
    assert_false(suit(8, 80, 120) || suit(4, 96, 80));
    assert_true(suit(8, 80, 80) && suit(4, 96, 96) && suit(2, 64, 64));
  }
}

int main(void) { return tests_run("rows of codes", make_memory, NULL); }

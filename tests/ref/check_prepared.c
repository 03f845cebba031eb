/* SPDX-License-Identifier: Apache-2.0
 *
 * What prepares rows before they are coded, by the laws of ref/FORMATS.md,
 * Prepared rows: the Hadamard matrix against sums in binary64, and the shift
 * against a rotated row. What lanes make of them: tests/methods/quant.txt.
 */
#include "ref/formats/hadamard.h"
#include "ref/ground/rope.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"
#include <math.h>
#include <string.h>

enum { MOST = 256 };
static const int widths[] = {1, 2, 6, 7, 8, 64, 80, 96, 128, 256};
enum { WIDTHS = sizeof widths / sizeof *widths };

static void draw_row(uint64_t *seed, int width, float *x) {
  for (int i = 0; i < width; i++)
    x[i] = (float)draw_below(seed, 1 << 24) * 0x1p-21f - 4;
}

static double norm(int n, const float *x) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
  return sqrt(sum);
}

/* Element i of the block that begins at x, of n elements. */
static double exact(int n, const float *x, int i) {
  double sum = 0;
  for (int j = 0; j < n; j++)
    sum += __builtin_parity((unsigned)(i & j)) ? -(double)x[j] : (double)x[j];
  return sum / sqrt(n);
}

TEST(matrix) {
  uint64_t seed = 5;
  for (int w = 0; w < WIDTHS; w++) {
    int width = widths[w], n = kv_hadamard_block(width);
    float x[MOST], y[MOST];
    assert_true(n > 0 && width % n == 0 && width / n % 2 == 1);
    draw_row(&seed, width, x);
    memcpy(y, x, sizeof y);
    kv_hadamard(width, y);
    double bound = 0x1p-22 * (log2(n) + 1);
    for (int i = 0; i < width; i++) {
      const float *block = x + i / n * n;
      double off = fabs((double)y[i] - exact(n, block, i % n));
      assert_true(off <= bound * norm(n, block));
    }
    if (n == 1) assert_memory_equal(x, y, (size_t)width * sizeof *x);
    kv_hadamard(width, y);
    for (int i = 0; i < width; i++) {
      double off = fabs((double)y[i] - (double)x[i]);
      assert_true(off <= 2 * bound * norm(n, x + i / n * n));
    }
  }
}

/* 1 / sqrt(n) to the nearest; so a power of 4 rounds nothing. */
TEST(factor) {
  float whole[4] = {1, 2, 3, 4};
  const float want[4] = {5, -1, -2, 0};
  for (int n = 1; n <= 1 << 16; n *= 2)
    assert_true(kv_hadamard_factor(n) == (float)(1 / sqrt(n)));
  kv_hadamard(4, whole);
  assert_memory_equal(whole, want, sizeof want);
}

/* The same bits as the whole row, rotated and then added. */
TEST(shift) {
  static const float freq[4] = {1, 0.3f, 0.01f, 0};
  static const int32_t place[3] = {0, 7, 90001};
  uint64_t seed = 6;
  kv_err e;
  for (int wide = 0; wide < 2; wide++) {
    const kv_rope rope = {place, freq, wide};
    kv_turns turns;
    assert_int_equal(kv_turns_open(&rope, 3, 8, 0, &turns, &e), KV_OK);
    for (uint32_t t = 0; t < 3; t++) {
      float u[8], s[8], key[8], want[8];
      draw_row(&seed, 8, u);
      draw_row(&seed, 8, key);
      memcpy(s, u, sizeof s);
      kv_turn_forth(&turns, t, s);
      for (int i = 0; i < 8; i++) want[i] = key[i] - s[i];
      kv_turn_add(&turns, t, -1, u, key);
      assert_memory_equal(key, want, sizeof want);
      for (int i = 0; i < 8; i++) want[i] = key[i] + s[i];
      kv_turn_add(&turns, t, 1, u, key);
      assert_memory_equal(key, want, sizeof want);
    }
    kv_turns_close(&turns);
  }
}

int main(void) { return tests_run("prepared", NULL, NULL); }

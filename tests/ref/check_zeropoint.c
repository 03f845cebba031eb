/* SPDX-License-Identifier: Apache-2.0
 *
 * The format "zeropoint" by hand: QServe's zero point that is no integer, what
 * saturates where it is off, and rows that have none; Atom's, which stays among
 * the codes, and what that costs rows away from 0. Its laws are with those of
 * the other formats in check_named.
 */

#include "ref/formats/named.h"
#include "ref/kernels/kernels.h"
#include "tests/support/test.h"

enum { WIDTH = 60 };

/* Coded in one group and read again; false: it cannot be coded. */
static bool again(const char *name, const float *x, float *y) {
  const kv_named_format *f = kv_named_format_at(kv_named_format_find(name));
  kv_minmax c = {f->bits, WIDTH, f->rule};
  char block[WIDTH + 4];
  if (!f->format->encode(&c, 1, WIDTH, &x, block)) return false;
  f->format->decode(kv_kernels_best(), &c, 1, WIDTH, block, 0, y);
  return true;
}

typedef struct read_as {
  float x, y;
} read_as;

/* A row whose ends are the first two numbers, and which holds the n. */
static void reads(const char *name, int n, const read_as *at) {
  float x[WIDTH], y[WIDTH];
  for (int i = 0; i < WIDTH; i++) x[i] = at[i % n].x;
  assert_true(again(name, x, y));
  for (int i = 0; i < n; i++)
    if (y[i] != at[i].y)
      fail_msg("%s reads %a as %a, not %a", name, (double)x[i], (double)y[i],
               (double)at[i].y);
}

/* Scale 1 by a range of 15, and zero points 0.5 (0 is half a code from two:
 * the even one), 1 and, where 2049 is no half, -2048: 2064 has code 16, which
 * saturates; their kernel keeps its low four bits, 0, which reads 2048. */
TEST(fractions) {
  reads(
      "qserve4", 5,
      (read_as[]){
          {-0.5f, -0.5f}, {14.5f, 14.5f}, {0, -0.5f}, {1, 1.5f}, {7.3f, 7.5f}});
  reads("qserve4", 4, (read_as[]){{-1, -1}, {14, 14}, {0.5f, 1}, {3.4f, 3}});
  reads("qserve4", 3, (read_as[]){{2049, 2049}, {2064, 2063}, {2052, 2052}});
  reads("qserve8", 3, (read_as[]){{-2, -2}, {253, 253}, {0.5f, 0}});
  /* constant but for less than 15 * 2^-25: by its least number */
  reads("qserve4", 2, (read_as[]){{0.25f, 0.25f}, {0x1.000004p-2f, 0.25f}});
  reads("qserve4", 2, (read_as[]){{-0x1.000004p-2f, -0.25f}, {-0.25f, -0.25f}});
}

/* What Atom's zero point cannot reach: rows wholly above or below 0 lose what
 * is more than their range away from it, all in the end; and its scale is at
 * least 1e-5 / 15, h of which is 11 * 2^-24. */
TEST(bases) {
  float least = 11 * 0x1p-24f;
  reads("atom4", 4, (read_as[]){{-6.6f, -7}, {8.4f, 8}, {0.5f, 0}, {1.5f, 2}});
  reads("atom4", 3, (read_as[]){{-7.5f, -8}, {7.5f, 7}, {0, 0}});
  reads("atom4", 3, (read_as[]){{1, 1}, {16, 15}, {15, 15}});
  reads("atom4", 3, (read_as[]){{-16, -15}, {-1, -1}, {-15, -15}});
  reads("atom4", 3, (read_as[]){{100, 15}, {115, 15}, {107, 15}});
  reads("atom4", 2, (read_as[]){{1, 15 * least}, {1, 15 * least}});
  reads("atom4", 2, (read_as[]){{0, 0}, {3 * least, 3 * least}});
}

/* A zero point is a half: a row further from 0 than 65504 / 255 of its ranges
 * has none. */
TEST(too_far) {
  float x[WIDTH], y[WIDTH];
  for (int four = 0; four < 2; four++)
    for (int far = 0; far < 2; far++) {
      for (int i = 0; i < WIDTH; i++) x[i] = (float)(256 + far + (i == 7));
      assert_int_equal(again(four ? "qserve4" : "qserve8", x, y), four || !far);
    }
}

int main(void) { return tests_run("zeropoint", NULL, NULL); }

/* SPDX-License-Identifier: Apache-2.0
 *
 * The law that every other one stands on: in every set an fma rounds once.
 * Compared with the library's fmaf, one fma a column (a weighing of one row),
 * on three kinds of numbers: any finite ones; sums nearly halfway between two
 * binary32, off by less than binary64 can hold; the same around and below the
 * least normal. The kinds are sharp: rounding through binary64 fails many.
 * KVREPLAY_FMA_ROUNDS sets the rounds of 3 x 4096 (100).
 */
#include "ref/ground/arith.h"
#include "tests/support/draw.h"
#include "tests/support/sets.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed = 0x853c49e6748fea9bu;
static uint32_t word(void) { return (uint32_t)(draw(&seed) >> 32); }
static int below(int n) { return draw_below(&seed, n); }

static void same(float p, float v, float held, float got, float want) {
  if (kv_bits(got) != kv_bits(want))
    fail_msg("fma(%a, %a, %a): got %a, want %a", (double)p, (double)v,
             (double)held, (double)got, (double)want);
}

static float any_finite(void) {
  float x;
  do {
    x = kv_float(word());
  } while (!kv_finite(x));
  return x;
}

static void make_fma(int kind, int n, float *p, float *v, float *a) {
  const float up = kv_float(0x3f800000u + (uint32_t)below(64));
  const int e = below(200) - 100;
  *p = kind == 0 ? any_finite() : up;
  for (int x = 0; x < n; x++) {
    float near = kv_float(0x3f800000u - 64u + (uint32_t)below(128));
    if (kind == 0) {
      v[x] = any_finite();
      a[x] = any_finite();
    } else if (kind == 1) {
      a[x] = ldexpf(kv_float(0x3f800000u | word() >> 9), e);
      v[x] = ldexpf(below(2) ? near : -near, e - 24 - below(2));
    } else {
      a[x] = kv_float(word() & 0x80ffffffu);
      v[x] = ldexpf(below(2) ? near : -near, below(6) - 126);
      *p = kv_mul(up, 0x1p-24f);
    }
  }
}

TEST(fma_is_exact) {
  enum { N = 4096 };
  const char *count = getenv("KVREPLAY_FMA_ROUNDS"); /* of 3 x 4096 */
  const int rounds = count ? atoi(count) : 100;
  static float a[N], v[N], want[N], held[N];
  float p;
  const void *rows[1] = {v};
  int twice = 0; /* cases that rounding to binary64 and then again fails */
  for (int i = 0; i < 3 * rounds; i++) {
    make_fma(i % 3, N, &p, v, held);
    for (int x = 0; x < N; x++) {
      want[x] = fmaf(p, v[x], held[x]);
      twice += want[x] != (float)((double)p * (double)v[x] + (double)held[x]);
    }
    for (int s = 0; s < n_sets; s++) {
      memcpy(a, held, sizeof a);
      sets[s]->weigh(1, 1, N, &p, 1, rows, KV_F32, a);
      for (int x = 0; x < N; x++) same(p, v[x], held[x], a[x], want[x]);
    }
  }
  assert_true(twice > rounds);
}

int main(void) { return tests_run("fma", find_sets, NULL); }

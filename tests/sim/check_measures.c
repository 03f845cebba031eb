/* SPDX-License-Identifier: Apache-2.0
 *
 * The law of what the measures stand on: the exact row agrees with binary64
 * within a derived bound and to the bit with its chains; top-k marks are those
 * of a full ranking, ties included; percentiles are nearest ranks of the
 * sorted values, and the mean sums in the order given.
 */
#include "ref/ground/arith.h"
#include "tests/support/world.h"
#include <math.h>
#include <stdlib.h>

/* The exact row against binary64: 16 products and 48 weights, each rounded
 * to 2^-24, leave less than 1e-5 of values below 4. */
TEST(truth_is_attention) {
  world w;
  world_open(&w, 2, 4, KV_HEAD, 1, false);
  for (int t = P; t < T; t++) {
    kv_truth_fill(w.truth, &w.data, 1, t, NULL);
    for (int h = 0; h < 4; h++) {
      double e[T], sum = 0;
      for (int i = 0; i <= t; i++) {
        float l = world_logit(&w, 4 + h, 1, t, i);
        assert_true(w.truth->s[(size_t)h * w.truth->stride + (size_t)i] == l);
        sum += e[i] = exp((double)l);
      }
      assert_true(fabs((double)w.truth->lse[h] - log(sum)) < 1e-5);
      for (int x = 0; x < DV; x++) {
        double o = 0;
        for (int i = 0; i <= t; i++)
          o += e[i] / sum *
               (double)w.v[((size_t)T + (size_t)i) * DV + (size_t)x];
        assert_true(fabs((double)w.truth->out[h * DV + x] - o) < 1e-5);
      }
    }
  }
  world_close(&w);
}

/* Rows whose queries are a subset that ends with the trace. */
TEST(rows_may_be_missing) {
  world w;
  int32_t rows[T];
  world_open(&w, 1, 1, KV_HEAD, 0, false);
  kv_truth_fill(w.truth, &w.data, 0, T - 2, NULL);
  float want = w.truth->s[7];
  for (int i = 0; i < T - 10; i++) rows[i] = 10 + i;
  w.data.q = w.q + 10 * D;
  w.data.n_rows = T - 10;
  w.data.rows = rows;
  kv_truth_fill(w.truth, &w.data, 0, T - 3, NULL);
  assert_true(w.truth->s[7] != want);
  kv_truth_fill(w.truth, &w.data, 0, T - 2, NULL);
  assert_true(w.truth->s[7] == want);
  world_close(&w);
}

/* Tokens with a larger logit, or an equal one and a lower index. */
static int rank_among(const float *s, int t, int i) {
  int n = 0;
  for (int j = 0; j <= t; j++)
    n += kv_key(s[j]) > kv_key(s[i]) || (kv_key(s[j]) == kv_key(s[i]) && j < i);
  return n;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

TEST(nearest_rank) {
  for (int n = 0; n < 300; n++) {
    double v[300], u[300], sum = 0;
    for (int i = 0; i < n; i++) {
      u[i] = n & 1 ? (double)world_below(7)
                   : ldexp((double)world_below(1 << 20), -10);
      sum += v[i] = u[i];
    }
    kv_stat got = kv_stat_of(v, n);
    qsort(u, (size_t)n, sizeof *u, by_value);
    assert_int_equal(got.count, n);
    if (n == 0) continue;
    assert_true(got.mean == sum / n && got.max == u[n - 1]);
    assert_true(got.p50 == u[(n + 1) / 2 - 1]);
    assert_true(got.p95 == u[(95 * n + 99) / 100 - 1]);
    assert_true(got.p99 == u[(99 * n + 99) / 100 - 1]);
  }
  double v[] = {(double)NAN, -3, (double)NAN, -5};
  kv_stat got = kv_stat_of(v, 4);
  assert_true(got.count == 2 && got.mean == -4 && got.max == -3 &&
              got.p50 == -5 && got.p95 == -3);
  double order[] = {1, 0x1p60, -0x1p60}; /* the sum shows the order */
  assert_true(kv_stat_of(order, 3).mean == 0);
}

/* The cuts of n values of which `kinds` are different. */
static void check_tops(int n, int kinds) {
  static const int32_t top[] = {1, 3, 16, 40, 90, 250};
  enum { TOPS = sizeof top / sizeof *top, MANY = 700 };
  float x[MANY], value[MANY], work[MANY];
  int32_t token[MANY], place[MANY];
  kv_top_cut cut[TOPS];
  for (int i = 0; i < n; i++) x[i] = (float)(world_below(kinds) - kinds / 2);
  kv_rank_top(kv_kernels_best(), n, x, TOPS, top, token, place, value, work,
              cut);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < TOPS; j++)
      assert_int_equal(kv_top_has(cut[j], x[i], i),
                       rank_among(x, n - 1, i) < top[j]);
}

TEST(nested_tops) {
  for (int n = 1; n < 80; n++) check_tops(n, 9);
  for (int n = 80; n <= 700; n += 31) {
    check_tops(n, 1);
    check_tops(n, 2);
    check_tops(n, 40);
    check_tops(n, 1 << 20);
  }
}

/* A sample that says nothing of the rest: every place of it holds a small
 * value, or a large one. */
TEST(a_sample_that_misleads) {
  enum { MANY = 640 };
  static const int32_t top[] = {5, 100, 320, 600};
  for (int sign = -1; sign <= 1; sign += 2) {
    float x[MANY], value[MANY], work[MANY];
    int32_t token[MANY], place[MANY];
    kv_top_cut cut[4];
    for (int i = 0; i < MANY; i++)
      x[i] = (float)(i % 10 == 0 ? sign * 5000 + i : world_below(1000));
    kv_rank_top(kv_kernels_best(), MANY, x, 4, top, token, place, value, work,
                cut);
    for (int i = 0; i < MANY; i++)
      for (int j = 0; j < 4; j++)
        assert_int_equal(kv_top_has(cut[j], x[i], i),
                         rank_among(x, MANY - 1, i) < top[j]);
  }
}

/* Of many rows some have brackets that miss, in the first round or a later one:
 * whatever was set aside by then, a set of the k largest has k tokens. */
TEST(sets_have_their_size) {
  enum { MANY = 1500 };
  static const int32_t top[] = {1, 6, 16, 64, 200, 900};
  static float x[MANY], value[MANY], work[MANY];
  static int32_t token[MANY], place[MANY];
  for (int row = 0; row < 400; row++) {
    int n = MANY - world_below(600);
    kv_top_cut cut[6];
    for (int i = 0; i < n; i++) x[i] = (float)world_below(1 << 20);
    kv_rank_top(kv_kernels_best(), n, x, 6, top, token, place, value, work,
                cut);
    for (int j = 0; j < 6 && top[j] < n; j++) {
      int has = 0;
      for (int i = 0; i < n; i++) has += kv_top_has(cut[j], x[i], i);
      assert_int_equal(has, top[j]);
    }
  }
}

TEST(every_measure_is_named) {
  for (int m = 0; m < KV_MEASURES; m++) {
    assert_non_null(kv_measure_table[m].name);
    assert_non_null(kv_measure_table[m].unit);
    for (int o = 0; o < m; o++)
      assert_string_not_equal(kv_measure_table[m].name,
                              kv_measure_table[o].name);
  }
}

int main(void) {
  kv_float_ground();
  return tests_run("measures", NULL, NULL);
}

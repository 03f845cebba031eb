/* SPDX-License-Identifier: Apache-2.0
 *
 * How points of `kvreplay tune` are judged, and which of them are the front.
 */
#include "sim/cli/show/goal.h"
#include "tests/support/test.h"

#include <math.h>

static kv_result row_with(double error, double bytes) {
  kv_result r = {.totals.mean = bytes};
  r.stat[KV_OUTPUT_ERROR] = (kv_stat){.count = 1, .mean = error};
  return r;
}

static void asked(kv_tune_goal *g) {
  kv_err e = {0};
  *g = (kv_tune_goal){0};
  if (kv_tune_goal_best(g, "mean_bytes", 1, &e) ||
      kv_tune_goal_bound(g, "--at-most", "output_error=0.5", 1, &e))
    fail_msg("%s", e.text);
  assert_string_equal(g->measure[0].key, "bytes.mean");
  assert_string_equal(g->measure[1].key, "output_error.mean");
}

TEST(means_over_traces) {
  kv_tune_goal g;
  asked(&g);
  kv_result row[2] = {row_with(0.25, 100), row_with(0.75, 300)};
  kv_tune_judgement j = kv_tune_judge(&g, 2, row);
  assert_true(j.score.ran && j.score.far == 0 && j.score.value == 200);
  assert_true(j.mean[1] == 0.5 && j.lacks == -1);
  row[0].stat[KV_OUTPUT_ERROR].mean = 0.75;
  j = kv_tune_judge(&g, 2, row);
  assert_true(j.score.ran && j.score.far == 0.5 && j.score.ease == 0.5);
  row[1].stat[KV_OUTPUT_ERROR].count = 0;
  j = kv_tune_judge(&g, 2, row);
  assert_true(!j.score.ran && j.lacks == 1 && j.measure == 1);
  row[0].status = KV_CELL_REFUSED;
  j = kv_tune_judge(&g, 2, row);
  assert_true(!j.score.ran && j.lacks == 0 && j.measure == -1);
}

TEST(bounds_from_below) {
  kv_tune_goal g = {0};
  kv_err e = {0};
  kv_result row = {.totals.kr = 0.25};
  row.stat[KV_MASS] = (kv_stat){.count = 1, .mean = 0.5};
  assert_int_equal(kv_tune_goal_best(&g, "mass", -1, &e), KV_OK);
  assert_int_equal(kv_tune_goal_bound(&g, "--at-least", "kr=0.5", -1, &e),
                   KV_OK);
  kv_tune_judgement j = kv_tune_judge(&g, 1, &row);
  assert_true(j.score.value == -0.5 && j.score.far == 0.5);
}

/* What drops most is far below 0 and not within a bound of 2. */
TEST(lse_by_its_size) {
  static const double mean[] = {-3, 3, -1}, far[] = {0.5, 0.5, 0};
  for (int i = 0; i < 3; i++) {
    kv_tune_goal g = {0};
    kv_err e = {0};
    kv_result row = {.totals.mean = 1};
    row.stat[KV_LSE_ERROR] = (kv_stat){.count = 1, .mean = mean[i]};
    assert_int_equal(kv_tune_goal_best(&g, "mean_bytes", 1, &e), KV_OK);
    assert_int_equal(kv_tune_goal_bound(&g, "--at-most", "lse_error=2", 1, &e),
                     KV_OK);
    kv_tune_judgement j = kv_tune_judge(&g, 1, &row);
    assert_true(j.mean[1] == fabs(mean[i]) && j.score.far == far[i]);
  }
}

/* The front of five points: one beaten, one without numbers, two alike. */
TEST(the_front) {
  static const struct {
    double error, bytes;
  } of[] = {{0.75, 100}, {0.25, 400}, {0.5, 500}, {0.25, 400}, {0.5, 200}};
  kv_tune_goal g;
  kv_tune_judgement judged[6] = {0};
  kv_tune_search search = {0};
  kv_err e = {0};
  int front[6], first;
  asked(&g);
  assert_int_equal(kv_tune_search_open(1, (int[]){6}, 12, &search, &e), KV_OK);
  assert_true(kv_tune_search_next(&search, &first));
  assert_int_equal(search.n, 6);
  for (int i = 0; i < 5; i++) {
    kv_result row = row_with(of[i].error, of[i].bytes);
    judged[i] = kv_tune_judge(&g, 1, &row);
    search.point[i].score = judged[i].score;
  }
  assert_false(kv_tune_search_next(&search, &first));
  assert_int_equal(search.best, 4);
  assert_int_equal(kv_tune_front(&g, &search, judged, front), 3);
  assert_int_equal(front[0], 4);
  assert_int_equal(front[1], 0);
  assert_int_equal(front[2], 1);
  kv_tune_search_free(&search);
}

int main(void) { return tests_run("goal", NULL, NULL); }

/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay tune`: the search on functions whose best point is known, ranges as
 * they may be typed, names of measures, how points are judged, and which of
 * them are the front.
 */
#include "sim/cli/show/goal.h"
#include "sim/cli/show/key.h"
#include "sim/run/tune/space.h"
#include "tests/support/little.h"
#include "tests/support/told.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the search ----------------------------------------------------------- */

typedef kv_tune_score score_of(const int *at);

static kv_tune_search search;

/* Searches to the end; every point within the space, none twice. */
static void run(int axes, const int *size, int most, score_of *f) {
  int first, seen = 0;
  kv_tune_search_free(&search);
  works(kv_tune_search_open(axes, size, most, &search, &told));
  while (kv_tune_search_next(&search, &first)) {
    assert_int_equal(first, seen);
    assert_true(search.n > first && search.n <= most);
    for (int i = first; i < search.n; i++) {
      kv_tune_point *p = &search.point[i];
      for (int k = 0; k < axes; k++)
        assert_true(p->at[k] >= 0 && p->at[k] < size[k]);
      for (int k = 0; k < i; k++)
        assert_memory_not_equal(search.point[k].at, p->at,
                                (size_t)axes * sizeof *p->at);
      p->score = f(p->at);
    }
    seen = search.n;
  }
}

static const int *best(void) { return search.point[search.best].at; }

static kv_tune_score plain(double value) {
  return (kv_tune_score){.ran = true, .value = value};
}

static kv_tune_score bowl(const int *at) {
  double x = at[0] - 313, y = at[1] - 77;
  return plain(x * x + 3 * y * y + x * y);
}

/* Less is cheaper, and from 137 on it is good enough. */
static kv_tune_score threshold(const int *at) {
  int lacks = 137 - at[0];
  return (kv_tune_score){
      .ran = true, .far = lacks > 0 ? lacks : 0, .value = at[0]};
}

/* Two numbers pay for each other along a bound that no axis follows; the
 * first costs more, so that the corner (0, 90) is best. */
static kv_tune_score bound(const int *at) {
  int lacks = 90 - at[0] - at[1];
  return (kv_tune_score){.ran = true,
                         .far = lacks > 0 ? lacks : 0,
                         .value = 3 * at[0] + 2 * at[1]};
}

static kv_tune_score flat(const int *at) {
  (void)at;
  return plain(1);
}

static kv_tune_score never(const int *at) {
  (void)at;
  return (kv_tune_score){0};
}

/* Half of the points are refused. */
static kv_tune_score holes(const int *at) {
  kv_tune_score s = plain(abs(at[0] - 40));
  s.ran = at[0] % 2 == 0;
  return s;
}

TEST(finds_what_is_known) {
  run(2, (int[]){1000, 200}, 400, bowl);
  assert_int_equal(search.end, KV_TUNE_NO_BETTER);
  assert_true(best()[0] == 313 && best()[1] == 77);
  run(2, (int[]){101, 101}, 400, bound);
  assert_true(best()[0] == 0 && best()[1] == 90);
  run(1, (int[]){41}, 100, holes);
  assert_int_equal(best()[0], 40);
}

/* One monotone number is bisected: some twenty probes for a thousand values. */
TEST(bisects) {
  for (int size = 138; size < 2000; size += 97 * little_step(6)) {
    run(1, &size, 100, threshold);
    assert_int_equal(search.end, KV_TUNE_NO_BETTER);
    assert_int_equal(best()[0], 137);
    assert_true(search.n < 50);
  }
  /* What no value reaches: the nearest. */
  run(1, (int[]){100}, 100, threshold);
  assert_int_equal(best()[0], 99);
  assert_true(search.point[search.best].score.far == 38);
}

/* A space that the probes pay for is tried whole. */
TEST(small_spaces) {
  run(2, (int[]){3, 2}, 100, bowl);
  assert_int_equal(search.n, 6);
  assert_true(best()[0] == 2 && best()[1] == 1);
  run(1, (int[]){1}, 1, flat);
  assert_int_equal(search.n, 1);
  assert_int_equal(search.best, 0);
  run(0, NULL, 100, flat); /* nothing to search: one point */
  assert_int_equal(search.n, 1);
  assert_int_equal(search.best, 0);
  assert_int_equal(search.end, KV_TUNE_NO_BETTER);
}

/* Of equals the smaller numbers, first axis first; none ran: no best. */
TEST(ties) {
  run(2, (int[]){5, 5}, 100, flat);
  assert_true(best()[0] == 0 && best()[1] == 0);
  run(3, (int[]){50, 50, 50}, 60, never);
  assert_int_equal(search.end, KV_TUNE_BLIND);
  assert_int_equal(search.best, -1);
}

TEST(keeps_to_its_probes) {
  int all[KV_TUNE_AXES];
  for (int i = 0; i < KV_TUNE_AXES; i++) all[i] = 1000;
  for (int most = 1; most < 70; most += 3) {
    run(2, (int[]){1000, 1000}, most, bowl);
    assert_true(search.n == most || search.end == KV_TUNE_NO_BETTER);
    assert_true(search.best >= 0);
    run(KV_TUNE_AXES, all, most, bowl);
    assert_true(search.n <= most);
  }
}

TEST(the_same_again) {
  run(2, (int[]){777, 555}, 90, bowl);
  int n = search.n;
  kv_tune_point *first = calloc((size_t)n, sizeof *first);
  assert_non_null(first);
  memcpy(first, search.point, (size_t)n * sizeof *first);
  run(2, (int[]){777, 555}, 90, bowl);
  assert_int_equal(search.n, n);
  for (int i = 0; i < n; i++)
    assert_memory_equal(first[i].at, search.point[i].at, 2 * sizeof(int));
  free(first);
}

/* --- names and ranges ----------------------------------------------------- */

TEST(measures_by_name) {
  static const char *const known[][2] = {
      {"output_error", "output_error.mean"},
      {"output_error.p95", "output_error.p95"},
      {"bytes.mean", "bytes.mean"},
      {"mean_bytes", "bytes.mean"},
      {"bytes_mean", "bytes.mean"},
      {"bytes", "bytes.mean"},
      {"end_bytes", "bytes.end.total"},
      {"bytes.end.payload", "bytes.end.payload"},
      {"bytes.codes_only", "bytes.codes_only.mean"},
      {"needle_share", "needle_share"},
      {"kept", "kept"},
      {"kr", "kr"}};
  static const char *const unknown[] = {
      "",       "trace",  "journal", "mean",    "spec",          "byte",
      "_bytes", "bytes_", ".mean",   "kr.mean", "bytes.end.mean"};
  char key[KV_TUNE_KEY];
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    works(kv_tune_key_find(known[i][0], key, &told));
    assert_string_equal(key, known[i][1]);
  }
  for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
    if (kv_tune_key_find(unknown[i], key, &told) != KV_USAGE)
      fail_msg("'%s' was taken", unknown[i]);
  fails(kv_tune_key_find("output_eror", key, &told), KV_USAGE,
        "did you mean output_error?");
}

/* range SPEC SEARCH: the points of its first axis, and the specification of
 * the last of each. */
static void range(const char *spec, const char *list, int points,
                  const char *last) {
  kv_tune_space s;
  if (kv_tune_space_open(kv_method_at, spec, &s, &told) ||
      kv_tune_space_add(&s, list, &told) ||
      kv_tune_space_check(kv_method_at, &s, &told))
    fail_msg("%s", told.text);
  int at[KV_TUNE_AXES];
  for (int i = 0; i < s.axes; i++) at[i] = s.axis[i].points - 1;
  char *text = kv_tune_space_text(&s, at);
  assert_int_equal(s.axis[0].points, points);
  assert_string_equal(text, last);
  free(text);
  kv_tune_space_free(&s);
}

TEST(ranges) {
  range("kivi", "bits=2:4", 2, "kivi:bits=4");
  range("kivi:group=8", "residual=8:64:8", 8, "kivi:group=8:residual=64");
  range("oracle-topp", "p=0.5:1", 501, "oracle-topp:p=1");
  range("zsmerge:budget=40", "decay=0:0.5", 501, "zsmerge:budget=40:decay=0.5");
  range("snapkv:budget=9+kivi:group=8", "kivi.bits=2:4,window=1:3", 2,
        "snapkv:budget=9:window=3+kivi:group=8:bits=4");
  range("oracle-topp", "p=0.1:0.8:0.1", 8, "oracle-topp:p=0.8");
  range("window", "budget=7:7", 1, "window:budget=7");
}

/* What -b sets, all of it. */
TEST(knobs) {
  static const struct {
    const char *spec;
    int points; /* of 300 tokens; 0: none */
    const char *first, *last;
  } of[] = {
      {"omnikv", 300, "omnikv:k=1", "omnikv:k=300"},
      {"snapkv+kivi:bits=4", 300, "snapkv:budget=1+kivi:bits=4",
       "snapkv:budget=300+kivi:bits=4"},
      {"twilight:skip=1", 1001, "twilight:skip=1:p=0", "twilight:skip=1:p=1"},
      {"deltakv", 4096, "deltakv:stride=1", "deltakv:stride=4096"},
      {"h2o:budget=9", 0, "h2o:budget=9", ""},
      {"h2o:budget=9/8", 0, "h2o:budget=9/8", ""},
      {"dense", 0, "dense", ""}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    kv_tune_space s;
    int at[KV_TUNE_AXES] = {0};
    assert_int_equal(kv_tune_space_open(kv_method_at, of[i].spec, &s, NULL), 0);
    assert_int_equal(kv_tune_space_knob(&s, 300), of[i].points > 0);
    assert_int_equal(kv_tune_space_check(kv_method_at, &s, NULL), KV_OK);
    for (int last = 0; last <= s.axes; last++) {
      if (last) at[0] = s.axis[0].points - 1;
      char *text = kv_tune_space_text(&s, at);
      assert_string_equal(text, last ? of[i].last : of[i].first);
      free(text);
    }
    assert_int_equal(s.axis[0].points, of[i].points);
    kv_tune_space_free(&s);
  }
}

TEST(wrong_ranges) {
  static const char *const of[][3] = {
      {"kivi", "bitz=2:4", "did you mean bits?"},
      {"kivi", "bits", "must be NAME=LOW:HIGH"},
      {"kivi", "bits=2", "must be NAME=LOW:HIGH"},
      {"kivi", "bits=two:4", "must be NAME=LOW:HIGH"},
      {"kivi", "bits=4:2", "bits=2:4"},
      {"kivi", "bits=2:9", "the nearest is bits=4"},
      {"kivi", "bits=1:4", "the nearest is bits=2"},
      {"kivi", "bits=2:4:0", "the step 0 of bits"},
      {"kivi", "bits=2:4:0.5", "whole number"},
      {"kivi", "residual=1.5:4", "a whole number"},
      {"kivi", "residual=1:1048576", "larger step"},
      {"kivi", "variant=1:2", "is a choice (auto|paper|code)"},
      {"kivi", "bits=2:4,bits=2:4", "bits twice"},
      {"kivi:bits=2", "bits=2:4", "bits is given twice"},
      {"kivi", "", "must be NAME=LOW:HIGH"},
      {"kivi,h2o", "bits=2:4", "one method"},
      {"all", "bits=2:4", "one method"},
      {"oracle-topp", "p=0.5:1:1e-9", "larger step"}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    kv_tune_space s;
    kv_rc rc = kv_tune_space_open(kv_method_at, of[i][0], &s, &told);
    if (!rc) rc = kv_tune_space_add(&s, of[i][1], &told);
    if (!rc) rc = kv_tune_space_check(kv_method_at, &s, &told);
    kv_tune_space_free(&s);
    if (rc != KV_USAGE || !strstr(told.text, of[i][2]))
      fail_msg("-m %s -s %s: %d, %s", of[i][0], of[i][1], (int)rc, told.text);
  }
}

static int let_go(void **state) {
  (void)state;
  kv_tune_search_free(&search);
  return 0;
}

/* --- goals -------------------------------------------------------------- */

static kv_result row_with(double error, double bytes) {
  kv_result r = {.totals.mean = bytes};
  r.stat[KV_OUTPUT_ERROR] = (kv_stat){.count = 1, .mean = error};
  return r;
}

static void asked(kv_tune_goal *g) {
  *g = (kv_tune_goal){0};
  if (kv_tune_goal_best(g, "mean_bytes", 1, &told) ||
      kv_tune_goal_bound(g, "--at-most", "output_error=0.5", 1, &told))
    fail_msg("%s", told.text);
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
  kv_result row = {.totals.kr = 0.25};
  row.stat[KV_MASS] = (kv_stat){.count = 1, .mean = 0.5};
  works(kv_tune_goal_best(&g, "mass", -1, &told));
  works(kv_tune_goal_bound(&g, "--at-least", "kr=0.5", -1, &told));
  kv_tune_judgement j = kv_tune_judge(&g, 1, &row);
  assert_true(j.score.value == -0.5 && j.score.far == 0.5);
}

/* What drops most is far below 0 and not within a bound of 2. */
TEST(lse_by_its_size) {
  static const double mean[] = {-3, 3, -1}, far[] = {0.5, 0.5, 0};
  for (int i = 0; i < 3; i++) {
    kv_tune_goal g = {0};
    kv_result row = {.totals.mean = 1};
    row.stat[KV_LSE_ERROR] = (kv_stat){.count = 1, .mean = mean[i]};
    works(kv_tune_goal_best(&g, "mean_bytes", 1, &told));
    works(kv_tune_goal_bound(&g, "--at-most", "lse_error=2", 1, &told));
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
  int front[6], first;
  asked(&g);
  kv_tune_search_free(&search);
  works(kv_tune_search_open(1, (int[]){6}, 12, &search, &told));
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
}

int main(void) { return tests_run("tuning", NULL, let_go); }

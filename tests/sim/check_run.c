/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay run --backend`, with backends of the tests' own: rows name the
 * backend, what one has stored another confirms or contradicts, and a backend
 * that cannot be had or is lost ends with its code and one line.
 */
#include "tests/support/backend/standin.h"
#include "tests/support/program/command.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

TEST(test_refusals) {
  refused(4, run("-m", "dense", "--backend", "gone", NULL),
          "backend gone cannot be used here: no such thing");
  refused(2, run("-m", "dense", "--backend", "ref,same", NULL),
          "no backend 'ref,same'");
  failure = KV_RESOURCE;
  refused(4, run("-m", "dense", "-B", "bad", NULL), "it is <broken>");
}

/* A key knows no backend; a row is computed once by each that is asked. */
TEST(test_run) {
  char path[512];
  failure = KV_REFUSED;
  snprintf(path, sizeof path, "%s", scratch_path("run.db"));
#define RUN(name)                                                              \
  run("-m", "h2o", "-b", "9", "-B", name, "--db", path, "-f", "jsonl", NULL)
  must(0, RUN("ref"), "\"backend\": \"ref\"");
  begun = 0;
  must(0, RUN("same"), "\"backend\": \"same\"");
  assert_int_equal(begun, 2);
  must(0, RUN("same"), "\"backend\": \"same\"");
  assert_int_equal(begun, 2);
  must(0, RUN("ref"), "\"backend\": \"ref\"");
  must(1, RUN("odd"), "\"backend\": \"odd\"");
  assert_non_null(strstr(said, "(odd, odd, threads: 1) contradicts"));
  must(1, RUN("wasteful"), "\"backend\": \"wasteful\"");
  assert_non_null(strstr(said, "bytes"));
  must(1, RUN("bad"), "\"status\": \"failed\"");
  assert_non_null(strstr(said, "status is ok before and failed now"));
  assert_int_equal(number_in(path, "SELECT count(*) FROM run"), 1);
  assert_int_equal(number_in(path, "SELECT count(*) FROM confirmation"), 2);
  assert_int_equal(number_in(path, "SELECT count(*) FROM diff"), 3);
  must(0, run("-m", "h2o", "-b", "9", "-B", "same", NULL), "; backend same\n");
  must(1, run("-m", "h2o", "-b", "9", "-B", "odd", "--twice", NULL), "odd");
  assert_non_null(strstr(said, "the output of layer 1 differs between odd"));
}

/* What selections were shown is stored, confirmed and contradicted; two passes
 * compare it. */
TEST(test_scores) {
  char path[512];
  snprintf(path, sizeof path, "%s", scratch_path("scores.db"));
#define QUEST(name) "-m", "quest:page=4:skip=0,dense", "-b", "20%", "-B", name
  must(0, run(QUEST("ref"), "--db", path, NULL), "quest");
  assert_int_equal(number_in(path, "SELECT count(*) FROM journal_digest WHERE "
                                   "scores IS NULL"),
                   0);
  assert_int_equal(number_in(path, "SELECT count(*) FROM run WHERE scores = "
                                   "(SELECT scores FROM run WHERE method = "
                                   "'dense')"),
                   1);
  must(0, run(QUEST("same"), "--db", path, NULL), "quest");
  must(1, run(QUEST("ulp"), "--db", path, NULL), "quest");
  assert_non_null(strstr(said, "scores of layer 0 is "));
  must(1, run(QUEST("ulp"), "--twice", NULL), "quest");
  assert_non_null(strstr(said, "the score digest of layer 0 differs between"));
}

/* A search is the reference's for all: another backend begins no layer before
 * the replay at the budget that was found, which ref then confirms. */
TEST(test_search) {
  char path[512];
  snprintf(path, sizeof path, "%s", scratch_path("search.db"));
#define SEARCH(name)                                                           \
  run("-m", "adakv", "-b", "end:60%", "-B", name, "--db", path, NULL)
  begun = 0;
  must(0, SEARCH("same"), "adakv");
  assert_int_equal(begun, 2);
  assert_int_equal(number_in(path, "SELECT count(*) FROM budget"), 1);
  must(0, SEARCH("ref"), "adakv");
  assert_int_equal(number_in(path, "SELECT count(*) FROM budget"), 1);
  assert_int_equal(number_in(path, "SELECT count(*) FROM run"), 1);
}

/* Of the method that is not dense: is its cost with budget b within the share
 * of dense? */
static bool fits(const char *path, const char *cost, int b) {
  char sql[512];
  snprintf(sql, sizeof sql,
           "SELECT 100.0 * x.c <= 60.0 * d.c FROM (SELECT %s AS c FROM run "
           "WHERE budget = %d) AS x, (SELECT %s AS c FROM run WHERE method = "
           "'dense') AS d",
           cost, b, cost);
  return number_in(path, sql) != 0;
}

/* A search finds a budget that the ledger of a run keeps, and of the next one
 * does not, whether or not it looks at queries. */
static void must_find(const char *basis, const char *cost, const char *method) {
  char path[512], name[64], budget[32], next[96];
  snprintf(name, sizeof name, "%s-%s.db", basis, method);
  snprintf(path, sizeof path, "%s", scratch_path(name));
  snprintf(budget, sizeof budget, "%s:60%%", basis);
  must(0, run("-m", "dense", "--db", path, NULL), "dense");
  must(0, run("-m", method, "-b", budget, "--db", path, NULL), "");
  int b = (int)number_in(path, "SELECT max(budget) FROM run");
  snprintf(next, sizeof next, "%s:budget=%d", method, b + 1);
  must(0, run("-m", next, "--db", path, NULL), "");
  if (!fits(path, cost, b) || fits(path, cost, b + 1))
    fail_msg("%s of %s: %d is not the last that fits", budget, method, b);
}

#define SCALAR(name)                                                           \
  "(SELECT value FROM scalar s WHERE s.run_id = run.run_id AND name ="         \
  " 'bytes." name "')"

TEST(test_found) {
  static const char *const basis[][2] = {
      {"end", "(SELECT sum(bytes) FROM held h WHERE total AND"
              " h.run_id = run.run_id)"},
      {"mean", SCALAR("mti")},
      {"peak", SCALAR("peak")},
      {"read", SCALAR("read")}};
  static const char *const methods[] = {"h2o", "h2o:variant=masked", "tova",
                                        "pyramidkv", "adakv"};
  for (size_t i = 0; i < sizeof basis / sizeof *basis; i++)
    for (size_t j = 0; j < sizeof methods / sizeof *methods; j++)
      must_find(basis[i][0], basis[i][1], methods[j]);
}

/* What the budget held it to: what a lane keeps where entries are dropped, what
 * a head attends where all are kept. */
TEST(test_achieved) {
  must(0, run("-m", "h2o", "-b", "9", "-f", "jsonl", NULL),
       "\"achieved\": 9.0, \"kept\": 9.0");
  must(0, run("-m", "h2o:variant=masked", "-b", "9", "-f", "jsonl", NULL),
       "\"achieved\": 9.0, \"kept\": ");
  must(0, run("-m", "oracle-topk", "-b", "9", "-f", "jsonl", NULL),
       "\"achieved\": 9.0, \"kept\": ");
}

int main(void) { return tests_run("run", open_trace, scratch_remove); }

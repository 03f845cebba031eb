/* SPDX-License-Identifier: Apache-2.0
 *
 * What a database knows that others do not: one of an earlier schema is brought
 * forward with every row it has, one whose step was interrupted too; numbers
 * beside the digest of all values are compared to the bit, tokens are taken
 * when they are asked for, kinds of bytes may be more.
 */
#include "tests/support/program/dbplace.h"
#include "tests/support/rows.h"
#include "tests/support/test.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { METHOD = 4, BUDGET = 1 };

static void must(sqlite3 *db, const char *sql) {
  char *why = NULL;
  if (sqlite3_exec(db, sql, NULL, NULL, &why)) fail_msg("%s: %s", sql, why);
}

/* What was recorded is compared, to the last bit. */
static void other_moments_are_told(kv_db *db, kv_result *r) {
  kv_err e = {0};
  float *x = &r->step_mean[KV_TV * (r->n_steps - 1) + 5], was = *x;
  *x = nextafterf(was, 9);
  assert_int_equal(kv_dbplace_put(db, r, &e), KV_DIFFERENT);
  if (!strstr(e.text, "mean tv of step ")) fail_msg("%s", e.text);
  *x = was;
  r->part[2].stat[KV_KL].squares *= 2;
  assert_int_equal(kv_dbplace_put(db, r, &e), KV_DIFFERENT);
  if (!strstr(e.text, "squares of kl")) fail_msg("%s", e.text);
  r->part[2].stat[KV_KL].squares /= 2;
  assert_int_equal(kv_dbplace_put(db, r, &e), 0);
  must(db->sql, "UPDATE step_mean SET mean = x'00000000' WHERE measure = 'tv'");
  assert_int_equal(kv_dbplace_put(db, r, &e), KV_INPUT);
  if (!strstr(e.text, "step_mean has not one number")) fail_msg("%s", e.text);
}

static void numbers_are_compared(void **state) {
  kv_dbplace *p = *state;
  kv_err e = {0};
  kv_result r = kv_rows_make(0, METHOD, BUDGET, "avx2", 1);
  struct {
    int64_t *whole;
    const char *says;
  } of[] = {{&r.totals.asset, "bytes.asset"},
            {&r.totals.fetched, "bytes.fetched"},
            {&r.step[1].scanned, "bytes scanned at a step"}};
  assert_int_equal(kv_dbplace_put(p->db, &r, NULL), 0);
  for (int i = 0; i < 3; i++) {
    ++*of[i].whole;
    assert_int_equal(kv_dbplace_put(p->db, &r, &e), KV_DIFFERENT);
    if (!strstr(e.text, of[i].says)) fail_msg("%s", e.text);
    --*of[i].whole;
  }
  double was = r.part[3].drift;
  r.part[3].drift = nextafter(was, 9);
  assert_int_equal(kv_dbplace_put(p->db, &r, &e), KV_DIFFERENT);
  if (!strstr(e.text, "the drift of part 4 is")) fail_msg("%s", e.text);
  r.part[3].drift = was;
  other_moments_are_told(p->db, &r);
  kv_result_free(&r);
}

/* What became of tokens is stored by the first who is asked for it, and
 * compared then on. */
static void tokens_are_taken_later(void **state) {
  kv_dbplace *p = *state;
  kv_db *db = p->db;
  kv_err e = {0};
  bool has = true;
  kv_result r = kv_rows_make(0, METHOD, BUDGET, "avx2", 1);
  assert_int_equal(kv_dbplace_put(db, &r, NULL), 0);
  if (kv_db_has_survivals(db, &r, &has, &e)) fail_msg("%s", e.text);
  assert_false(has);
  int32_t *gone = calloc(2 * (size_t)r.n_tokens, sizeof *gone);
  r.survival = calloc(1, sizeof *r.survival);
  assert_true(gone && r.survival);
  r.survival[0] =
      (kv_survival){.layer = 1, .gone = gone, .shown = gone + r.n_tokens};
  r.n_survivals = 1;
  gone[3] = 0x123456;
  if (kv_dbplace_put(db, &r, &e)) fail_msg("%s", e.text);
  if (kv_db_has_survivals(db, &r, &has, &e)) fail_msg("%s", e.text);
  assert_true(has);
  assert_int_equal(
      kv_dbplace_number(db, "SELECT hex(substr(gone, 13, 4)) = '56341200'"
                            " FROM survival WHERE layer = 1"),
      1);
  if (kv_dbplace_put(db, &r, &e)) fail_msg("%s", e.text);
  gone[3]++;
  assert_int_equal(kv_dbplace_put(db, &r, &e), KV_DIFFERENT);
  if (!strstr(e.text, "lane 0 of layer 1 left it")) fail_msg("%s", e.text);
  kv_result_free(&r);
}

/* A row without the kinds that every database has is no row. */
static void kinds_that_lack_are_named(void **state) {
  kv_dbplace *p = *state;
  kv_err e = {0};
  bool found = false;
  kv_result r = kv_rows_make(0, METHOD, BUDGET, "avx2", 1),
            was = kv_dbplace_names(&r);
  assert_int_equal(kv_dbplace_put(p->db, &r, NULL), 0);
  must(p->db->sql, "DELETE FROM held WHERE kind = 'side'");
  assert_int_equal(kv_db_find(p->db, &was, &found, &e), KV_INPUT);
  if (!strstr(e.text, "table held lacks bytes")) fail_msg("%s", e.text);
  kv_result_free(&was);
  kv_result_free(&r);
}

/* A kind, or a number, of a later kvreplay is left out, one that an earlier did
 * not take is not there; else the row is what it was. */
static void others_kinds_are_left_out(void **state) {
  kv_dbplace *p = *state;
  kv_err e = {0};
  bool found = false;
  kv_result r = kv_rows_make(0, METHOD, BUDGET, "avx2", 1),
            was = kv_dbplace_names(&r);
  assert_int_equal(kv_dbplace_put(p->db, &r, NULL), 0);
  must(p->db->sql, "INSERT INTO held VALUES (1, 'later', 1, 5);"
                   "INSERT INTO scalar VALUES (1, 'later', 5)");
  if (kv_dbplace_put(p->db, &r, &e)) fail_msg("%s", e.text);
  must(p->db->sql, "DELETE FROM scalar WHERE name IN ('bytes.asset', 'cr');"
                   "UPDATE run SET measures = measures - 2");
  if (kv_dbplace_put(p->db, &r, &e)) fail_msg("%s", e.text);
  if (kv_db_find(p->db, &was, &found, &e)) fail_msg("%s", e.text);
  assert_true(found && was.totals.asset == -1 && isnan(was.totals.cr));
  assert_true(was.totals.kr == r.totals.kr);
  kv_result_free(&was);
  kv_result_free(&r);
}

/* --- steps ---------------------------------------------------------------- */

static const char *step[4]; /* the schema's, and two that may follow it */

static void later_steps(const char *last) {
  assert_int_equal(kv_db_n_steps, 1);
  step[0] = kv_db_steps[0];
  step[1] = "ALTER TABLE run ADD COLUMN later INTEGER;"
            "UPDATE run SET later = 7 WHERE status = 'ok'";
  step[2] = last;
}

/* Rows are what they were, with what the steps add. */
static void earlier_files_go_forward(void **state) {
  kv_dbplace *p = *state;
  kv_err e = {0};
  bool found = false;
  char x[65], y[65];
  kv_result r = kv_rows_make(0, METHOD, BUDGET, "avx2", 1),
            was = kv_dbplace_names(&r);
  assert_int_equal(kv_dbplace_put(p->db, &r, NULL), 0);
  later_steps("CREATE TABLE more(x INTEGER) STRICT");
  if (kv_db_migrate(p->db, 3, step, &e)) fail_msg("%s", e.text);
  assert_int_equal(kv_dbplace_number(p->db, "PRAGMA user_version"), 3);
  assert_int_equal(kv_dbplace_number(p->db, "SELECT sum(later) FROM run"), 7);
  if (kv_db_find(p->db, &was, &found, &e)) fail_msg("%s", e.text);
  assert_true(found);
  kv_db_value(&r, x);
  kv_db_value(&was, y);
  assert_string_equal(x, y);
  if (kv_dbplace_put(p->db, &r, &e)) fail_msg("%s", e.text);
  kv_result_free(&was);
  kv_result_free(&r);
}

static void die(sqlite3_context *c, int n, sqlite3_value **v) {
  (void)c, (void)n, (void)v;
  raise(SIGKILL);
}

/* Killed within its second step: that is not there, and done by the next. */
static void interrupted_steps_are_done_again(void **state) {
  kv_dbplace *p = *state;
  kv_err e = {0};
  int status;
  later_steps("CREATE TABLE more(x INTEGER) STRICT; SELECT die()");
  kv_db_close(p->db);
  p->db = NULL;
  pid_t child = fork();
  if (!child) {
    if (kv_db_open(p->path, &p->db, NULL)) _exit(1);
    sqlite3_create_function(p->db->sql, "die", 0, SQLITE_UTF8, NULL, die, NULL,
                            NULL);
    kv_db_migrate(p->db, 3, step, NULL);
    _exit(2);
  }
  assert_true(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  step[2] = "CREATE TABLE more(x INTEGER) STRICT";
  kv_db db = {0};
  assert_int_equal(sqlite3_open(p->path, &db.sql), 0);
  assert_int_equal(kv_dbplace_number(&db, "PRAGMA user_version"), 2);
  if (kv_db_migrate(&db, 3, step, &e)) fail_msg("%s", e.text);
  assert_int_equal(kv_dbplace_number(&db, "PRAGMA user_version"), 3);
  assert_int_equal(sqlite3_close(db.sql), 0);
  assert_int_equal(kv_db_open(p->path, &p->db, &e), KV_INPUT);
  if (!strstr(e.text, "later kvreplay (version 3")) fail_msg("%s", e.text);
}

int main(void) {
#define PLACED(f)                                                              \
  cmocka_unit_test_setup_teardown(f, kv_dbplace_open, kv_dbplace_close)
  const struct CMUnitTest tests[] = {PLACED(numbers_are_compared),
                                     PLACED(tokens_are_taken_later),
                                     PLACED(earlier_files_go_forward),
                                     PLACED(interrupted_steps_are_done_again),
                                     PLACED(kinds_that_lack_are_named),
                                     PLACED(others_kinds_are_left_out)};
  return cmocka_run_group_tests_name("old_db", tests, NULL, NULL);
}

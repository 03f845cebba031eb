/* SPDX-License-Identifier: Apache-2.0
 *
 * The database in bad times: steps of the schema only go forward, all or
 * nothing; foreign and later files are refused and not touched; what was
 * answered with KV_OK outlives kill -9 and a full disk.
 */
#include "tests/dbplace.h"
#include "tests/rows.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* --- schema -------------------------------------------------------------- */

static void steps_go_forward_or_not_at_all(void **state) {
  kv_dbplace *p = *state;
  const char *step[16] = {0};
  int n = kv_db_n_steps;
  memcpy(step, kv_db_steps, (size_t)n * sizeof *step);
  step[n] = "CREATE TABLE later(x INTEGER) STRICT";
  step[n + 1] = "CREATE TABLE half(x INTEGER) STRICT; SELECT no_such_thing()";
  assert_int_equal(kv_dbplace_number(p->db, "PRAGMA user_version"), n);
  assert_int_equal(kv_dbplace_number(p->db, "PRAGMA application_id"),
                   KV_DB_APPLICATION);
  assert_int_equal(kv_db_migrate(p->db, n, step, NULL), 0);
  assert_int_equal(kv_db_migrate(p->db, n + 1, step, NULL), 0);
  assert_int_equal(kv_dbplace_number(p->db, "PRAGMA user_version"), n + 1);
  assert_int_equal(kv_db_migrate(p->db, n + 2, step, NULL), KV_RESOURCE);
  assert_int_equal(kv_dbplace_number(p->db, "PRAGMA user_version"), n + 1);
  assert_int_equal(
      kv_dbplace_number(
          p->db, "SELECT count(*) FROM sqlite_schema WHERE name = 'half'"),
      0);
}

static void expect_refused(kv_dbplace *p, const char *change,
                           const char *says) {
  kv_db *again = (kv_db *)p;
  kv_err e = {0};
  assert_int_equal(sqlite3_exec(p->db->sql, change, 0, 0, 0), 0);
  assert_int_equal(kv_db_open(p->path, &again, &e), KV_INPUT);
  assert_null(again);
  if (!strstr(e.text, says)) fail_msg("%s: no %s", e.text, says);
}

static void foreign_files_are_refused(void **state) {
  kv_dbplace *p = *state;
  char path[96];
  kv_db *db;
  kv_err e = {0};
  FILE *f;
  expect_refused(p, "PRAGMA user_version = 99", "later kvreplay");
  expect_refused(p, "PRAGMA application_id = 7", "another program");
  snprintf(path, sizeof path, "%s/text", p->folder);
  f = fopen(path, "w");
  for (int i = 0; i < 100; i++) fputs("this is not a database\n", f);
  fclose(f);
  assert_int_equal(kv_db_open(path, &db, &e), KV_INPUT);
  assert_non_null(strstr(e.text, "is not a kvreplay database"));
  unlink(path);
  assert_int_equal(kv_db_open("/no/such/folder/r.db", &db, &e), KV_RESOURCE);
}

/* --- catastrophes ----------------------------------------------------------
 */

/* Writes rows forever; one byte into the pipe after each that is reported. */
static void write_rows(const char *path, int pipe) {
  kv_db *db;
  if (kv_db_open(path, &db, NULL)) _exit(1);
  for (int i = 0;; i++) {
    kv_result r = kv_rows_make(0, 4, 1, "avx2", 2);
    r.revision = i;
    if (kv_dbplace_put(db, &r, NULL) || write(pipe, "", 1) != 1) _exit(2);
    kv_result_free(&r);
  }
}

static int kill_after(const char *path, int rows) {
  int end[2], told = 0;
  char byte;
  pid_t child;
  assert_int_equal(pipe(end), 0);
  child = fork();
  if (!child) write_rows(path, end[1]);
  close(end[1]);
  while (told < rows && read(end[0], &byte, 1) == 1) told++;
  kill(child, SIGKILL);
  while (read(end[0], &byte, 1) == 1) told++;
  close(end[0]);
  waitpid(child, NULL, 0);
  return told;
}

static void killed_loses_nothing_reported(void **state) {
  kv_dbplace *p = *state;
  int most = 0;
  for (int rows = 1; rows < 40; rows += 7) {
    int told = kill_after(p->path, rows);
    if (told > most) most = told;
    assert_true(kv_dbplace_number(p->db, "SELECT count(*) FROM run") >= most);
    assert_int_equal(kv_dbplace_number(p->db,
                                       "SELECT count(*) FROM run r WHERE"
                                       " (SELECT count(*) FROM step_cost s"
                                       "  WHERE s.run_id = r.run_id) != 321"),
                     0);
    assert_int_equal(kv_dbplace_number(p->db, "SELECT count(*) FROM"
                                              " pragma_foreign_key_check"),
                     0);
  }
}

static void full_disk_keeps_what_was_there(void **state) {
  kv_dbplace *p = *state;
  struct rlimit old, small;
  kv_err e = {0};
  int done = 0;
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
  small = old;
  small.rlim_cur = 600000;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  for (; !e.rc && done < 100; done++) {
    kv_result r = kv_rows_make(0, 4, 1, "avx2", 2);
    r.revision = done;
    kv_dbplace_put(p->db, &r, &e);
    kv_result_free(&r);
  }
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
  assert_int_equal(e.rc, KV_RESOURCE);
  assert_non_null(strstr(e.text, "free space"));
  assert_true(done > 1);
  assert_int_equal(kv_dbplace_number(p->db, "SELECT count(*) FROM run"),
                   done - 1);
  kv_db_close(p->db);
  assert_int_equal(kv_db_open(p->path, &p->db, NULL), 0);
  assert_int_equal(kv_dbplace_number(p->db, "SELECT count(*) FROM run"),
                   done - 1);
}

int main(void) {
#define TEST(f)                                                                \
  cmocka_unit_test_setup_teardown(f, kv_dbplace_open, kv_dbplace_close)
  const struct CMUnitTest tests[] = {
      TEST(steps_go_forward_or_not_at_all),
      TEST(foreign_files_are_refused),
      TEST(killed_loses_nothing_reported),
      TEST(full_disk_keeps_what_was_there),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The database in bad times: files of others and of another schema are refused
 * and not touched; what was answered with KV_OK outlives kill -9 and a full
 * disk.
 */
#include "tests/support/program/dbplace.h"
#include "tests/support/rows.h"
#include "tests/support/told.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- schema -------------------------------------------------------------- */

static void expect_refused(kv_dbplace *p, const char *change,
                           const char *says) {
  kv_db *again = (kv_db *)p;
  assert_int_equal(sqlite3_exec(p->db->sql, change, 0, 0, 0), 0);
  assert_int_equal(kv_db_open(p->path, &again, &told), KV_INPUT);
  assert_null(again);
  must_say(says);
}

DB_TEST(foreign_files_are_refused) {
  kv_dbplace *p = *state;
  char path[96];
  kv_db *db;
  FILE *f;
  const char *schema[] = {"0", "-1", "2", "99"};
  for (int i = 0; i < 4; i++) {
    char set[64], says[64];
    snprintf(set, sizeof set, "PRAGMA user_version = %s", schema[i]);
    snprintf(says, sizeof says, "has schema %s, but this kvreplay", schema[i]);
    expect_refused(p, set, says);
  }
  expect_refused(p, "PRAGMA application_id = -7", "another program");
  expect_refused(p, "PRAGMA application_id = 7", "another program");
  snprintf(path, sizeof path, "%s/text", p->folder);
  f = fopen(path, "w");
  for (int i = 0; i < 100; i++) fputs("this is not a database\n", f);
  fclose(f);
  fails(kv_db_open(path, &db, &told), KV_INPUT, "is not a kvreplay database");
  unlink(path);
  assert_int_equal(kv_db_open("/no/such/folder/r.db", &db, &told), KV_RESOURCE);
}

static void expect_told(kv_dbplace *p, const char *says) {
  kv_result r = kv_rows_make(0, 4, 1, "avx2", 2);
  fails(kv_dbplace_put(p->db, &r, &told), KV_INPUT, says);
  must_say(p->path);
  kv_result_free(&r);
}

/* What is wrong with the file is told as that, not as want of memory or room:
 * a table or a column that is gone, what refuses a row. */
TEST(changed_files_are_told) {
  static const char *const change[][2] = {
      {"DROP VIEW run_metric; DROP VIEW layer_metric; DROP VIEW head_metric;"
       "DROP VIEW step_metric; DROP TABLE metric",
       "no such table: main.metric"},
      {"ALTER TABLE run DROP COLUMN reason", "no column named reason"},
      {"CREATE TRIGGER t BEFORE INSERT ON environment BEGIN"
       " SELECT raise(ABORT, 'no more'); END",
       "no more"}};
  for (int i = 0; i < 3; i++) {
    void *own = NULL;
    assert_int_equal(kv_dbplace_open(&own), 0);
    kv_dbplace *p = own;
    assert_int_equal(sqlite3_exec(p->db->sql, change[i][0], 0, 0, 0), 0);
    expect_told(p, change[i][1]);
    kv_dbplace_close(&own);
  }
}

/* The head is whole, a page behind it is not. */
DB_TEST(damaged_files_are_told) {
  kv_dbplace *p = *state;
  char junk[4096];
  memset(junk, 7, sizeof junk);
  kv_db_close(p->db);
  FILE *f = fopen(p->path, "r+");
  fseek(f, 0, SEEK_END);
  long pages = ftell(f) / (long)sizeof junk;
  fseek(f, sizeof junk, SEEK_SET);
  for (long i = 1; i < pages; i++) fwrite(junk, 1, sizeof junk, f);
  fclose(f);
  fails(kv_db_open(p->path, &p->db, &told), KV_INPUT, "is a damaged database");
}

/* --- catastrophes --------------------------------------------------------- */

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
  int end[2], done = 0;
  char byte;
  pid_t child;
  assert_int_equal(pipe(end), 0);
  child = fork();
  if (!child) write_rows(path, end[1]);
  close(end[1]);
  while (done < rows && read(end[0], &byte, 1) == 1) done++;
  kill(child, SIGKILL);
  while (read(end[0], &byte, 1) == 1) done++;
  close(end[0]);
  waitpid(child, NULL, 0);
  return done;
}

DB_TEST(killed_loses_nothing_reported) {
  kv_dbplace *p = *state;
  int most = 0;
  for (int rows = 1; rows < 40; rows += 7) {
    int done = kill_after(p->path, rows);
    if (done > most) most = done;
    assert_true(kv_dbplace_number(p->db, "SELECT count(*) FROM run") >= most);
    kv_dbplace_gives(p,
                     "SELECT count(*) FROM run r WHERE"
                     " (SELECT count(*) FROM step_cost s"
                     "  WHERE s.run_id = r.run_id) != 321",
                     0);
    kv_dbplace_gives(p,
                     "SELECT count(*) FROM"
                     " pragma_foreign_key_check",
                     0);
  }
}

/* --- who else writes ------------------------------------------------------ */

static long told_of; /* -1: nothing was told */
static int tells;

static void tell(void *self, const char *path, long pid) {
  assert_string_equal(path, self);
  told_of = pid;
  tells++;
}

static bool was_told(void) { return told_of >= 0; }

/* A process that writes, and ends when it is killed, or we do. */
static pid_t begin_writer(const char *path) {
  int said[2], alive[2];
  char byte;
  assert_int_equal(pipe(said), 0);
  assert_int_equal(pipe(alive), 0);
  pid_t child = fork();
  if (!child) {
    sqlite3 *sql;
    close(alive[1]);
    if (!sqlite3_open(path, &sql) &&
        !sqlite3_exec(sql, "BEGIN IMMEDIATE", 0, 0, 0) &&
        write(said[1], "", 1) == 1)
      while (read(alive[0], &byte, 1) > 0) {
      }
    _exit(1);
  }
  assert_int_equal(read(said[0], &byte, 1), 1);
  close(said[0]);
  close(said[1]);
  close(alive[0]);
  return child; /* the other end of alive is open as long as we are */
}

/* The wait is told once, with who it is for where the system says so, and is
 * over when it is to stop. */
DB_TEST(waits_aloud) {
  kv_dbplace *p = *state;
  kv_result r = kv_rows_make(0, 4, 1, "avx2", 2);
  kv_db_wait how = {.tell = tell, .stop = was_told, .self = p->path};
  kv_db_close(p->db);
  assert_int_equal(kv_db_open_waiting(p->path, &how, &p->db, NULL), 0);
  told_of = -1;
  pid_t child = begin_writer(p->path);
  assert_int_equal(kv_dbplace_put(p->db, &r, NULL), KV_RESOURCE);
  assert_int_equal(tells, 1);
  assert_true(told_of == child || told_of == 0);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  assert_int_equal(kv_dbplace_put(p->db, &r, NULL), 0);
  kv_result_free(&r);
}

DB_TEST(full_disk_keeps_what_was_there) {
  kv_dbplace *p = *state;
  struct rlimit old, small;
  kv_rc rc = KV_OK;
  int done = 0;
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
  small = old;
  small.rlim_cur = 1200000;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  for (; !rc && done < 100; done++) {
    kv_result r = kv_rows_make(0, 4, 1, "avx2", 2);
    r.revision = done;
    rc = kv_dbplace_put(p->db, &r, &told);
    kv_result_free(&r);
  }
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
  fails(rc, KV_RESOURCE, "free space");
  assert_true(done > 1);
  kv_dbplace_gives(p, "SELECT count(*) FROM run", done - 1);
  kv_db_close(p->db);
  assert_int_equal(kv_db_open(p->path, &p->db, NULL), 0);
  kv_dbplace_gives(p, "SELECT count(*) FROM run", done - 1);
}

int main(void) { return tests_run("db faults", NULL, NULL); }

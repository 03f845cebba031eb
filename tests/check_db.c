/* SPDX-License-Identifier: Apache-2.0
 *
 * The laws of the database: what is put is found again to the bit; a repeat
 * confirms and adds nothing; another result under the same key is a conflict
 * that is told, kept beside, and overwrites nothing; new code is a new row
 * that supersedes; steps of the schema only go forward and all or nothing;
 * what was answered with KV_OK outlives kill -9 and a full disk.
 */
#include "sim/db_private.h"
#include "tests/rows.h"

#include <math.h>
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

typedef struct place {
  char folder[64], path[80];
  kv_db *db;
} place;

static int set_up(void **state) {
  place *p = calloc(1, sizeof *p);
  strcpy(p->folder, "check_db_XXXXXX");
  if (!mkdtemp(p->folder)) return -1;
  snprintf(p->path, sizeof p->path, "%s/r.db", p->folder);
  *state = p;
  return kv_db_open(p->path, &p->db, NULL) ? -1 : 0;
}

static int tear_down(void **state) {
  static const char *const tail[] = {"", "-wal", "-shm", "-journal"};
  place *p = *state;
  kv_db_close(p->db);
  for (int i = 0; i < 4; i++) {
    char path[96];
    snprintf(path, sizeof path, "%s%s", p->path, tail[i]);
    unlink(path);
  }
  rmdir(p->folder);
  free(p);
  return 0;
}

static int64_t number(kv_db *db, const char *sql) {
  sqlite3_stmt *s;
  int64_t n;
  assert_int_equal(sqlite3_prepare_v2(db->sql, sql, -1, &s, NULL), 0);
  assert_int_equal(sqlite3_step(s), SQLITE_ROW);
  n = sqlite3_column_int64(s, 0);
  sqlite3_finalize(s);
  return n;
}

static kv_rc put(kv_db *db, const kv_result *r, kv_err *e) {
  kv_environment v = kv_rows_environment(0);
  return kv_db_put(db, r, &v, e);
}

/* The names of a row, as a command that is about to compute it has them. */
static kv_result names_of(const kv_result *r) {
  kv_result n = {.has_identity = true,
                 .identity = r->identity,
                 .prompt_len = r->prompt_len,
                 .n_tokens = r->n_tokens,
                 .method = r->method,
                 .revision = r->revision,
                 .arithmetic = r->arithmetic,
                 .basis = r->basis,
                 .budget = r->budget};
  memcpy(n.trace, r->trace, sizeof n.trace);
  memcpy(n.target, r->target, sizeof n.target);
  n.params = strdup(r->params);
  n.spec = strdup(r->spec);
  n.code = r->code ? strdup(r->code) : NULL;
  return n;
}

static void expect_same(const kv_result *a, const kv_result *b) {
  char x[65], y[65];
  kv_db_value(a, x);
  kv_db_value(b, y);
  assert_string_equal(x, y);
  assert_memory_equal(&a->journal, &b->journal, 32);
  assert_memory_equal(&a->state, &b->state, 32);
  assert_memory_equal(&a->output, &b->output, 32);
  assert_int_equal(a->n_layers, b->n_layers);
  for (int i = 0; i < a->n_layers; i++)
    assert_memory_equal(a->layer + i, b->layer + i, sizeof *a->layer);
  assert_true(kv_db_bits(a->achieved) == kv_db_bits(b->achieved));
  assert_int_equal(a->status, b->status);
  assert_int_equal(a->budget, b->budget);
  assert_string_equal(a->backend, b->backend);
  assert_string_equal(a->isa, b->isa);
  assert_int_equal(a->threads, b->threads);
}

static void found_to_the_bit(void **state) {
  place *p = *state;
  for (int m = 0; m < KV_ROWS_METHODS; m++) {
    kv_result r = kv_rows_make(1, m, 2, "avx2", 2), n = names_of(&r);
    bool found;
    /* Values that decimal text or a careless column would not survive. */
    r.totals.mean = 0.1 + 0.2;
    r.totals.kr = -0.0;
    r.totals.read = 5e-324;
    r.totals.cr = NAN;
    r.totals.mti = INT64_MAX;
    r.stat[KV_LSE_ERROR].p99 = -1.7976931348623157e308;
    assert_int_equal(kv_db_find(p->db, &n, &found, NULL), 0);
    assert_false(found);
    assert_int_equal(put(p->db, &r, NULL), 0);
    assert_int_equal(kv_db_find(p->db, &n, &found, NULL), 0);
    assert_true(found);
    expect_same(&r, &n);
    kv_result_free(&r);
    kv_result_free(&n);
  }
}

static void every_value_counts(void **state) {
  kv_result r = kv_rows_make(1, 4, 1, "avx2", 2);
  double *const real[] = {&r.totals.mean,         &r.totals.attended,
                          &r.totals.codes_mean,   &r.stat[KV_KL].p50,
                          &r.part[3].stat[1].p95, &r.part[20].kept};
  int64_t *const whole[] = {&r.totals.end.slack, &r.totals.verbs,
                            &r.step[5].read, &r.stat[0].count};
  char before[65], after[65];
  (void)state;
  r.part[20].kept = 3;
  kv_db_value(&r, before);
  for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
    double kept = *real[i];
    *real[i] = nextafter(kept, 2 * kept + 1);
    kv_db_value(&r, after);
    assert_string_not_equal(before, after);
    *real[i] = kept;
  }
  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
    ++*whole[i];
    kv_db_value(&r, after);
    assert_string_not_equal(before, after);
    --*whole[i];
  }
  kv_result_free(&r);
}

static void repeat_confirms(void **state) {
  place *p = *state;
  kv_result a = kv_rows_make(0, 4, 1, "avx2", 2);
  kv_result b = kv_rows_make(0, 4, 1, "portable", 1);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(put(p->db, &a, NULL), 0);
    assert_int_equal(put(p->db, &b, NULL), 0);
  }
  assert_int_equal(number(p->db, "SELECT count(*) FROM run"), 1);
  assert_int_equal(number(p->db, "SELECT count(*) FROM confirmation"), 2);
  assert_int_equal(number(p->db, "SELECT count(*) FROM diff"), 0);
  kv_result_free(&a);
  kv_result_free(&b);
}

static void expect_conflict(kv_db *db, const kv_result *r, const char *says) {
  kv_err e = {0};
  int64_t before = number(db, "SELECT count(*) FROM diff");
  int64_t confirmed = number(db, "SELECT count(*) FROM confirmation");
  assert_int_equal(put(db, r, &e), KV_DIFFERENT);
  assert_int_equal(e.rc, KV_DIFFERENT);
  if (!strstr(e.text, says)) fail_msg("%s: no %s", e.text, says);
  assert_int_equal(number(db, "SELECT count(*) FROM diff"), before + 1);
  assert_int_equal(number(db, "SELECT count(*) FROM confirmation"), confirmed);
}

static void conflict_is_told_and_kept(void **state) {
  place *p = *state;
  kv_result first = kv_rows_make(0, 6, 1, "avx2", 2), n = names_of(&first);
  kv_result other = kv_rows_make(0, 6, 1, "portable", 1);
  bool found;
  assert_int_equal(put(p->db, &first, NULL), 0);
  other.layer[2].state.byte[5] ^= 4;
  other.state.byte[5] ^= 4;
  expect_conflict(p->db, &other, "the state of layer 2 is");
  assert_int_equal(number(p->db, "SELECT layer FROM diff"), 2);
  memcpy(&other.layer[2], &first.layer[2], sizeof *other.layer);
  memcpy(&other.state, &first.state, sizeof other.state);
  other.stat[KV_MASS].mean = nextafter(other.stat[KV_MASS].mean, 2);
  expect_conflict(p->db, &other, "mass is");
  other.status = KV_CELL_FAILED;
  expect_conflict(p->db, &other, "it was ok before and is failed now");
  assert_int_equal(kv_db_find(p->db, &n, &found, NULL), 0);
  expect_same(&first, &n);
  kv_result_free(&first);
  kv_result_free(&other);
  kv_result_free(&n);
}

static void refused_is_kept_under_what_was_asked(void **state) {
  place *p = *state;
  kv_result r = kv_rows_make(0, 6, 0, "avx2", 2), n = names_of(&r);
  bool found;
  r.status = KV_CELL_REFUSED;
  strcpy(r.reason, "window 32 is larger than budget 24");
  assert_int_equal(put(p->db, &r, NULL), 0);
  assert_int_equal(put(p->db, &r, NULL), 0);
  assert_int_equal(kv_db_find(p->db, &n, &found, NULL), 0);
  assert_true(found);
  assert_int_equal(n.status, KV_CELL_REFUSED);
  assert_string_equal(n.reason, r.reason);
  assert_true(isnan(n.achieved));
  assert_int_equal(n.n_parts, 0);
  strcpy(n.target, "11%");
  assert_int_equal(kv_db_find(p->db, &n, &found, NULL), 0);
  assert_false(found);
  strcpy(n.target, r.target);
  n.revision++;
  assert_int_equal(kv_db_find(p->db, &n, &found, NULL), 0);
  assert_false(found);
  kv_result_free(&r);
  kv_result_free(&n);
}

static void one_run_many_asks(void **state) {
  place *p = *state;
  kv_result r = kv_rows_make(0, 4, 1, "avx2", 2), n = names_of(&r);
  bool found;
  assert_int_equal(put(p->db, &r, NULL), 0);
  n.basis = KV_BASIS_MEAN;
  strcpy(n.target, "12.5%");
  assert_int_equal(kv_db_find(p->db, &n, &found, NULL), 0);
  assert_true(found && isnan(n.achieved));
  n.achieved = .123;
  assert_int_equal(kv_db_ask(p->db, &n, NULL), 0);
  n.achieved = 0;
  kv_result_free(&n);
  n = names_of(&r);
  n.basis = KV_BASIS_MEAN;
  strcpy(n.target, "12.5%");
  assert_int_equal(kv_db_find(p->db, &n, &found, NULL), 0);
  assert_true(found && n.achieved == .123);
  assert_int_equal(number(p->db, "SELECT count(*) FROM run"), 1);
  assert_int_equal(number(p->db, "SELECT count(*) FROM ask"), 2);
  kv_result_free(&r);
  kv_result_free(&n);
}

/* What is in the key, and that everything in it matters. */
static void key_knows_everything(void **state) {
  kv_result r = kv_rows_make(0, 4, 1, "avx2", 2);
  char key[8][65];
  (void)state;
  kv_db_key(&r, key[0]);
  r.identity.byte[31] ^= 1, kv_db_key(&r, key[1]), r.identity.byte[31] ^= 1;
  r.prompt_len++, kv_db_key(&r, key[2]), r.prompt_len--;
  r.revision++, kv_db_key(&r, key[3]), r.revision--;
  r.arithmetic++, kv_db_key(&r, key[4]), r.arithmetic--;
  r.params[1]++, kv_db_key(&r, key[5]), r.params[1]--;
  r.method = "h2", kv_db_key(&r, key[6]);
  r.method = "h2o", r.code = strdup(key[1]), kv_db_key(&r, key[7]);
  for (int i = 0; i < 8; i++)
    for (int j = 0; j < i; j++) assert_string_not_equal(key[i], key[j]);
  kv_result_free(&r);
  r = kv_rows_make(0, 4, 1, "portable", 1);
  strcpy(r.target, "another");
  kv_db_key(&r, key[1]);
  assert_string_equal(key[0], key[1]);
  kv_result_free(&r);
}

static void new_code_is_a_new_row(void **state) {
  place *p = *state;
  kv_result r = kv_rows_make(0, 4, 1, "avx2", 2);
  assert_int_equal(put(p->db, &r, NULL), 0);
  r.revision = 2;
  r.output.byte[0] ^= 1;
  assert_int_equal(put(p->db, &r, NULL), 0);
  assert_int_equal(number(p->db, "SELECT count(*) FROM run"), 2);
  assert_int_equal(number(p->db, "SELECT count(DISTINCT subject) FROM run"), 1);
  kv_result_free(&r);
}

static void rows_in_turn(void **state) {
  place *p = *state;
  char key[65] = "", last[65] = "";
  kv_result r;
  bool more;
  int n = 0;
  for (int m = 0; m < KV_ROWS_METHODS; m++) {
    kv_result x = kv_rows_make(0, m, 1, "avx2", 2);
    assert_int_equal(put(p->db, &x, NULL), 0);
    kv_result_free(&x);
  }
  while (!kv_db_next(p->db, key, &r, &more, NULL) && more) {
    char again[65];
    assert_true(strcmp(last, key) < 0);
    kv_db_key(&r, again);
    assert_string_equal(again, key);
    assert_int_equal(r.n_tokens, 800);
    strcpy(last, key);
    kv_result_free(&r);
    n++;
  }
  assert_int_equal(n, KV_ROWS_METHODS);
}

static void budgets_and_paths(void **state) {
  place *p = *state;
  kv_result r = kv_rows_make(0, 4, 1, "avx2", 2);
  const char *shard[] = {"a.safetensors", "b.safetensors"};
  kv_shape shape = {4, 8, 4, 32, 32, 800, 480, KV_F16, 1};
  kv_db_trace t = {r.trace, r.identity, &shape, ".", 2, shard};
  char path[4096];
  bool found;
  int B = 0;
  assert_int_equal(kv_db_find_budget(p->db, &r, &found, &B, NULL), 0);
  assert_false(found);
  assert_int_equal(kv_db_put_budget(p->db, &r, 77, NULL), 0);
  assert_int_equal(kv_db_find_budget(p->db, &r, &found, &B, NULL), 0);
  assert_true(found && B == 77);
  strcpy(r.target, "none fits");
  assert_int_equal(kv_db_put_budget(p->db, &r, -1, NULL), 0);
  assert_int_equal(kv_db_find_budget(p->db, &r, &found, &B, NULL), 0);
  assert_true(found && B == -1);
  assert_int_equal(kv_db_put_trace(p->db, &t, NULL), 0);
  assert_int_equal(kv_db_put_trace(p->db, &t, NULL), 0);
  assert_int_equal(kv_db_path(p->db, &r.identity, 0, sizeof path, path, NULL),
                   0);
  assert_int_equal(*path, '/');
  assert_int_equal(kv_db_path(p->db, &r.identity, 1, sizeof path, path, NULL),
                   0);
  assert_int_equal(*path, 0);
  assert_int_equal(number(p->db, "SELECT n_heads FROM trace"), 8);
  assert_int_equal(number(p->db, "SELECT count(*) FROM shard"), 2);
  kv_result_free(&r);
}

/* --- schema -------------------------------------------------------------- */

static void steps_go_forward_or_not_at_all(void **state) {
  place *p = *state;
  const char *step[16] = {0};
  int n = kv_db_n_steps;
  memcpy(step, kv_db_steps, (size_t)n * sizeof *step);
  step[n] = "CREATE TABLE later(x INTEGER) STRICT";
  step[n + 1] = "CREATE TABLE half(x INTEGER) STRICT; SELECT no_such_thing()";
  assert_int_equal(number(p->db, "PRAGMA user_version"), n);
  assert_int_equal(number(p->db, "PRAGMA application_id"), KV_DB_APPLICATION);
  assert_int_equal(kv_db_migrate(p->db, n, step, NULL), 0);
  assert_int_equal(kv_db_migrate(p->db, n + 1, step, NULL), 0);
  assert_int_equal(number(p->db, "PRAGMA user_version"), n + 1);
  assert_int_equal(kv_db_migrate(p->db, n + 2, step, NULL), KV_RESOURCE);
  assert_int_equal(number(p->db, "PRAGMA user_version"), n + 1);
  assert_int_equal(
      number(p->db, "SELECT count(*) FROM sqlite_schema WHERE name = 'half'"),
      0);
}

static void expect_refused(place *p, const char *change, const char *says) {
  kv_db *again = (kv_db *)p;
  kv_err e = {0};
  assert_int_equal(sqlite3_exec(p->db->sql, change, 0, 0, 0), 0);
  assert_int_equal(kv_db_open(p->path, &again, &e), KV_INPUT);
  assert_null(again);
  if (!strstr(e.text, says)) fail_msg("%s: no %s", e.text, says);
}

static void foreign_files_are_refused(void **state) {
  place *p = *state;
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
    if (put(db, &r, NULL) || write(pipe, "", 1) != 1) _exit(2);
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
  place *p = *state;
  int most = 0;
  for (int rows = 1; rows < 40; rows += 7) {
    int told = kill_after(p->path, rows);
    if (told > most) most = told;
    assert_true(number(p->db, "SELECT count(*) FROM run") >= most);
    assert_int_equal(number(p->db, "SELECT count(*) FROM run r WHERE"
                                   " (SELECT count(*) FROM step_cost s"
                                   "  WHERE s.run_id = r.run_id) != 321"),
                     0);
    assert_int_equal(number(p->db, "SELECT count(*) FROM"
                                   " pragma_foreign_key_check"),
                     0);
  }
}

static void full_disk_keeps_what_was_there(void **state) {
  place *p = *state;
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
    put(p->db, &r, &e);
    kv_result_free(&r);
  }
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
  assert_int_equal(e.rc, KV_RESOURCE);
  assert_non_null(strstr(e.text, "free space"));
  assert_true(done > 1);
  assert_int_equal(number(p->db, "SELECT count(*) FROM run"), done - 1);
  kv_db_close(p->db);
  assert_int_equal(kv_db_open(p->path, &p->db, NULL), 0);
  assert_int_equal(number(p->db, "SELECT count(*) FROM run"), done - 1);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(found_to_the_bit),
      cmocka_unit_test(every_value_counts),
      TEST(repeat_confirms),
      TEST(conflict_is_told_and_kept),
      TEST(refused_is_kept_under_what_was_asked),
      TEST(one_run_many_asks),
      cmocka_unit_test(key_knows_everything),
      TEST(new_code_is_a_new_row),
      TEST(rows_in_turn),
      TEST(budgets_and_paths),
      TEST(steps_go_forward_or_not_at_all),
      TEST(foreign_files_are_refused),
      TEST(killed_loses_nothing_reported),
      TEST(full_disk_keeps_what_was_there),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

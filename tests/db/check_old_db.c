/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of an earlier kvreplay. One is made with the steps that made it then,
 * and filled with rows as they were written then; opened today it has every
 * number it had, and a row computed again confirms the one that is there.
 */
#include "tests/support/dbplace.h"
#include "tests/support/rows.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEVEN = 7, METHOD = 4, BUDGET = 1 };

static void must(sqlite3 *db, const char *sql) {
  char *why = NULL;
  if (sqlite3_exec(db, sql, NULL, NULL, &why)) fail_msg("%s: %s", sql, why);
}

/* Rows of version 7 out of today's, which are attached as `now`: what stood in
 * columns of run, or nowhere. */
static const char back_to_seven[] =
    "INSERT INTO environment SELECT * FROM now.environment;"
    "INSERT INTO trace SELECT * FROM now.trace;"
    "INSERT INTO run SELECT run_id, key, subject, identity, prompt_len, method,"
    " revision, code, params, spec, arithmetic, budget, status, reason,"
    " journal, state, output, value, measures,"
    " (SELECT bytes FROM now.held h WHERE h.run_id = r.run_id AND"
    "  kind = 'payload'),"
    " (SELECT bytes FROM now.held h WHERE h.run_id = r.run_id AND"
    "  kind = 'metadata'),"
    " (SELECT bytes FROM now.held h WHERE h.run_id = r.run_id AND"
    "  kind = 'columns'),"
    " (SELECT bytes FROM now.held h WHERE h.run_id = r.run_id AND"
    "  kind = 'side'),"
    " (SELECT bytes FROM now.held h WHERE h.run_id = r.run_id AND"
    "  kind = 'slack'),"
    " codes_end, peak, codes_peak, mti, moved, verbs, kept_min, kept_max, mean,"
    " mean_bits, codes_mean, codes_mean_bits, read, read_bits, kr, kr_bits, cr,"
    " cr_bits, kept, kept_bits, attended, attended_bits, scores"
    " FROM now.run r;"
    "INSERT INTO ask SELECT * FROM now.ask;"
    "INSERT INTO part SELECT run_id, part, layer, head, bin, first_step,"
    " last_step, kept, kept_bits FROM now.part;"
    "INSERT INTO metric SELECT run_id, part, measure, count, mean, mean_bits,"
    " p50, p50_bits, p95, p95_bits, p99, p99_bits, max, max_bits"
    " FROM now.metric;"
    "INSERT INTO step_cost SELECT run_id, step, bytes, codes, read"
    " FROM now.step_cost;"
    "INSERT INTO journal_digest SELECT * FROM now.journal_digest;"
    "INSERT INTO confirmation SELECT * FROM now.confirmation;";

/* Beside p's database, whose rows it has. */
static void make_old(const kv_dbplace *p, const char *path) {
  char attach[128];
  kv_db old = {0};
  kv_err e = {0};
  assert_int_equal(sqlite3_open(path, &old.sql), 0);
  if (kv_db_migrate(&old, SEVEN, kv_db_steps, &e)) fail_msg("%s", e.text);
  snprintf(attach, sizeof attach, "ATTACH '%s' AS now", p->path);
  must(old.sql, attach);
  must(old.sql, back_to_seven);
  assert_int_equal(kv_dbplace_number(&old, "PRAGMA user_version"), SEVEN);
  assert_int_equal(sqlite3_close(old.sql), 0);
}

/* The names of a row, and no numbers. */
static kv_result names_of(const kv_result *r) {
  kv_result n = *r;
  n.part = NULL;
  n.layer = NULL;
  n.step = NULL;
  n.step_mean = NULL;
  n.n_parts = n.n_layers = n.n_steps = 0;
  memset(&n.totals, 0, sizeof n.totals);
  memset(n.stat, 0, sizeof n.stat);
  n.params = strdup(r->params);
  n.spec = strdup(r->spec);
  return n;
}

static void same_moments(const kv_result *a, const kv_result *b) {
  int steps = b->n_steps - 1;
  assert_non_null(a->step_mean);
  for (int m = 0; m < KV_MEASURES; m++) {
    if (b->stat[m].count == 0) continue;
    assert_true(a->stat[m].squares == b->stat[m].squares);
    assert_true(a->part[3].stat[m].squares == b->part[3].stat[m].squares);
    for (int i = 0; i < steps; i++) {
      float x = a->step_mean[m * steps + i], y = b->step_mean[m * steps + i];
      assert_true(x == y || (isnan(x) && isnan(y)));
    }
  }
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

static void every_number_is_there(void **state) {
  kv_dbplace *p = *state;
  char path[128], x[65], y[65];
  kv_db *db = NULL;
  kv_err e = {0};
  bool found = false;
  kv_result r = kv_rows_make(0, METHOD, BUDGET, "avx2", 1), was = names_of(&r);
  r.totals.end.side = 77;
  assert_int_equal(kv_dbplace_put(p->db, &r, NULL), 0);
  snprintf(path, sizeof path, "%s/old.db", p->folder);
  make_old(p, path);
  if (kv_db_open(path, &db, &e)) fail_msg("%s", e.text);
  assert_int_equal(kv_dbplace_number(db, "PRAGMA user_version"), kv_db_n_steps);
  if (kv_db_find(db, &was, &found, &e)) fail_msg("%s", e.text);
  assert_true(found);
  assert_true(isnan(was.totals.scanned)); /* not recorded then */
  assert_true(was.step[1].scanned == -1);
  assert_int_equal(was.totals.asset, -1);
  assert_int_equal(was.totals.fetched, -1);
  assert_null(was.step_mean);
  assert_true(isnan(was.drift) && isnan(was.part[3].drift));
  assert_true(isnan(was.stat[KV_TV].squares));
  kv_db_value(&r, x);
  kv_db_value(&was, y);
  assert_string_equal(x, y);
  assert_memory_equal(&r.totals.end, &was.totals.end, sizeof(kv_bytes));
  if (kv_dbplace_put(db, &r, &e)) fail_msg("%s", e.text);
  assert_int_equal(kv_dbplace_number(db, "SELECT count(*) FROM run"), 1);
  assert_int_equal(kv_dbplace_number(db, "SELECT count(*) FROM diff"), 0);
  /* Whoever computes the row again records it, and it is compared then on. */
  kv_result_free(&was);
  was = names_of(&r);
  if (kv_db_find(db, &was, &found, &e)) fail_msg("%s", e.text);
  assert_true(was.totals.scanned == r.totals.scanned);
  assert_int_equal(was.step[1].scanned, r.step[1].scanned);
  assert_int_equal(was.totals.asset, r.totals.asset);
  assert_int_equal(was.totals.fetched, r.totals.fetched);
  same_moments(&was, &r);
  assert_true(was.drift == r.drift && was.part[3].drift == r.part[3].drift);
  r.part[3].drift = nextafter(r.part[3].drift, 9);
  assert_int_equal(kv_dbplace_put(db, &r, &e), KV_DIFFERENT);
  if (!strstr(e.text, "the drift of part 4 is")) fail_msg("%s", e.text);
  r.part[3].drift = was.part[3].drift;
  r.step[1].scanned++;
  assert_int_equal(kv_dbplace_put(db, &r, &e), KV_DIFFERENT);
  if (!strstr(e.text, "bytes scanned at a step")) fail_msg("%s", e.text);
  r.step[1].scanned--;
  r.totals.asset++;
  assert_int_equal(kv_dbplace_put(db, &r, &e), KV_DIFFERENT);
  if (!strstr(e.text, "bytes of the file's tensors")) fail_msg("%s", e.text);
  r.totals.asset--;
  r.totals.fetched++;
  assert_int_equal(kv_dbplace_put(db, &r, &e), KV_DIFFERENT);
  if (!strstr(e.text, "bytes fetched")) fail_msg("%s", e.text);
  r.totals.fetched--;
  other_moments_are_told(db, &r);
  kv_db_close(db);
  kv_result_free(&was);
  kv_result_free(&r);
  assert_int_equal(remove(path), 0);
}

/* What became of tokens: none recorded it then; whoever is asked for it later
 * stores it, and it is compared then on. */
static void tokens_are_taken_later(void **state) {
  kv_dbplace *p = *state;
  char path[128];
  kv_db *db = NULL;
  kv_err e = {0};
  bool has = true;
  kv_result r = kv_rows_make(0, METHOD, BUDGET, "avx2", 1);
  assert_int_equal(kv_dbplace_put(p->db, &r, NULL), 0);
  snprintf(path, sizeof path, "%s/old.db", p->folder);
  make_old(p, path);
  if (kv_db_open(path, &db, &e)) fail_msg("%s", e.text);
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
  kv_db_close(db);
  kv_result_free(&r);
  assert_int_equal(remove(path), 0);
}

/* A row without the kinds that every database has is no row. */
static void kinds_that_lack_are_named(void **state) {
  kv_dbplace *p = *state;
  kv_err e = {0};
  bool found = false;
  kv_result r = kv_rows_make(0, METHOD, BUDGET, "avx2", 1), was = names_of(&r);
  assert_int_equal(kv_dbplace_put(p->db, &r, NULL), 0);
  must(p->db->sql, "DELETE FROM held WHERE kind = 'side'");
  assert_int_equal(kv_db_find(p->db, &was, &found, &e), KV_INPUT);
  if (!strstr(e.text, "table held lacks bytes")) fail_msg("%s", e.text);
  kv_result_free(&was);
  kv_result_free(&r);
}

/* A kind that a later kvreplay counts is left out; the row is what it was. */
static void a_later_kind_is_left_out(void **state) {
  kv_dbplace *p = *state;
  kv_err e = {0};
  kv_result r = kv_rows_make(0, METHOD, BUDGET, "avx2", 1);
  assert_int_equal(kv_dbplace_put(p->db, &r, NULL), 0);
  must(p->db->sql, "INSERT INTO held VALUES (1, 'later', 1, 5)");
  if (kv_dbplace_put(p->db, &r, &e)) fail_msg("%s", e.text);
  kv_result_free(&r);
}

int main(void) {
#define PLACED(f)                                                              \
  cmocka_unit_test_setup_teardown(f, kv_dbplace_open, kv_dbplace_close)
  const struct CMUnitTest tests[] = {
      PLACED(every_number_is_there), PLACED(tokens_are_taken_later),
      PLACED(kinds_that_lack_are_named), PLACED(a_later_kind_is_left_out)};
  return cmocka_run_group_tests_name("old_db", tests, NULL, NULL);
}

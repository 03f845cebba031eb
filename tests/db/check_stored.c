/* SPDX-License-Identifier: Apache-2.0
 *
 * What a database knows that others do not: numbers beside the digest of all
 * values are compared to the bit, tokens are taken when they are asked for,
 * kinds of bytes may be more.
 */
#include "tests/support/program/dbplace.h"
#include "tests/support/rows.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { METHOD = 4, BUDGET = 1 };

static void must(sqlite3 *db, const char *sql) {
  char *why = NULL;
  if (sqlite3_exec(db, sql, NULL, NULL, &why)) fail_msg("%s: %s", sql, why);
}

/* What was recorded is compared, to the last bit. */
static void other_moments_are_told(kv_db *db, kv_result *r) {
  kv_err e = {0};
  kv_result stored = kv_dbplace_names(r);
  bool found;
  float *x = &r->step_mean[KV_TV * (r->n_steps - 1) + 5], was = *x;
  *x = nextafterf(was, 9);
  assert_int_equal(kv_dbplace_put(db, r, &e), KV_DIFFERENT);
  if (!strstr(e.text, "mean of measure tv is ")) fail_msg("%s", e.text);
  *x = was;
  r->part[2].stat[KV_KL].squares *= 2;
  assert_int_equal(kv_dbplace_put(db, r, &e), KV_DIFFERENT);
  if (!strstr(e.text, "squares of part 3, measure kl is "))
    fail_msg("%s", e.text);
  r->part[2].stat[KV_KL].squares /= 2;
  assert_int_equal(kv_dbplace_put(db, r, &e), 0);
  must(db->sql, "UPDATE step_mean SET mean = x'00000000' WHERE measure = 'tv'");
  assert_int_equal(kv_db_find(db, &stored, &found, &e), KV_INPUT);
  kv_result_free(&stored);
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
            {&r.step[1].scanned, "scanned of step "}};
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
  if (!strstr(e.text, "drift of part 4 is ")) fail_msg("%s", e.text);
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
  if (!strstr(e.text, "gone of layer 1, lane 0 is 56 at byte 12 before and 57"))
    fail_msg("%s", e.text);
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
 * not take is not there until the row is computed again. */
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
  if (kv_db_find(p->db, &was, &found, &e)) fail_msg("%s", e.text);
  assert_true(found && was.totals.asset == -1 && isnan(was.totals.cr));
  assert_true(was.totals.kr == r.totals.kr);
  if (kv_dbplace_put(p->db, &r, &e)) fail_msg("%s", e.text);
  assert_int_equal(
      kv_dbplace_number(p->db, "SELECT value FROM scalar WHERE name = 'cr'"
                               " OR name = 'bytes.asset' ORDER BY name"),
      r.totals.asset);
  kv_result_free(&was);
  kv_result_free(&r);
}

/* --- layouts and pools ---------------------------------------------------- */

/* A row with a layout, and the only request of a pool. */
static kv_result shared_row(void) {
  kv_result r = kv_rows_make(0, METHOD, BUDGET, "avx2", 1);
  r.layout = calloc(1, sizeof *r.layout);
  assert_non_null(r.layout);
  r.n_layouts = 1;
  *r.layout = (kv_layout_result){.name = "slots",
                                 .pages_end = 5,
                                 .end = 80,
                                 .map_end = 20,
                                 .map_peak = 24};
  r.together = (kv_together_result){
      .there = 1, .ends = 9, .blocks = 9, .refused = -1, .first = 1};
  r.together.pool = (kv_pool_result){.layout = "slots",
                                     .bytes = 96,
                                     .page = 1,
                                     .pages = 96,
                                     .arrive = "every",
                                     .requests = 1,
                                     .steps = 9,
                                     .map_peak = 24,
                                     .running = 9,
                                     .running_peak = 1,
                                     .peak = 80};
  return r;
}

static kv_rc put_shared(kv_db *db, const kv_result *r, kv_err *e) {
  const kv_pool_step only = {.step = 8, .running = 1, .pages = 5};
  kv_rc rc = kv_dbplace_put(db, r, e);
  return rc ? rc : kv_db_put_pool(db, 1, &r, 1, &only, e);
}

static void numbers_of_pools_are_compared(void **state) {
  kv_dbplace *p = *state;
  kv_err e = {0};
  kv_result r = shared_row();
  if (put_shared(p->db, &r, &e)) fail_msg("%s", e.text);
  if (put_shared(p->db, &r, &e)) fail_msg("%s", e.text);
  assert_int_equal(kv_dbplace_number(p->db, "SELECT step FROM pool_step"), 8);
  r.together.pool.running++;
  assert_int_equal(put_shared(p->db, &r, &e), KV_DIFFERENT);
  if (!strstr(e.text, "running is 9 before and 10 now")) fail_msg("%s", e.text);
  r.layout->map_end++;
  assert_int_equal(put_shared(p->db, &r, &e), KV_DIFFERENT);
  if (!strstr(e.text, "map_end of layout slots is 20 before and 21 now"))
    fail_msg("%s", e.text);
  kv_result_free(&r);
}

int main(void) {
#define PLACED(f)                                                              \
  cmocka_unit_test_setup_teardown(f, kv_dbplace_open, kv_dbplace_close)
  const struct CMUnitTest tests[] = {
      PLACED(numbers_are_compared), PLACED(tokens_are_taken_later),
      PLACED(numbers_of_pools_are_compared), PLACED(kinds_that_lack_are_named),
      PLACED(others_kinds_are_left_out)};
  return cmocka_run_group_tests_name("stored", tests, NULL, NULL);
}

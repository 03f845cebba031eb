/* SPDX-License-Identifier: Apache-2.0
 *
 * The laws of the database: what is put is found again to the bit; a repeat
 * confirms and adds nothing; another result under the same key is a conflict
 * that is told, kept beside, and overwrites nothing; new code is a new row.
 * Numbers beside the digest of all values are compared to the bit, tokens are
 * taken when they are asked for, kinds of bytes may be more.
 */
#include "tests/db/evaluations.h"
#include "tests/support/program/dbplace.h"
#include "tests/support/rows.h"
#include "tests/support/told.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_found(kv_db *db, kv_result *r) {
  bool found;
  assert_int_equal(kv_db_find(db, r, &found, NULL), 0);
  return found;
}

static void put(kv_dbplace *p, const kv_result *r) {
  works(kv_dbplace_put(p->db, r, &told));
}

static void expect_same(const kv_result *a, const kv_result *b) {
  char x[65], y[65];
  kv_db_value(a, x);
  kv_db_value(b, y);
  assert_string_equal(x, y);
  assert_memory_equal(&a->journal, &b->journal, 32);
  assert_memory_equal(&a->state, &b->state, 32);
  assert_memory_equal(&a->output, &b->output, 32);
  assert_int_equal(a->totals.asset, b->totals.asset);
  assert_int_equal(a->totals.fetched, b->totals.fetched);
  assert_int_equal(a->has_scores, b->has_scores);
  assert_memory_equal(&a->scores, &b->scores, 32);
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

DB_TEST(found_to_the_bit) {
  kv_dbplace *p = *state;
  for (int m = 0; m < KV_ROWS_METHODS; m++) {
    kv_result r = kv_rows_make(1, m, 2, "avx2", 2), n = kv_dbplace_names(&r);
    /* Values that decimal text or a careless column would not survive. */
    r.totals.mean = 0.1 + 0.2;
    r.totals.kr = -0.0;
    r.totals.read = 5e-324;
    r.totals.cr = NAN;
    r.totals.mti = INT64_MAX;
    r.stat[KV_LSE_ERROR].p99 = -1.7976931348623157e308;
    assert_false(is_found(p->db, &n));
    put(p, &r);
    assert_true(is_found(p->db, &n));
    expect_same(&r, &n);
    kv_result_free(&r);
    kv_result_free(&n);
  }
}

DB_TEST(repeat_confirms) {
  kv_dbplace *p = *state;
  kv_result a = kv_rows_make(0, 4, 1, "avx2", 2);
  kv_result b = kv_rows_make(0, 4, 1, "portable", 1);
  for (int i = 0; i < 3; i++) {
    put(p, &a);
    put(p, &b);
  }
  kv_dbplace_gives(p, "SELECT count(*) FROM run", 1);
  kv_dbplace_gives(p, "SELECT count(*) FROM confirmation", 2);
  kv_dbplace_gives(p, "SELECT count(*) FROM diff", 0);
  kv_result_free(&a);
  kv_result_free(&b);
}

static void expect_conflict(kv_dbplace *p, const kv_result *r,
                            const char *says) {
  static const char diffs[] = "SELECT count(*) FROM diff";
  static const char by[] = "SELECT count(*) FROM confirmation";
  int64_t before = kv_dbplace_number(p->db, diffs);
  int64_t confirmed = kv_dbplace_number(p->db, by);
  assert_int_equal(kv_dbplace_put(p->db, r, &told), KV_DIFFERENT);
  assert_int_equal(told.rc, KV_DIFFERENT);
  must_say(says);
  kv_dbplace_gives(p, diffs, before + 1);
  kv_dbplace_gives(p, by, confirmed);
}

/* Each number, by its last bit: it is in the digest of all values, or compared
 * beside it. */
DB_TEST(every_value_is_compared) {
  kv_dbplace *p = *state;
  kv_result r = kv_rows_make(0, 4, 1, "avx2", 2);
  const struct {
    double *real;
    int64_t *whole;
    const char *says;
  } of[] = {{&r.totals.mean, NULL, "bytes.mean"},
            {&r.totals.attended, NULL, "attended"},
            {&r.totals.codes_mean, NULL, "bytes.codes_only.mean"},
            {&r.stat[KV_KL].p50, NULL, "p50 of part 0, measure kl is "},
            {&r.stat[KV_MASS].mean, NULL, "mean of part 0, measure mass is "},
            {&r.part[3].stat[1].p95, NULL, "p95 of part 4, measure "},
            {&r.part[20].kept, NULL, "kept of part 21 is "},
            {&r.part[3].drift, NULL, "drift of part 4 is "},
            {&r.part[2].stat[KV_KL].squares, NULL,
             "squares of part 3, measure kl is "},
            {NULL, &r.totals.end.slack, "slack"},
            {NULL, &r.totals.verbs, "verbs"},
            {NULL, &r.totals.asset, "bytes.asset"},
            {NULL, &r.totals.fetched, "bytes.fetched"},
            {NULL, &r.step[5].read, "read of step "},
            {NULL, &r.step[1].scanned, "scanned of step "},
            {NULL, &r.stat[0].count, "count of part 0, measure "}};
  r.part[20].kept = 3;
  put(p, &r);
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    double real = of[i].real ? *of[i].real : 0;
    if (of[i].real) *of[i].real = nextafter(real, 2 * real + 1);
    if (of[i].whole) ++*of[i].whole;
    expect_conflict(p, &r, of[i].says);
    if (of[i].real) *of[i].real = real;
    if (of[i].whole) --*of[i].whole;
  }
  float *x = &r.step_mean[KV_TV * (r.n_steps - 1) + 5];
  *x = nextafterf(*x, 9);
  expect_conflict(p, &r, "mean of measure tv is ");
  kv_result_free(&r);
}

DB_TEST(conflict_is_told_and_kept) {
  kv_dbplace *p = *state;
  kv_result first = kv_rows_make(0, 6, 1, "avx2", 2),
            n = kv_dbplace_names(&first);
  kv_result other = kv_rows_make(0, 6, 1, "portable", 1);
  put(p, &first);
  other.layer[2].state.byte[5] ^= 4;
  other.state.byte[5] ^= 4;
  expect_conflict(p, &other, "state of layer 2 is");
  kv_dbplace_gives(p, "SELECT layer FROM diff", 2);
  other.layer[2].state = first.layer[2].state;
  other.layer[2].state.byte[31] ^= 4;
  char hex[65];
  kv_digest_hex(&other.layer[2].state, hex);
  expect_conflict(p, &other, hex);
  memcpy(&other.layer[2], &first.layer[2], sizeof *other.layer);
  memcpy(&other.state, &first.state, sizeof other.state);
  other.layer[1].scores.byte[0] ^= 1;
  expect_conflict(p, &other, "scores of layer 1 is");
  other.has_scores = false;
  put(p, &other);
  other.status = KV_CELL_FAILED;
  expect_conflict(p, &other, "status is ok before and failed now");
  assert_true(is_found(p->db, &n));
  expect_same(&first, &n);
  kv_result_free(&first);
  kv_result_free(&other);
  kv_result_free(&n);
}

/* A row of a time when nobody looked at scores takes them from the first who
 * does, and holds everybody to them then. */
DB_TEST(scores_come_later) {
  kv_dbplace *p = *state;
  kv_result first = kv_rows_make(0, 6, 1, "avx2", 2);
  kv_result now = kv_rows_make(0, 6, 1, "portable", 1),
            n = kv_dbplace_names(&first);
  first.has_scores = false;
  put(p, &first);
  assert_true(is_found(p->db, &n) && !n.has_scores);
  kv_result_free(&n);
  put(p, &now);
  n = kv_dbplace_names(&first);
  assert_true(is_found(p->db, &n));
  assert_true(n.has_scores);
  assert_memory_equal(&n.scores, &now.scores, 32);
  assert_memory_equal(n.layer, now.layer,
                      (size_t)now.n_layers * sizeof *n.layer);
  now.layer[0].scores.byte[9] ^= 1;
  expect_conflict(p, &now, "scores of layer 0 is");
  kv_result_free(&first);
  kv_result_free(&now);
  kv_result_free(&n);
}

DB_TEST(refused_is_kept_under_what_was_asked) {
  kv_dbplace *p = *state;
  kv_result r = kv_rows_make(0, 6, 0, "avx2", 2), n = kv_dbplace_names(&r);
  r.status = KV_CELL_REFUSED;
  strcpy(r.reason, "window 32 is larger than budget 24");
  put(p, &r);
  put(p, &r);
  assert_true(is_found(p->db, &n));
  assert_int_equal(n.status, KV_CELL_REFUSED);
  assert_string_equal(n.reason, r.reason);
  assert_true(isnan(n.achieved));
  assert_int_equal(n.n_parts, 0);
  strcpy(n.target, "11%");
  assert_false(is_found(p->db, &n));
  strcpy(n.target, r.target);
  n.revision++;
  assert_false(is_found(p->db, &n));
  kv_result_free(&r);
  kv_result_free(&n);
}

DB_TEST(one_run_many_asks) {
  kv_dbplace *p = *state;
  kv_result r = kv_rows_make(0, 4, 1, "avx2", 2), n = kv_dbplace_names(&r);
  put(p, &r);
  n.basis = KV_BASIS_MEAN;
  strcpy(n.target, "12.5%");
  assert_true(is_found(p->db, &n) && isnan(n.achieved));
  n.achieved = .123;
  assert_int_equal(kv_db_ask(p->db, &n, NULL), 0);
  n.achieved = 0;
  kv_result_free(&n);
  n = kv_dbplace_names(&r);
  n.basis = KV_BASIS_MEAN;
  strcpy(n.target, "12.5%");
  assert_true(is_found(p->db, &n) && n.achieved == .123);
  kv_dbplace_gives(p, "SELECT count(*) FROM run", 1);
  kv_dbplace_gives(p, "SELECT count(*) FROM ask", 2);
  kv_result_free(&r);
  kv_result_free(&n);
}

/* What is in the key, and that everything in it matters. */
TEST(key_knows_everything) {
  kv_result r = kv_rows_make(0, 4, 1, "avx2", 2);
  char key[9][65];
  kv_db_key(&r, key[0]);
  r.observe = KV_OBSERVE_CONTEXT, kv_db_key(&r, key[8]), r.observe = 0;
  r.identity.byte[31] ^= 1, kv_db_key(&r, key[1]), r.identity.byte[31] ^= 1;
  r.prompt_len++, kv_db_key(&r, key[2]), r.prompt_len--;
  r.revision++, kv_db_key(&r, key[3]), r.revision--;
  r.arithmetic++, kv_db_key(&r, key[4]), r.arithmetic--;
  r.params[1]++, kv_db_key(&r, key[5]), r.params[1]--;
  r.method = "h2", kv_db_key(&r, key[6]);
  r.method = "h2o", r.code = strdup(key[1]), kv_db_key(&r, key[7]);
  for (int i = 0; i < 9; i++)
    for (int j = 0; j < i; j++) assert_string_not_equal(key[i], key[j]);
  kv_result_free(&r);
  r = kv_rows_make(0, 4, 1, "portable", 1);
  strcpy(r.target, "another");
  kv_db_key(&r, key[1]);
  assert_string_equal(key[0], key[1]);
  kv_result_free(&r);
}

DB_TEST(new_code_is_a_new_row) {
  kv_dbplace *p = *state;
  kv_result r = kv_rows_make(0, 4, 1, "avx2", 2);
  put(p, &r);
  r.revision = 2;
  r.output.byte[0] ^= 1;
  put(p, &r);
  kv_dbplace_gives(p, "SELECT count(*) FROM run", 2);
  kv_dbplace_gives(p, "SELECT count(DISTINCT subject) FROM run", 1);
  kv_result_free(&r);
}

DB_TEST(rows_in_turn) {
  kv_dbplace *p = *state;
  char key[65] = "", last[65] = "";
  kv_result r;
  bool more;
  int n = 0;
  for (int m = 0; m < KV_ROWS_METHODS; m++) {
    kv_result x = kv_rows_make(0, m, 1, "avx2", 2);
    put(p, &x);
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

DB_TEST(budgets_and_paths) {
  kv_dbplace *p = *state;
  kv_result r = kv_rows_make(0, 4, 1, "avx2", 2);
  const char *shard[] = {"a.safetensors", "b.safetensors"};
  kv_shape shape = {4, 8, 4, 32, 32, 800, 480, 0, KV_F16, 1, 0, 0, NULL};
  kv_db_trace t = {r.trace, r.identity, r.identity, &shape,
                   ".",     2,          shard,      "user"};
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
  kv_dbplace_gives(p, "SELECT n_heads FROM trace", 8);
  kv_dbplace_gives(p, "SELECT request = identity FROM trace", 1);
  kv_dbplace_gives(p, "SELECT answer_by = 'user' FROM trace", 1);
  kv_dbplace_gives(p, "SELECT count(*) FROM shard", 2);
  kv_result_free(&r);
}

/* --- beside the digest of all values ---------------------------------------
 */

enum { METHOD = 4, BUDGET = 1 };

static void must(sqlite3 *db, const char *sql) {
  char *why = NULL;
  if (sqlite3_exec(db, sql, NULL, NULL, &why)) fail_msg("%s: %s", sql, why);
}

/* What became of tokens is stored by the first who is asked for it, and
 * compared then on. */
DB_TEST(tokens_are_taken_later) {
  kv_dbplace *p = *state;
  kv_db *db = p->db;
  bool has = true;
  kv_result r = kv_rows_make(0, METHOD, BUDGET, "avx2", 1);
  assert_int_equal(kv_dbplace_put(db, &r, NULL), 0);
  works(kv_db_has_survivals(db, &r, &has, &told));
  assert_false(has);
  int32_t *gone = calloc(2 * (size_t)r.n_tokens, sizeof *gone);
  r.survival = calloc(1, sizeof *r.survival);
  assert_true(gone && r.survival);
  r.survival[0] =
      (kv_survival){.layer = 1, .gone = gone, .shown = gone + r.n_tokens};
  r.n_survivals = 1;
  gone[3] = 0x123456;
  put(p, &r);
  works(kv_db_has_survivals(db, &r, &has, &told));
  assert_true(has);
  kv_dbplace_gives(p,
                   "SELECT hex(substr(gone, 13, 4)) = '56341200'"
                   " FROM survival WHERE layer = 1",
                   1);
  put(p, &r);
  gone[3]++;
  fails(kv_dbplace_put(db, &r, &told), KV_DIFFERENT,
        "gone of layer 1, lane 0 is 56 at byte 12 before and 57");
  kv_result_free(&r);
}

/* A row without what every database has is no row. */
DB_TEST(what_lacks_is_named) {
  static const char *const lacks[][2] = {
      {"UPDATE step_mean SET mean = x'00000000' WHERE measure = 'tv'",
       "step_mean must have one number"},
      {"DELETE FROM held WHERE kind = 'side'", "table held lacks bytes"}};
  kv_dbplace *p = *state;
  kv_result r = kv_rows_make(0, METHOD, BUDGET, "avx2", 1);
  put(p, &r);
  for (int i = 0; i < 2; i++) {
    kv_result was = kv_dbplace_names(&r);
    bool found;
    must(p->db->sql, lacks[i][0]);
    fails(kv_db_find(p->db, &was, &found, &told), KV_INPUT, lacks[i][1]);
    must(p->db->sql, "UPDATE step_mean SET mean = zeroblob(4 * 320)");
    kv_result_free(&was);
  }
  kv_result_free(&r);
}

/* A kind, or a number, of a later kvreplay is left out, one that an earlier did
 * not take is not there until the row is computed again. */
DB_TEST(others_kinds_are_left_out) {
  kv_dbplace *p = *state;
  bool found = false;
  kv_result r = kv_rows_make(0, METHOD, BUDGET, "avx2", 1),
            was = kv_dbplace_names(&r);
  put(p, &r);
  must(p->db->sql, "INSERT INTO held VALUES (1, 'later', 1, 5);"
                   "INSERT INTO scalar VALUES (1, 'later', 5)");
  put(p, &r);
  must(p->db->sql, "DELETE FROM scalar WHERE name IN ('bytes.asset', 'cr');"
                   "UPDATE run SET measures = measures - 2");
  works(kv_db_find(p->db, &was, &found, &told));
  assert_true(found && was.totals.asset == -1 && isnan(was.totals.cr));
  assert_true(was.totals.kr == r.totals.kr);
  put(p, &r);
  kv_dbplace_gives(p,
                   "SELECT value FROM scalar WHERE name = 'cr'"
                   " OR name = 'bytes.asset' ORDER BY name",
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

DB_TEST(numbers_of_pools_are_compared) {
  kv_dbplace *p = *state;
  kv_result r = shared_row();
  works(put_shared(p->db, &r, &told));
  works(put_shared(p->db, &r, &told));
  kv_dbplace_gives(p, "SELECT step FROM pool_step", 8);
  r.together.pool.running++;
  fails(put_shared(p->db, &r, &told), KV_DIFFERENT,
        "running is 9 before and 10 now");
  r.layout->map_end++;
  fails(put_shared(p->db, &r, &told), KV_DIFFERENT,
        "map_end of layout slots is 20 before and 21 now");
  kv_result_free(&r);
}

int main(void) {
  int failed = tests_run("db", NULL, NULL);
  return failed + evaluations_run();
}

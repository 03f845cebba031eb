/* SPDX-License-Identifier: Apache-2.0
 *
 * The laws of evaluations: what is put is found again to the bit; a repeat
 * confirms it and adds numbers; another answer on the same platform is a
 * conflict that is told and kept, on another platform another row; everything
 * that was asked names the row; what is not whole is refused; nothing that was
 * reported is lost, whoever else writes and however a writer ends.
 */
#include "tests/db/evaluations.h"

#include "tests/support/program/answers.h"
#include "tests/support/program/dbplace.h"
#include "tests/support/told.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static kv_evaluations *opened(const kv_dbplace *p) {
  kv_evaluations *s;
  assert_int_equal(kv_evaluations_open(p->path, "check_db", &s, NULL), 0);
  return s;
}

static int is_found(kv_evaluations *s, kv_evaluation *r) {
  int found = -1;
  assert_int_equal(kv_evaluations_find(s, r, &found, NULL), 0);
  return found;
}

/* What was asked alone. */
static kv_evaluation asked(const kv_evaluation *r) {
  kv_evaluation a = *r;
  a.spec = a.budget = a.status = a.reason = a.answer_digest = NULL;
  a.n_values = -1;
  a.value = NULL;
  return a;
}

DB_TEST(found_to_the_bit) {
  kv_dbplace *p = *state;
  kv_evaluations *s = opened(p);
  kv_answers_row r;
  kv_answers_make(0, 3, 1, 1, &r);
  const double value[] = {0.1 + 0.2, -0.0, 5e-324, NAN, 7};
  const char *name[] = {"loglik", "kl", "ppl.all", "agree", "exact"};
  for (int i = 0; i < 5; i++) r.value[i] = (kv_evaluated){name[i], value[i]};
  r.row.n_values = 5;
  r.row.reason = "why \xc3\xa9";
  static const int32_t said[] = {7, 0, INT32_MAX};
  r.row.n_said = 3;
  r.row.said_tokens = said;
  r.row.said = "7\n\"0";
  r.row.asked = "Why?";
  r.row.context = "c";
  kv_evaluation a = asked(&r.row);
  a.model = "another name of the same weights";
  assert_int_equal(is_found(s, &a), 0);
  assert_int_equal(kv_evaluations_put(s, &r.row, NULL), 0);
  a.model = r.row.model;
  assert_int_equal(is_found(s, &a), 1);
  assert_string_equal(a.spec, r.row.spec);
  assert_string_equal(a.budget, "96");
  assert_string_equal(a.status, "ok");
  assert_string_equal(a.reason, r.row.reason);
  assert_string_equal(a.answer_digest, r.answer);
  assert_int_equal(a.n_said, 3);
  assert_memory_equal(a.said_tokens, said, sizeof said);
  assert_string_equal(a.said, r.row.said);
  assert_string_equal(a.asked, r.row.asked);
  assert_string_equal(a.context, "c");
  assert_null(a.reference);
  static const int order[] = {4, 1, 0, 2}; /* by name, without the NaN */
  assert_int_equal(a.n_values, 4);
  for (int i = 0; i < 4; i++) {
    assert_string_equal(a.value[i].name, name[order[i]]);
    assert_true(kv_db_bits(a.value[i].value) == kv_db_bits(value[order[i]]));
  }
  assert_int_equal(kv_evaluations_put(s, &a, NULL), 0); /* what was found */
  kv_evaluations_close(s);
}

/* Texts that a first row lacks are added; later ones change nothing. */
DB_TEST(texts_are_added) {
  kv_dbplace *p = *state;
  kv_answers_row r;
  kv_evaluations *s = opened(p);
  kv_answers_make(0, 0, 0, 1, &r);
  const char *text[] = {NULL, "first", "second"};
  static const int32_t said[] = {3, 4, 5};
  for (int i = 0; i < 3; i++) {
    r.row.said = r.row.asked = text[i];
    r.row.n_said = i;
    r.row.said_tokens = text[i] ? said : NULL;
    assert_int_equal(kv_evaluations_put(s, &r.row, NULL), 0);
    kv_evaluation a = asked(&r.row);
    assert_int_equal(is_found(s, &a), 1);
    assert_int_equal(a.n_said, i > 0);
    assert_true(i == 0 ? !a.said && !a.asked && !a.said_tokens
                       : !strcmp(a.said, "first") && !strcmp(a.asked, "first"));
  }
  kv_evaluations_close(s);
}

DB_TEST(repeat_confirms_and_adds) {
  kv_dbplace *p = *state;
  kv_answers_row r;
  kv_answers_make(0, 0, 0, 2, &r);
  for (int i = 0; i < 3; i++) {
    kv_evaluations *s = opened(p);
    int all = r.row.n_values;
    r.row.n_values -= i == 0;
    assert_int_equal(kv_evaluations_put(s, &r.row, NULL), 0);
    assert_int_equal(kv_evaluations_put(s, &r.row, NULL), 0);
    r.row.n_values = all;
    kv_evaluations_close(s);
  }
  kv_dbplace_gives(p, "SELECT count(*) FROM evaluation", 1);
  kv_dbplace_gives(p, "SELECT count(*) FROM evaluator", 3);
  kv_dbplace_gives(p, "SELECT count(*) FROM evaluated", r.row.n_values);
  kv_dbplace_gives(p,
                   "SELECT count(*) FROM quantity WHERE (name,"
                   " unit, combine) IN (VALUES ('bytes.mean',"
                   " 'bytes', 'of dense'),"
                   " ('open.lse_error.mean', 'nats', 'mean'))",
                   2);
}

/* --- conflicts -------------------------------------------------------------
 */

static void expect_conflict(kv_dbplace *p, const kv_evaluation *r,
                            const char *says) {
  const char *kept = "SELECT count(*) FROM evaluation_diff";
  const char *by = "SELECT count(*) FROM evaluator";
  int64_t before = kv_dbplace_number(p->db, kept);
  int64_t found = kv_dbplace_number(p->db, by);
  kv_evaluations *s = opened(p);
  fails(kv_evaluations_put(s, r, &told), KV_DIFFERENT, says);
  kv_dbplace_gives(p, kept, before + 1);
  kv_dbplace_gives(p, by, found);
  kv_evaluation a = asked(r);
  assert_int_equal(is_found(s, &a), 1);
  assert_string_equal(a.budget, "96");
  assert_string_equal(a.status, "ok");
  kv_evaluations_close(s);
}

DB_TEST(another_answer_is_a_conflict) {
  kv_dbplace *p = *state;
  kv_evaluations *s = opened(p);
  kv_answers_row r;
  kv_answers_make(0, 1, 0, 1, &r);
  assert_int_equal(kv_evaluations_put(s, &r.row, NULL), 0);
  kv_evaluations_close(s);
  kv_evaluation other = r.row;
  other.budget = "97";
  expect_conflict(p, &other,
                  "h2o at 25% on question 0 of needle_1 contradicts");
  other = r.row;
  other.status = "refused";
  expect_conflict(p, &other, "status is ok before and refused now");
  other = r.row;
  other.spec = "h2o:budget=97";
  expect_conflict(p, &other, "spec is h2o:budget=96");
  other = r.row;
  other.answer_digest = r.request;
  expect_conflict(p, &other, "answer is");
  for (int i = 0; i < r.row.n_values; i++) {
    double kept = r.value[i].value;
    r.value[i].value = nextafter(kept, 2 * kept + 1);
    expect_conflict(p, &r.row, r.value[i].name);
    r.value[i].value = kept;
  }
}

/* --- names -----------------------------------------------------------------
 */

/* Changes the i-th thing that was asked; false past the last. */
static bool change(kv_evaluation *r, const kv_answers_row *of, int i) {
  int32_t *const count[] = {&r->question, &r->prompt_len, &r->tokens,
                            &r->threads};
  const char **const text[] = {&r->task,   &r->item,      &r->method,
                               &r->target, &r->torch,     &r->dtype,
                               &r->code,   &r->processor, &r->transformers};
  if (i < 4) ++*count[i];
  if (i >= 4 && i < 13) *text[i - 4] = "random";
  if (i == 13) r->basis = "end";
  if (i == 14) r->model_digest = of->answer;
  if (i == 15) r->request_digest = of->answer;
  return i < 16;
}

DB_TEST(what_is_asked_names_the_row) {
  kv_dbplace *p = *state;
  kv_evaluations *s = opened(p);
  kv_answers_row r;
  kv_answers_make(1, 2, 0, 3, &r);
  assert_int_equal(kv_evaluations_put(s, &r.row, NULL), 0);
  int n = 0;
  for (kv_evaluation other = r.row; change(&other, &r, n); other = r.row) {
    kv_evaluation a = asked(&other);
    if (is_found(s, &a)) fail_msg("the row is found without change %d", n);
    other.status = "refused"; /* contradicts nobody */
    other.reason = "of itself";
    if (kv_evaluations_put(s, &other, &told)) fail_msg("%d: %s", n, told.text);
    n++;
  }
  kv_evaluations_close(s);
  kv_dbplace_gives(p, "SELECT count(*) FROM evaluation", n + 1);
  kv_dbplace_gives(p, "SELECT count(*) FROM platform", 1 + 5);
}

/* As of runs: the revision, or the digest of the file that a method reads. */
DB_TEST(code_is_found) {
  kv_dbplace *p = *state;
  kv_evaluations *s = opened(p);
  const char *source = getenv("top_srcdir");
  char spec[4200];
  kv_answers_row r;
  kv_answers_make(0, 0, 0, 1, &r);
  assert_int_equal(kv_evaluations_put(s, &r.row, NULL), 0);
  snprintf(spec, sizeof spec,
           "duoattention:table=%s/traces/tiny/assets/"
           "duoattention.kvtiny-6l.safetensors",
           source ? source : ".");
  r.row.method = spec;
  works(kv_evaluations_put(s, &r.row, &told));
  r.row.method = "SnapKVPress";
  r.row.code = "kvpress 0.5.5";
  assert_int_equal(kv_evaluations_put(s, &r.row, NULL), 0);
  kv_evaluations_close(s);
  kv_dbplace_gives(p,
                   "SELECT count(*) FROM evaluation WHERE"
                   " code = 'revision ' || revision AND"
                   " arithmetic > 0",
                   1);
  kv_dbplace_gives(p,
                   "SELECT count(*) FROM evaluation"
                   " WHERE length(code) = 64",
                   1);
  kv_dbplace_gives(p,
                   "SELECT arithmetic FROM evaluation"
                   " WHERE code LIKE 'kvpress%'",
                   0);
}

/* --- what is not whole -----------------------------------------------------
 */

static void expect_refused(kv_evaluations *s, const kv_evaluation *r,
                           const char *says) {
  fails(kv_evaluations_put(s, r, &told), KV_USAGE, says);
}

DB_TEST(what_is_not_whole_is_refused) {
  kv_dbplace *p = *state;
  kv_evaluations *s = opened(p);
  kv_answers_row r;
  kv_answers_make(0, 0, 0, 1, &r);
#define WITH(member, x, says)                                                  \
  do {                                                                         \
    kv_evaluation bad = r.row;                                                 \
    bad.member = x;                                                            \
    expect_refused(s, &bad, says);                                             \
  } while (0)
  WITH(abi, 0, "ABI 0 but this library has 2");
  WITH(task, "", "has no task");
  WITH(dtype, NULL, "has no dtype");
  WITH(item, "a\nb", "item must be a single line");
  WITH(question, -1, "counts must be 0 or more");
  WITH(prompt_len, 433, "the prompt at most the tokens");
  WITH(request_digest, "12", "64 hex digits each");
  WITH(model_digest, "12", "64 hex digits each");
  WITH(basis, "some", "basis is some");
  WITH(method, "h2", "h2o");
  char code[81] = {0}; /* another that begins alike would be the same */
  memset(code, '7', 80);
  WITH(code, code, "longer than 79 bytes");
  WITH(status, "fine", "must be ok, refused or failed, not 'fine'");
  WITH(answer_digest, "12", "or \"\" for none, not 12");
  WITH(value, NULL, "but a NULL array");
  r.value[0].name = "acuracy";
  expect_refused(s, &r.row, "no number called acuracy");
  r.value[0].name = "open.";
  expect_refused(s, &r.row, "no number called open.");
  r.value[0].name = r.value[1].name;
  expect_refused(s, &r.row, "twice");
  r.value[0] = (kv_evaluated){"loglik", -HUGE_VAL};
  expect_refused(s, &r.row, "loglik of the evaluation is infinite");
  kv_evaluations_close(s);
  kv_dbplace_gives(p, "SELECT count(*) FROM question", 0);
  assert_int_equal(kv_evaluations_put(NULL, &r.row, NULL), KV_USAGE);
  assert_int_equal(kv_evaluations_open(":memory:", "", &s, NULL), KV_USAGE);
  assert_null(s);
}

/* --- several writers, and one that is killed -------------------------------
 */

/* Puts rows of items from `first` on; one byte into the pipe after each that
 * was reported. */
static void write_rows(const char *path, int first, int rows, int pipe) {
  kv_evaluations *s;
  if (kv_evaluations_open(path, "writer", &s, NULL)) _exit(1);
  for (int i = 0; i < rows; i++) {
    kv_answers_row r;
    kv_answers_make(0, first + i / 8, i / 4 % 2, i % 4, &r);
    if (kv_evaluations_put(s, &r.row, NULL)) _exit(2);
    if (pipe >= 0 && write(pipe, "", 1) != 1) _exit(3);
  }
  kv_evaluations_close(s);
  _exit(0);
}

static int64_t halves(kv_db *db) {
  return kv_dbplace_number(
      db, "SELECT (SELECT count(*) FROM evaluation e WHERE (SELECT count(*)"
          " FROM evaluated v WHERE v.evaluation_id = e.evaluation_id) <"
          " iif(method = 'dense', 5, 7)) + (SELECT count(*) FROM"
          " pragma_foreign_key_check)");
}

DB_TEST(killed_loses_nothing_reported) {
  kv_dbplace *p = *state;
  int done = 0, end[2];
  char byte;
  assert_int_equal(pipe(end), 0);
  pid_t child = fork();
  if (!child) write_rows(p->path, 0, 4000, end[1]);
  close(end[1]);
  while (done < 9 && read(end[0], &byte, 1) == 1) done++;
  kill(child, SIGKILL);
  while (read(end[0], &byte, 1) == 1) done++;
  close(end[0]);
  waitpid(child, NULL, 0);
  int64_t rows = kv_dbplace_number(p->db, "SELECT count(*) FROM evaluation");
  assert_true(done >= 9 && rows >= done && rows < 4000);
  assert_int_equal(halves(p->db), 0);
}

DB_TEST(several_write_one_file) {
  kv_dbplace *p = *state;
  pid_t child[3];
  for (int i = 0; i < 3; i++) {
    child[i] = fork();
    if (!child[i]) write_rows(p->path, i, 24, -1); /* they overlap */
  }
  for (int i = 0; i < 3; i++) {
    int how;
    waitpid(child[i], &how, 0);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
  }
  kv_dbplace_gives(p, "SELECT count(*) FROM evaluation", 40);
  kv_dbplace_gives(p, "SELECT count(*) FROM evaluator", 72);
  assert_int_equal(halves(p->db), 0);
}

int evaluations_run(void) { return tests_run("evaluations", NULL, NULL); }

/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay run --backend`, `kvreplay check` and `kvreplay verify`, with
 * backends of this test's own standing in for those of the program. run: rows
 * name the backend, what one has stored another confirms or contradicts, and a
 * backend that cannot be had or is lost ends with its code and one line. check:
 * what it prints in every form, what it stores, and its exit code, where a
 * backend is equal, differs in bits or in bytes alone, fails, cannot be had, or
 * loses its device; JSON parses, JUnit's XML is well formed whatever a trace is
 * called. verify: the same of rows that are the same, differ, or cannot be run
 * again.
 */
#include "sim/cli/commands.h"
#include "sim/store/db.h"
#include "tests/support/backend/standin.h"
#include "tests/support/backend/ulp.h"
#include "tests/support/program/command.h"
#include "tests/support/program/dbplace.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- run ---------------------------------------------------------------- */

TEST(test_refusals) {
  refused(4, run("-m dense --backend gone"),
          "backend gone cannot be used here: no such thing");
  refused(2, run("-m dense --backend ref,same"), "called 'ref,same'");
  failure = KV_RESOURCE;
  refused(4, run("-m dense -B bad"), "it is <broken>");
}

/* A key knows no backend; a row is computed once by each that is asked. */
TEST(test_run) {
  char path[512];
  failure = KV_REFUSED;
  snprintf(path, sizeof path, "%s", scratch_path("run.db"));
#define RUN(name) run("-m h2o -b 9 -B %s --db %s -f jsonl", name, path)
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
  must(0, run("-m h2o -b 9 -B same"), "; backend same\n");
  must(1, run("-m h2o -b 9 -B odd --twice"), "odd");
  assert_non_null(strstr(said, "the output of layer 1 differs between odd"));
}

/* What selections were shown is stored, confirmed and contradicted; two passes
 * compare it. */
TEST(test_scores) {
  char path[512];
  snprintf(path, sizeof path, "%s", scratch_path("scores.db"));
#define QUEST "-m quest:page=4:skip=0,dense -b 20%% -B "
  must(0, run(QUEST "ref --db %s", path), "quest");
  assert_int_equal(number_in(path, "SELECT count(*) FROM journal_digest WHERE "
                                   "scores IS NULL"),
                   0);
  assert_int_equal(number_in(path, "SELECT count(*) FROM run WHERE scores = "
                                   "(SELECT scores FROM run WHERE method = "
                                   "'dense')"),
                   1);
  must(0, run(QUEST "same --db %s", path), "quest");
  must(1, run(QUEST "ulp --db %s", path), "quest");
  assert_non_null(strstr(said, "scores of layer 0 is "));
  must(1, run(QUEST "ulp --twice"), "quest");
  assert_non_null(strstr(said, "the score digest of layer 0 differs between"));
}

/* A search is the reference's for all: another backend begins no layer before
 * the replay at the budget that was found, which ref then confirms. */
TEST(test_search) {
  char path[512];
  snprintf(path, sizeof path, "%s", scratch_path("search.db"));
#define SEARCH(name) run("-m adakv -b end:60%% -B %s --db %s", name, path)
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
  must(0, run("-m dense --db %s", path), "dense");
  must(0, run("-m %s -b %s --db %s", method, budget, path), "");
  int b = (int)number_in(path, "SELECT max(budget) FROM run");
  snprintf(next, sizeof next, "%s:budget=%d", method, b + 1);
  must(0, run("-m %s --db %s", next, path), "");
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
  must(0, run("-m h2o -b 9 -f jsonl"), "\"achieved\": 9.0, \"kept\": 9.0");
  must(0, run("-m h2o:variant=masked -b 9 -f jsonl"),
       "\"achieved\": 9.0, \"kept\": ");
  must(0, run("-m oracle-topk -b 9 -f jsonl"), "\"achieved\": 9.0, \"kept\": ");
}

/* --- check -------------------------------------------------------------- */

#define BYTES "step 40, layer 1, lane 0: ledger, metadata: 0x0000000000000000 "
#define SENTENCE "step 40, layer 1, query head 0: element 0 of the output: 0x"

TEST(test_codes) {
  at_hand = 2;
  must(0, check("-m h2o,dense -b 20%%"), "2 equal, 0 different");
  must(0, check("-m h2o -b 9 -B ref,ref"), "equal");
  must(1, check("-m h2o -b 9 -B ref,same,odd"), SENTENCE);
  assert_non_null(strstr(heard, "1 equal, 1 different"));
  assert_non_null(strstr(heard, " in ref, 0x"));
  assert_non_null(strstr(heard, " in odd\n"));
  failure = KV_REFUSED;
  must(1, check("-m dense -B ref,bad"), "bad failed: it is");
  must(3, check("-m dense -B bad,ref"),
       "bad failed: it is <broken> & \"done\"; ref ran\n");
  must(3, check("-m dense -B bad,worse,ref"),
       "\"done\"; worse failed: it is <broken> & \"done\"\n");
  assert_non_null(strstr(heard, "\"done\"; ref ran\n"));
  must(1, check("-m dense -B ref,wasteful"), BYTES);
  must(2, check("-m snapkv:window=32 -b 9"), "window=32");
  must(3, check("-m snapkv:window=32,dense -b 9"),
       "1 equal, 0 different, 1 refused");
}

TEST(test_check_refusals) {
  at_hand = 2;
  refused(2, check(" "), "no method");
  refused(2, check("-m h2o"), "h2o needs a budget");
  refused(2, check("-m dense -B ref"), "names only one");
  refused(2, check("-m dense -B ref,"), "empty name");
  refused(2, check("-m dense -B ref,x\ny"), "called 'x\\x0ay'");
  refused(2, check("-m dense -B same,ref --db d"), "name ref first");
  refused(2, check("-m dense -B ref,ref,ref,ref,ref,ref,ref,ref,ref"),
          "at most 8");
  refused(2, check("-m dense -p 4000"), "has 64 tokens");
  refused(4, check("-m dense -B ref,gone"),
          "backend gone cannot be used here: no such thing");
  at_hand = 1;
  refused(4, check("-m dense"), "only backend ref");
}

/* A device that goes away: what came before is printed, then the sentence. */
TEST(test_lost) {
  failure = KV_RESOURCE;
  refused(4, check("-m dense -B ref,bad"), "it is <broken>");
  assert_int_equal(check("-m dense -B ref,same,bad"), 4);
  assert_non_null(strstr(heard, "1 equal, 0 different"));
  assert_non_null(strstr(said, "it is <broken>"));
}

static void look_at(const json_t *o, const char *backend, bool equal) {
  const json_t *d = json_object_get(o, "difference");
  assert_string_equal(json_string_value(json_object_get(o, "backend")),
                      backend);
  assert_string_equal(json_string_value(json_object_get(o, "trace")),
                      "a<b & \"c");
  assert_int_equal(json_integer_value(
                       json_object_get(json_object_get(o, "params"), "budget")),
                   9);
  assert_true(json_is_boolean(json_object_get(o, "equal")));
  assert_int_equal(json_is_true(json_object_get(o, "equal")), equal);
  assert_int_equal(json_is_null(d), equal);
  if (equal) return;
  assert_string_equal(json_string_value(json_object_get(d, "what")), "output");
  assert_int_equal(json_integer_value(json_object_get(d, "layer")), LAYER);
  assert_int_equal(json_integer_value(json_object_get(d, "step")), STEP);
  assert_int_equal(json_integer_value(json_object_get(d, "head")), 0);
  assert_int_equal(json_integer_value(json_object_get(d, "index")), 0);
  const char *a = json_string_value(json_object_get(d, "a"));
  const char *b = json_string_value(json_object_get(d, "b"));
  assert_int_equal(strtoul(a, NULL, 16) ^ strtoul(b, NULL, 16), 1);
  const char *s = json_string_value(json_object_get(d, "sentence"));
  assert_true(strstr(s, SENTENCE) == s && strstr(s, a) && strstr(s, b));
}

TEST(test_json) {
  assert_int_equal(check("-m h2o -b 9 -B ref,same,odd -f json"), 1);
  json_t *all = json_loads(heard, JSON_REJECT_DUPLICATES, NULL);
  assert_int_equal(json_array_size(all), 2);
  look_at(json_array_get(all, 0), "same", true);
  look_at(json_array_get(all, 1), "odd", false);
  json_decref(all);
  assert_int_equal(check("-m h2o -b 9 -B ref,odd -f jsonl"), 1);
  json_t *one = json_loads(heard, JSON_REJECT_DUPLICATES, NULL);
  look_at(one, "odd", false);
  json_decref(one);
  failure = KV_REFUSED;
  assert_int_equal(check("-m dense -B bad,ref -f jsonl"), 3);
  one = json_loads(heard, JSON_REJECT_DUPLICATES, NULL);
  const char *why = json_string_value(json_object_get(one, "reason"));
  assert_non_null(why);
  assert_non_null(strstr(why, "; ref ran"));
  assert_true(json_is_null(json_object_get(one, "equal")));
  json_decref(one);
}

/* A bound off by an ulp decides nothing else, and is found. */
TEST(test_check_scores) {
  assert_int_equal(check("-m quest:page=4:skip=0 -b 20%% -B ref,ulp -f jsonl"),
                   1);
  json_t *o = json_loads(heard, JSON_REJECT_DUPLICATES, NULL);
  const json_t *d = json_object_get(o, "difference");
  assert_string_equal(json_string_value(json_object_get(d, "what")), "score");
  assert_int_equal(json_integer_value(json_object_get(d, "index")), ULP_PAGE);
  assert_int_equal(json_integer_value(json_object_get(d, "step")), 33);
  const char *a = json_string_value(json_object_get(d, "a"));
  const char *b = json_string_value(json_object_get(d, "b"));
  assert_int_equal(strtoul(a, NULL, 16) + 1, strtoul(b, NULL, 16));
  json_decref(o);
  must(0, check("-m h2o,dense -b 20%% -B ref,ulp"), "2 equal");
}

/* --- XML ---------------------------------------------------------------- */

/* Past a reference such as &lt; or NULL. */
static const char *reference(const char *c) {
  static const char *const all[] = {"&amp;", "&lt;", "&gt;", "&quot;"};
  for (int i = 0; i < 4; i++)
    if (!strncmp(c, all[i], strlen(all[i]))) return c + strlen(all[i]);
  return NULL;
}

/* Past the attributes of a tag, to its '>' or '/'; NULL: not well formed. */
static const char *attributes(const char *c) {
  while (*c == ' ') {
    c += 1 + strspn(c + 1, "abcdefghijklmnopqrstuvwxyz");
    if (c[0] != '=' || c[1] != '"') return NULL;
    for (c += 2; c && *c != '"';) {
      if ((unsigned char)*c < 0x20 || *c == '<') return NULL;
      c = *c == '&' ? reference(c) : c + 1;
    }
    if (!c) return NULL;
    c++;
  }
  return c;
}

/* Elements that nest, without text: how many, or -1. */
static int well_formed(const char *c) {
  char open[8][16];
  int depth = 0, n = 0;
  for (c += strcspn(c, "\n"); *c; c++) {
    if (*c == ' ' || *c == '\n') continue;
    if (*c++ != '<') return -1;
    bool ends = *c == '/';
    c += ends;
    size_t length = strspn(c, "abcdefghijklmnopqrstuvwxyz");
    if (!length || length > 15 || depth == 8) return -1;
    if (ends) {
      if (!depth-- || strncmp(c, open[depth], length) || c[length] != '>')
        return -1;
      c += length;
      continue;
    }
    snprintf(open[depth++], sizeof open[0], "%.*s", (int)length, c);
    n++;
    c = attributes(c + length);
    if (c && *c == '/') c++, depth--;
    if (!c || *c != '>') return -1;
  }
  return depth ? -1 : n;
}

TEST(test_junit) {
  assert_int_equal(well_formed("<?xml?>\n<a b=\"&lt;\"><c/></a>"), 2);
  assert_int_equal(well_formed("<?xml?>\n<a><c></a></c>"), -1);
  assert_int_equal(well_formed("<?xml?>\n<a b=\"<\"/>"), -1);
  assert_int_equal(well_formed("<?xml?>\n<a b=\"&\"/>"), -1);
  failure = KV_REFUSED;
  assert_int_equal(
      check("-m h2o,snapkv:window=32 -b 9 -B ref,same,odd,bad -f junit"), 1);
  /* The suite, six cases, two differences, one cell three times skipped. */
  assert_int_equal(well_formed(heard), 1 + 6 + 2 + 3);
  assert_non_null(strstr(heard, "tests=\"6\" failures=\"2\" errors=\"0\" "
                                "skipped=\"3\""));
  assert_non_null(strstr(heard, "classname=\"a&lt;b &amp; &quot;c\""));
  assert_non_null(strstr(heard, "<failure message=\"" SENTENCE));
  assert_non_null(strstr(heard, "bad failed: it is &lt;broken&gt; &amp; "));
  assert_int_equal(check("-m dense -B bad,ref -f junit"), 3);
  assert_int_equal(well_formed(heard), 3);
  assert_non_null(strstr(heard, "<error message=\"bad failed: it is &lt;br"));
}

/* --- the database ------------------------------------------------------- */

static bool confirmed(kv_db *db, const kv_result *r, const char *by) {
  bool yes = false;
  assert_int_equal(kv_db_confirmed(db, r, by, &yes, NULL), KV_OK);
  return yes;
}

TEST(test_db) {
  char path[512], key[65] = "";
  kv_result r;
  kv_db *db = NULL;
  bool more;
  snprintf(path, sizeof path, "%s", scratch_path("r.db"));
  must(1, check("-m h2o -b 9 -B ref,same,odd --db %s", path), SENTENCE);
  assert_string_equal(said, "");
  must(0, check("-m h2o -b 9 -B ref,same --db %s", path), "1 equal");
  must(1, check("-m h2o -b 9 -B ref,wasteful --db %s", path),
       "ledger, metadata");
  assert_int_equal(
      number_in(path,
                "SELECT count(*) FROM diff WHERE what LIKE 'bytes.mean is %'"),
      1);
  assert_int_equal(kv_db_open(path, &db, NULL), KV_OK);
  assert_int_equal(kv_db_next(db, key, &r, &more, NULL), KV_OK);
  assert_true(more);
  assert_string_equal(r.backend, "ref");
  assert_true(r.stat[0].count > 0);
  assert_true(confirmed(db, &r, kv_kernels_best()->name));
  assert_true(confirmed(db, &r, "same"));
  assert_false(confirmed(db, &r, "odd"));
  assert_false(confirmed(db, &r, "wasteful"));
  kv_result_free(&r);
  assert_int_equal(kv_db_next(db, key, &r, &more, NULL), KV_OK);
  assert_false(more);
  kv_db_close(db);
}

/* --- verify ------------------------------------------------------------- */

static int verify(const char *path, const char *format) {
  const char *const words[] = {"verify", "-q", path, "-f", format, NULL};
  return command_call(kv_commands_call, words);
}

static void change(const char *path, const char *what) {
  char sql[512];
  snprintf(sql, sizeof sql, "UPDATE %s RETURNING 1", what);
  assert_int_equal(number_in(path, sql), 1);
  kv_dbplace_rekey(path);
}

/* The outcome of the only row of a method. */
static const json_t *outcome_of(const json_t *all, const char *method,
                                const char *outcome) {
  size_t i;
  json_t *o;
  json_array_foreach(all, i, o) {
    const char *got = json_string_value(json_object_get(o, "outcome"));
    if (strcmp(json_string_value(json_object_get(o, "method")), method))
      continue;
    assert_string_equal(got, outcome);
    assert_string_equal(json_string_value(json_object_get(o, "first")),
                        "database");
    return o;
  }
  fail_msg("no row of %s", method);
  return NULL;
}

/* A row whose scores differ, one without its plugin, one of other code, one
 * that is the same. */
TEST(test_verify) {
  char path[512];
  snprintf(path, sizeof path, "%s", scratch_path("v.db"));
  must(0, run("-m h2o,tova,dense,window -b 9 --db %s", path), "");
  must(0, verify(path, "table"), "4 rows match, 0 differ, 0 have no");
  change(path, "journal_digest SET scores = journal WHERE layer = 1 AND "
               "run_id = (SELECT run_id FROM run WHERE method = 'h2o')");
  change(path, "run SET code = key, method = 'mine' WHERE method = 'tova'");
  change(path, "run SET revision = 99, code = 'revision 99' "
               "WHERE method = 'window'");
  assert_int_equal(verify(path, "json"), 1);
  assert_non_null(strstr(said, "1 rows match, 1 differ, 0 have no trace, 1 "
                               "have no plugin, 0 have no file, 1 are of "
                               "other code\n"));
  assert_non_null(strstr(said, "1 cell is not verified: there is no plugin "
                               "mine; set KVREPLAY_PLUGINS"));
  json_t *all = json_loads(heard, JSON_REJECT_DUPLICATES, NULL);
  assert_int_equal(json_array_size(all), 4);
  const json_t *d =
      json_object_get(outcome_of(all, "h2o", "different"), "difference");
  assert_string_equal(json_string_value(json_object_get(d, "what")), "scores");
  assert_int_equal(json_integer_value(json_object_get(d, "layer")), 1);
  const json_t *mine = outcome_of(all, "mine", "not found");
  assert_non_null(strstr(json_string_value(json_object_get(mine, "reason")),
                         "KVREPLAY_PLUGINS"));
  outcome_of(all, "window", "superseded");
  outcome_of(all, "dense", "equal");
  json_decref(all);
  assert_int_equal(verify(path, "junit"), 1);
  assert_int_equal(well_formed(heard), 1 + 4 + 3);
  assert_non_null(strstr(heard, "name=\"kvreplay verify\" tests=\"4\" "
                                "failures=\"1\" errors=\"1\" "
                                "skipped=\"1\""));
}

/* Nothing to verify is not success. */
TEST(test_verify_nothing) {
  char path[512];
  snprintf(path, sizeof path, "%s", scratch_path("n.db"));
  must(2, run("-m snapkv:window=32 -b 9 --db %s", path), "");
  must(3, verify(path, "table"), "0 rows match, 0 differ");
  assert_non_null(strstr(said, "has run\n"));
  must(0, run("-m h2o -b 9 --db %s", path), "");
  change(path, "run SET revision = 99, code = 'revision 99' "
               "WHERE method = 'h2o'");
  must(3, verify(path, "table"), "1 are of other code\n");
  assert_non_null(strstr(said, "nothing was verified, because every row"));
  change(path, "run SET code = key, method = 'mine' WHERE method = 'h2o'");
  must(3, verify(path, "table"), "1 have no plugin");
}

int main(void) { return tests_run("run", open_trace, scratch_remove); }

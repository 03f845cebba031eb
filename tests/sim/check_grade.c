/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay grade` against kernels that are not ours
 * (tests/support/kernels/theirs.h), on a bundled trace: right ones are equal,
 * those with scores in bf16 equal but for ties, and each of sixteen faults at
 * one step of one head or lane is the one thing wrong, there. What a kernel's
 * pages are called, and in which order it stores them, changes nothing. Right
 * outputs in bf16 and fp16 are right, and faulty ones are seen through the
 * rounding; the least --tie is the least one, or there is none; --all lists as
 * many as are counted, in every format.
 */
#include "tests/support/kernels/graded.h"
#include "tests/support/little.h"
#include "tests/support/scratch.h"
#include "tests/support/told.h"
#include "traces/decisions/decisions_write.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 4000 };

static int64_t all_views(void) {
  const kv_shape *s = &trace->shape;
  return (int64_t)trace->n_layers * s->n_heads * (s->n_tokens - s->prompt_len);
}

TEST(test_right) {
  theirs t = kernel();
  char n[64];
  theirs_quest(&t, decisions, outputs);
  must(0, grade(AT_64 " -t 1e-6 --outputs %s -f json", outputs),
       "\"passed\": true");
  assert_int_equal(counted("equal"), all_views());
  must(0, grade(AT_64 " -t 1e-6"),
       "5,376 decisions: 5,376 equal, 0 ties, 0 wrong");
  snprintf(n, sizeof n, "<testcase classname=\"%s\"", trace->name);
  must(0, grade(AT_64 " -f junit"), n);
  t.group = true;
  theirs_quest(&t, decisions, NULL);
  must(0, grade("-m " GROUPED " -b 64 -t 1e-6"), ", 0 wrong");
  theirs_h2o(&t, decisions);
  must(0, grade("-m h2o -b 64 -t 1e-6"), ", 0 wrong");
  theirs_snapkv(&t, decisions);
  must(0, grade("-m snapkv -b 64 -t 1e-6"), ", 0 wrong");
}

/* Half a unit of bf16 on either side: 2^-7 of the cut at most. */
static void rounded(const char *spec) {
  must(0, grade("-m %s -b 64 -t 8e-3 -f json", spec), "{");
  assert_int_equal(counted("wrong"), 0);
  assert_true(counted("equal") > 0);
  int64_t ties = counted("ties");
  must(ties ? 1 : 0, grade("-m %s -b 64 -t 0 -f json", spec), "{");
  assert_true(ties == 0 || counted("wrong") > 0);
  printf("%s: %d ties\n", spec, (int)ties);
}

TEST(test_bf16) {
  theirs t = kernel();
  t.bf16 = true;
  t.output = KV_BF16;
  theirs_quest(&t, decisions, outputs);
  rounded(QUEST);
  assert_true(counted("wrong") > 100); /* with --tie 0: the test has teeth */
  must(0, grade(AT_64 " -t 8e-3 -o %s", outputs),
       "5,376 output rows (BF16): 0 wrong");
  theirs_h2o(&t, decisions);
  rounded("h2o");
  assert_true(counted("wrong") > 0);
  theirs_snapkv(&t, decisions);
  rounded("snapkv");
}

/* One tie poisons what comes after it unless theirs is followed. */
TEST(test_follow) {
  theirs t = kernel();
  t.bf16 = true;
  theirs_h2o(&t, decisions);
  grade("-m h2o -b 64 -t 8e-3 -f json");
  int64_t ties = counted("ties");
  assert_true(ties > 0);
  grade("-m h2o -b 64 -t 8e-3 -f json --follow ours");
  assert_true(counted("wrong") > ties);
}

TEST(test_permuted) {
  theirs t = kernel();
  t.permuted = true;
  theirs_quest(&t, decisions, NULL);
  must(0, grade(AT_64 " -t 1e-6"), "5,376 equal, 0 ties, 0 wrong");
  theirs_h2o(&t, decisions);
  must(0, grade("-m h2o -b 64 -t 1e-6"), ", 0 wrong");
}

/* Where a method stores in an order of its own, that is a part of it. */
TEST(test_order) {
  char ordered[700];
  theirs t = kernel();
  t.permuted = true;
  snprintf(ordered, sizeof ordered, "replay:file=%s", outputs);
  theirs_h2o(&t, outputs);
  theirs_h2o(&t, decisions);
  must(0, grade("-m %s", ordered), ", 0 ties, 0 wrong");
  t.permuted = false;
  theirs_h2o(&t, decisions);
  must(1, grade("-m %s", ordered), "the same entries in another order");
}

/* --- faults ------------------------------------------------------------- */

typedef struct seeded {
  theirs_fault fault;
  const char *spec, *why;
  bool output;
} seeded;

static const seeded faults[] = {
    {SHIFTED, QUEST, "score", false},    {UNFORCED, QUEST, "no choice", false},
    {STALE, QUEST, "score", false},      {MAPPED, QUEST, "score", false},
    {SWAPPED, QUEST, "score", false},    {GROUP_MAX, GROUPED, "score", false},
    {MORE, QUEST, "count", false},       {DUPLICATE, QUEST, "duplicate", false},
    {OUTSIDE, QUEST, "range", false},    {NEGATIVE, QUEST, "range", false},
    {FUTURE, QUEST, "causality", false}, {HIDDEN, QUEST, "", true},
    {SCALED, QUEST, "", true},           {WINDOW, "h2o", "no choice", false},
    {BACK, "h2o", "not live", false},    {MORE, "h2o", "count", false}};

static void one_wrong(const seeded *f, const theirs *t) {
  json_t *o = parsed(), *all = json_object_get(o, "outputs");
  bool stored = strcmp(f->spec, "h2o") == 0;
  if (integer(o, "wrong") != !f->output)
    fail_msg("%s, fault %d: %s", f->spec, f->fault, heard);
  json_t *layer =
      json_array_get(json_object_get(o, "layers"), (size_t)t->layer);
  json_t *w = json_object_get(f->output ? all : layer, "first_wrong");
  if (f->output) assert_int_equal(integer(all, "wrong"), 1);
  if (!f->output &&
      strcmp(json_string_value(json_object_get(w, "why")), f->why))
    fail_msg("%s, fault %d: not '%s': %s", f->spec, f->fault, f->why, heard);
  assert_int_equal(integer(w, "layer"), t->layer);
  assert_int_equal(integer(w, "step"), t->step);
  assert_int_equal(integer(w, stored ? "lane" : "head"), t->head);
  json_decref(o);
}

/* Places until the fault makes a difference; the first is a step whose next
 * token begins a page. */
static void seed(const seeded *f) {
  theirs t = kernel();
  bool stored = strcmp(f->spec, "h2o") == 0, odd = false;
  t.group = strcmp(f->spec, GROUPED) == 0;
  t.fault = f->fault;
  t.layer = 1;
  t.head = stored ? 2 : 3;
  for (t.step = 208; !odd && t.step < 240; t.step += !odd)
    odd = stored ? theirs_h2o(&t, decisions)
                 : theirs_quest(&t, decisions, f->output ? outputs : NULL);
  if (!odd) fail_msg("%s, fault %d: no difference anywhere", f->spec, f->fault);
  int code = f->output
                 ? grade("-m %s -b 64 -t 1e-6 -f json -o %s", f->spec, outputs)
                 : grade("-m %s -b 64 -t 1e-6 -f json", f->spec);
  must(1, code, "\"passed\": false");
  one_wrong(f, &t);
}

TEST(test_faults) {
  for (size_t i = 0; i < sizeof faults / sizeof *faults;
       i += (size_t)slow_step(4))
    seed(&faults[i]);
}

/* --- files -------------------------------------------------------------- */

/* Every lane after the prompt: item 0, n times. */
static void put_lists(int block, int page, int n) {
  static const int32_t item[4 * MANY];
  const kv_shape *s = &trace->shape;
  const int64_t start[5] = {0, n, 2 * n, 3 * n, 4 * n};
  const kv_lists all = {4, page, 1, &s->prompt_len, start, item};
  kv_decided layer[4] = {{.layer = -1}};
  const kv_decisions d = {true, false, false, block, 4, 4, layer};
  kv_digest identity;
  assert_true(s->n_kv_heads == 4 && trace->n_layers == 4 && n <= MANY);
  for (int i = 0; i < 4; i++)
    layer[i] = (kv_decided){trace->layer[i].data.layer, all, {0}};
  if (kv_trace_identity(trace, &identity, &told) ||
      kv_decisions_write(decisions, "their kernel", &identity, s, &d, &told))
    fail_msg("%s", told.text);
}

/* The last LSE of all is none: JSON says what it is. */
TEST(test_no_number) {
  theirs t = kernel();
  theirs_quest(&t, decisions, outputs);
  FILE *f = fopen(outputs, "r+b");
  assert_true(f && fseek(f, -4, SEEK_END) == 0);
  assert_true(fputs("\xff\xff\xff\xff", f) >= 0 && fclose(f) == 0);
  must(1, grade(AT_64 " -f json -o %s", outputs), "\"theirs\": \"NaN\"");
  must(1, 1, "\"lse_max_abs\": \"Infinity\"");
}

/* --- the rest ----------------------------------------------------------- */

static int64_t sql(const char *text) { return number_in(db, text); }

TEST(test_kept) {
  theirs t = kernel();
  t.fault = SHIFTED;
  t.layer = 2;
  t.step = 222;
  t.head = 5;
  theirs_quest(&t, decisions, NULL);
  for (int i = 0; i < 2; i++)
    must(1, grade(AT_64 " -t 1e-6 -d %s", db),
         "first wrong: layer 2, step 222, query head 5: no tie; they took "
         "tokens ");
  assert_non_null(strstr(heard, "; the cut is "));
  assert_int_equal(sql("SELECT count(*) FROM run"), 1);
  assert_int_equal(sql("SELECT count(DISTINCT what) FROM diff"), 1);
  assert_int_equal(sql("SELECT layer FROM diff WHERE backend = 'theirs' AND "
                       "isa = 'their kernel' AND what LIKE 'layer 2, step "
                       "222, query head 5%'"),
                   2);
  must(1, grade(AT_64 " -t 1e-6 -f junit"), "tests=\"4\" failures=\"1\"");
  t.fault = RIGHT; /* repaired, it replaces what was found before */
  theirs_quest(&t, decisions, NULL);
  must(0, grade(AT_64 " -d %s", db), ", 0 wrong");
  assert_int_equal(sql("SELECT count(*) FROM diff"), 0);
}

TEST(test_refusals) {
  theirs t = kernel();
  theirs_h2o(&t, decisions);
  refused(2, grade("-m h2o"), "h2o needs a budget");
  refused(2, grade("-m h2o -b 9,10"), "one method at one");
  refused(2, grade("-m h2o -b 9 -t x"), "--tie must be");
  refused(2, grade("-m h2o -b 9 --rtol -1"), "not '-1'");
  refused(2, grade("-m kivi"), "cannot be graded");
  refused(2, grade("-m zsmerge -b 64"), "merges entries");
  refused(2, grade("-m h2o:group=query_head -b 64"),
          "write one list per query head, or change");
  t.budget = 27;
  theirs_h2o(&t, decisions);
  must(1, grade("-m h2o -b 39"), ": 27 entries, not 39; they");
  refused(2, grade("-m h2o -b 64 -p 100"), "use --prompt-len 137");
  refused(3, grade("-m h2o -b 64 -o %s", decisions), "layers.0.o is missing");
  must(0, grade("--help"), "--theirs");
  put_lists(16, 1, 1);
  refused(2, grade("-m h2o -b 64"), "leave the metadata block");
  put_lists(0, 1 << 20, MANY); /* read no further than it says something */
  must(1, grade("-m h2o -b 64"), "page 0 appears twice");
  refused(3, grade("-m h2o -b 64 --theirs %s", file), "metadata format");
}

/* --- outputs of kernels that round -------------------------------------- */

/* A right kernel of that type, all decisions equal: no element is wrong, also
 * those that are near zero in a row that is not; the LSE to base 2 is what
 * --lse-base says. And the faults of an output are seen through the rounding.
 */
static void rounds(kv_dtype type, const char *name) {
  theirs t = kernel();
  char n[64];
  snprintf(n, sizeof n, "5,376 output rows (%s): 0 wrong", name);
  t.output = type;
  theirs_quest(&t, decisions, outputs);
  must(0, grade(AT_64 " -t 1e-6 -o %s", outputs), n);
  assert_null(strstr(heard, "base"));
}

TEST(test_base2) {
  theirs t = kernel();
  t.output = KV_BF16;
  t.base2 = true;
  theirs_quest(&t, decisions, outputs);
  must(1, grade(AT_64 " -t 1e-6 -o %s", outputs),
       "every LSE matches as a logarithm to base 2: --lse-base 2\n");
  must(0, grade(AT_64 " -t 1e-6 -o %s --lse-base 2 -f json", outputs),
       "\"lse_base\": \"2\"");
}

static void sees(kv_dtype type, theirs_fault fault) {
  theirs t = kernel();
  t.output = type;
  t.fault = fault;
  t.layer = 1;
  t.step = 208;
  t.head = 3;
  theirs_quest(&t, decisions, outputs);
  must(1, grade(AT_64 " -t 1e-6 -o %s", outputs), "): 1 wrong\n");
  assert_non_null(
      strstr(heard, "first wrong output: layer 1, step 208, query head 3"));
}

TEST(test_rounding) {
  rounds(KV_BF16, "BF16");
  rounds(KV_F16, "F16");
  sees(KV_BF16, HIDDEN);
  sees(KV_BF16, SCALED);
  sees(KV_F16, HIDDEN);
  sees(KV_F16, SCALED);
}

/* --- ties --------------------------------------------------------------- */

/* What is said to be the least --tie is: with it nothing is wrong, with a
 * little less something is. */
TEST(test_least_tie) {
  theirs t = kernel();
  char least[64], less[128];
  t.bf16 = true;
  theirs_quest(&t, decisions, NULL);
  must(1, grade(AT_64 " -t 0"), "all ties at --tie");
  const char *at = strstr(heard, "all ties at --tie ") + 18;
  snprintf(least, sizeof least, "%.*s", (int)strcspn(at, "\n"), at);
  snprintf(less, sizeof less, "%.17g", strtod(least, NULL) * 0.9);
  must(0, grade(AT_64 " -t %s", least), ", 0 wrong");
  must(1, grade(AT_64 " -t %s", less), "all ties at");
  must(1, grade(AT_64 " -t 0 -f junit"), "");
  snprintf(less, sizeof less, "name=\"least_tie\" value=\"%s\"", least);
  assert_non_null(strstr(heard, less));
  grade(AT_64 " -t 0 -f json");
  json_t *o = parsed();
  double exact = json_real_value(json_object_get(o, "least_tie"));
  assert_true(exact > 0 && exact <= strtod(least, NULL));
  assert_int_equal(integer(o, "never_ties"), 0);
  json_decref(o);
}

/* Where something else than a score is wrong, no --tie would do. */
TEST(test_no_tie) {
  theirs t = kernel();
  t.fault = MORE;
  t.layer = 1;
  t.step = 208;
  t.head = 3;
  theirs_quest(&t, decisions, NULL);
  must(1, grade(AT_64),
       "ties at no --tie: no score near a cut explains them\n");
  must(1, grade(AT_64 " -f junit"), "name=\"least_tie\" value=\"none\"");
  t.bf16 = true;
  theirs_quest(&t, decisions, NULL);
  must(1, grade(AT_64),
       "1 ties at no --tie: no score near a cut explains them; the others at "
       "--tie ");
  grade(AT_64 " -f json");
  json_t *o = parsed();
  assert_true(json_is_null(json_object_get(o, "least_tie")));
  assert_int_equal(integer(o, "never_ties"), 1);
  json_decref(o);
}

/* --- all of it ---------------------------------------------------------- */

static int64_t lines_with(const char *what) {
  int64_t n = 0;
  for (const char *at = heard; (at = strstr(at, what)); at++) n++;
  return n;
}

/* As many as are counted, each with its own place, in every format. */
TEST(test_all) {
  theirs t = kernel();
  t.bf16 = true;
  t.base2 = true;
  theirs_quest(&t, decisions, outputs);
  grade(AT_64 " -t 0 -o %s -f json -a", outputs);
  json_t *o = parsed(), *layer, *list;
  int64_t wrong = integer(o, "wrong"), found = 0, rows = 0;
  int64_t outs = integer(json_object_get(o, "outputs"), "wrong");
  size_t i, k;
  json_array_foreach(json_object_get(o, "layers"), i, layer) {
    int64_t last = 0;
    list = json_object_get(layer, "wrong_decisions");
    for (k = 0; k < json_array_size(list); k++, found++) {
      const json_t *w = json_array_get(list, k);
      int64_t place = integer(w, "step") + 1000 * integer(w, "lane");
      place = 100 * place + integer(w, "head") + (int64_t)1e9;
      assert_int_equal(integer(w, "layer"), integer(layer, "layer"));
      assert_int_not_equal(place, last);
      assert_true(json_array_size(json_object_get(w, "took")) > 0);
      last = place;
    }
    rows += (int64_t)json_array_size(json_object_get(layer, "wrong_rows"));
  }
  json_decref(o);
  assert_true(wrong > 100 && found == wrong && outs > 100 && rows == outs);
  grade(AT_64 " -t 0 -o %s -a", outputs);
  assert_int_equal(lines_with("\nwrong: layer "), wrong);
  assert_int_equal(lines_with("\nwrong output: layer "), outs);
  grade(AT_64 " -t 0 -o %s -a -f junit", outputs);
  assert_int_equal(lines_with("\nlayer "), wrong + outs);
}

int main(void) {
  int failed = graded_open();
  if (!failed) failed = tests_run("grade", NULL, NULL);
  graded_close();
  return failed;
}

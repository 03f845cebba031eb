/* SPDX-License-Identifier: Apache-2.0
 *
 * What `kvreplay grade` says of kernels that round
 * (tests/support/kernels/theirs.h): right outputs in bf16 and fp16 are right,
 * and faulty ones are seen through the rounding; the least --tie is the least
 * one, or there is none; --all lists as many as are counted, in every format.
 */
#include "tests/support/kernels/graded.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
  must(0, grade("-m", QUEST, "-b", "64", "-t", "1e-6", "-o", outputs, NULL), n);
  assert_null(strstr(heard, "base"));
}

TEST(test_base2) {
  theirs t = kernel();
  t.output = KV_BF16;
  t.base2 = true;
  theirs_quest(&t, decisions, outputs);
  must(1, grade("-m", QUEST, "-b", "64", "-t", "1e-6", "-o", outputs, NULL),
       "every LSE matches as a logarithm to base 2: --lse-base 2\n");
  must(0,
       grade("-m", QUEST, "-b", "64", "-t", "1e-6", "-o", outputs, "--lse-base",
             "2", "-f", "json", NULL),
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
  must(1, grade("-m", QUEST, "-b", "64", "-t", "1e-6", "-o", outputs, NULL),
       "): 1 wrong\n");
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
  must(1, grade("-m", QUEST, "-b", "64", "-t", "0", NULL), "all ties at --tie");
  const char *at = strstr(heard, "all ties at --tie ") + 18;
  snprintf(least, sizeof least, "%.*s", (int)strcspn(at, "\n"), at);
  snprintf(less, sizeof less, "%.17g", strtod(least, NULL) * 0.9);
  must(0, grade("-m", QUEST, "-b", "64", "-t", least, NULL), ", 0 wrong");
  must(1, grade("-m", QUEST, "-b", "64", "-t", less, NULL), "all ties at");
  must(1, grade("-m", QUEST, "-b", "64", "-t", "0", "-f", "junit", NULL), "");
  snprintf(less, sizeof less, "name=\"least_tie\" value=\"%s\"", least);
  assert_non_null(strstr(heard, less));
  grade("-m", QUEST, "-b", "64", "-t", "0", "-f", "json", NULL);
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
  must(1, grade("-m", QUEST, "-b", "64", NULL),
       "ties at no --tie: no score near a cut explains them\n");
  must(1, grade("-m", QUEST, "-b", "64", "-f", "junit", NULL),
       "name=\"least_tie\" value=\"none\"");
  t.bf16 = true;
  theirs_quest(&t, decisions, NULL);
  must(1, grade("-m", QUEST, "-b", "64", NULL),
       "1 ties at no --tie: no score near a cut explains them; the others at "
       "--tie ");
  grade("-m", QUEST, "-b", "64", "-f", "json", NULL);
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
  grade("-m", QUEST, "-b", "64", "-t", "0", "-o", outputs, "-f", "json", "-a",
        NULL);
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
  grade("-m", QUEST, "-b", "64", "-t", "0", "-o", outputs, "-a", NULL);
  assert_int_equal(lines_with("\nwrong: layer "), wrong);
  assert_int_equal(lines_with("\nwrong output: layer "), outs);
  grade("-m", QUEST, "-b", "64", "-t", "0", "-o", outputs, "-a", "-f", "junit",
        NULL);
  assert_int_equal(lines_with("\nlayer "), wrong + outs);
}

int main(void) {
  int failed = graded_open();
  if (!failed) failed = tests_run("ties", NULL, NULL);
  graded_close();
  return failed;
}

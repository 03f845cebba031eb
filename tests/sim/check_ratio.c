/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of a compression ratio, the budget of kvpress's presses: it leaves what
 * Python's int(n * (1 - r)) does, also where that is one fewer than real
 * numbers leave; in a list a layer and in a session as on a command line; and
 * what is no ratio, or leaves nothing, is refused in one sentence.
 */
#include "sim/ask/budget.h"
#include "sim/run/session/session.h"
#include "tests/support/test.h"

#include <string.h>

TEST(as_python_computes) {
  const struct {
    int n;
    const char *text;
    int kept; /* what Python 3 prints */
  } of[] = {{465, "ratio:0.8", 92},
            {40, "ratio:.8", 7},
            {30, "ratio:0.900", 2},
            {300, "ratio:0.9", 29}, /* up to here one fewer than in reals */
            {465, "ratio:0.9", 46},
            {50, "ratio:0.94", 3},
            {100, "ratio:0.3", 70},
            {1000, "ratio:0.1", 900},
            {7, "ratio:0.142857142857143", 5},
            {1 << 20, "ratio:0.000001", 1048574},
            {761, "ratio:0.8", 152},
            {273, "ratio:0.7", 81},
            {1, "ratio:0", 1},
            {1 << 30, "ratio:0.0", 1 << 30}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    kv_budget b;
    int n = -1;
    assert_int_equal(kv_budget_parse(of[i].text, &b, NULL), KV_OK);
    assert_int_equal(b.basis, KV_BASIS_RATIO);
    assert_false(kv_budget_in_bytes(&b));
    assert_int_equal(kv_budget_entries(&b, of[i].n, &n, NULL), KV_OK);
    assert_int_equal(n, of[i].kept);
  }
  assert_string_equal(kv_basis_names[KV_BASIS_RATIO], "ratio");
}

TEST(a_layer_each) {
  kv_budget b;
  int n[3], of[3] = {465, 465, 465};
  assert_int_equal(kv_budget_parse("ratio:0.8/20%/ratio:0", &b, NULL), KV_OK);
  assert_int_equal(kv_budget_layers(&b, 3, of, n, NULL), KV_OK);
  assert_int_equal(n[0], 92);
  assert_int_equal(n[1], 93);
  assert_int_equal(n[2], 465);
  kv_budget_free(&b);
}

static void refused(const char *text, const char *says) {
  kv_budgets b = {0};
  kv_err e = {0};
  kv_rc rc = kv_budgets_add(text, &b, &e);
  if (rc != KV_USAGE || !strstr(e.text, says))
    fail_msg("%s: rc %d, \"%s\" does not hold \"%s\"", text, rc, e.text, says);
  kv_budgets_free(&b);
}

TEST(wrong_is_named) {
  refused("ratio:1", "below 1");
  refused("ratio:1.0", "below 1");
  refused("ratio:-0.1", "from 0 on");
  refused("ratio:80%", "plain decimal");
  refused("ratio:0.1234567890123456", "at most 15 decimals");
  refused("ratio:", "plain decimal");
  refused("rato:0.8", "did you mean ratio?");
  refused("end:ratio:0.8", "of the prompt's tokens alone");
  refused("0.8", "a compression ratio (ratio:0.8)");
  refused("ratio:0.8,ratio:.80", "listed twice");
}

TEST(nothing_left_is_usage) {
  kv_budget b;
  kv_err e = {0};
  int n;
  assert_int_equal(kv_budget_parse("ratio:0.9", &b, &e), KV_OK);
  assert_int_equal(kv_budget_entries(&b, 10, &n, &e), KV_USAGE);
  assert_non_null(strstr(e.text, "leaves none of a prompt of 10 tokens"));
  assert_int_equal(kv_budget_entries(&b, 20, &n, &e), KV_OK);
  assert_int_equal(n, 1);
}

TEST(in_a_session) {
  const kv_session_shape x = {.abi = KV_SESSION_ABI,
                              .n_layers = 1,
                              .n_heads = 2,
                              .n_kv_heads = 1,
                              .d = 8,
                              .d_v = 8,
                              .n_tokens = 50,
                              .dtype = KV_F16};
  kv_session *s = NULL;
  kv_err e = {0};
  assert_int_equal(kv_session_open(&x, "h2o", "ratio:0.8", 40, &s, &e), KV_OK);
  assert_non_null(strstr(kv_session_spec(s), ":budget=7:")); /* 20%: 8 */
  kv_session_close(s);
  assert_int_equal(kv_session_open(&x, "h2o", "ratio:1", 40, &s, &e), KV_USAGE);
  assert_non_null(strstr(e.text, "below 1"));
}

int main(void) { return tests_run("ratio", NULL, NULL); }

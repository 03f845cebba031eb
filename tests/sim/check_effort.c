/* SPDX-License-Identifier: Apache-2.0
 *
 * Predicted costs: more work is never predicted to be cheaper, what cells share
 * is told apart from their own, and no shape overflows.
 */
#include "sim/sweep/effort.h"
#include "tests/laws/cells.h"
#include "tests/support/bundled.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>

typedef void count(const kv_cell *c, kv_effort *out);

static int64_t counted(const kv_trace *t, const char *method, int prompt,
                       count *kinds) {
  kv_cell c = {0};
  kv_effort x;
  cells_must(kv_method_at, t, prompt, method, -1, &c);
  kinds(&c, &x);
  kv_cell_close(&c);
  return kv_effort_cost(&x);
}

static int64_t predicted(const kv_trace *t, const char *method, int prompt) {
  return counted(t, method, prompt, kv_effort_cell);
}

static int64_t shared_by(const kv_trace *t, const char *method) {
  return counted(t, method, 0, kv_effort_shared);
}

/* More work is never predicted to be cheaper, and no shape overflows. */
static void more_costs_more(void **state) {
  const kv_trace *t = *state;
  kv_trace huge = *t;
  kv_effort x = {{0}};
  assert_true(predicted(t, "h2o:budget=20", 0) <
              predicted(t, "h2o:budget=120", 0));
  assert_true(predicted(t, "h2o:budget=20", 280) <
              predicted(t, "h2o:budget=20", 140));
  assert_true(predicted(t, "dense", 0) <
              predicted(t, "oracle-topk:budget=99", 0));
  assert_true(shared_by(t, "dense") < shared_by(t, "window:budget=20"));
  assert_true(shared_by(t, "window:budget=20") < shared_by(t, "h2o:budget=20"));
  kv_effort_trace(t, 0, &x);
  int64_t whole = kv_effort_cost(&x);
  kv_effort_trace(t, t->shape.n_tokens - 1, &x);
  assert_true(whole > kv_effort_cost(&x) && kv_effort_cost(&x) > 0);
  huge.shape.n_tokens = 1 << 30;
  huge.shape.prompt_len = 1 << 29;
  kv_effort_trace(&huge, 0, &x);
  assert_int_equal(kv_effort_cost(&x), KV_EFFORT_MOST);
  assert_int_equal(predicted(&huge, "zsmerge:budget=4096", 0), KV_EFFORT_MOST);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(more_costs_more)};
  return cmocka_run_group_tests(tests, bundled_setup, bundled_teardown);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What a search for a budget in bytes probes and costs, and on how many threads
 * a replay is: a method that refuses every budget below half the trace is
 * opened no more often than the logarithm of the tokens says, and threads are a
 * field of the backend, taken away by a watch that must be told in order. And
 * what a cell is predicted to cost: more work is never predicted to be cheaper.
 */
#include "sim/ask/spec.h"
#include "sim/run/sweep/batch.h"
#include "sim/run/sweep/effort.h"
#include "tests/laws/cells.h"
#include "tests/support/bundled.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const kv_method kv_method_window;

/* window, but for what its open refuses. */
static kv_method choosy;
static int opens, least;

static kv_rc open_choosy(const kv_shape *shape, void *params, kv_needs *needs,
                         kv_err *e) {
  int32_t budget;
  memcpy(&budget, (char *)params + kv_method_window.params[0].offset,
         sizeof budget);
  opens++;
  if (budget < least)
    return kv_fail(e, KV_REFUSED, "choosy wants %d, not %d", least, budget);
  return kv_method_window.open(shape, params, needs, e);
}

static const kv_method *only_choosy(int i) { return i ? NULL : &choosy; }

static int logarithm(int n) { return n < 2 ? 0 : 1 + logarithm((n + 1) / 2); }

/* The first legal budget costs 2 log2(n) + 1 opens, and the search by the
 * ledger opens a cell a probe. */
static void a_search_opens_log_n(void **state) {
  const kv_trace *t = *state;
  kv_batch b = {.trace = (kv_trace *)t};
  kv_batch_ask ask = {.how = {.backend = &kv_backend_ref,
                              .kernels = kv_kernels_best(),
                              .threads = 1}};
  kv_spec spec = {0};
  kv_budget budget = {0};
  kv_err e = {0};
  int n = t->shape.n_tokens, value = -1;
  choosy = kv_method_window;
  choosy.name = "choosy";
  choosy.open = open_choosy;
  least = n / 2;
  if (kv_spec_parse(only_choosy, "choosy", &spec, &e) ||
      kv_budget_parse("end:75%", &budget, &e))
    fail_msg("%s", e.text);
  opens = 0;
  if (kv_batch_search(&ask, &b, &spec, &budget, &value, &e))
    fail_msg("%s", e.text);
  assert_true(value >= least && value < n);
  assert_true(n > 256 && opens > logarithm(n));
  assert_true(opens <= 2 * logarithm(n) + 1 + logarithm(n) + 2);
  kv_spec_free(&spec);
  kv_batch_close(&b);
}

static void unheard(void *self, int layer, const kv_lane *lane) {
  (void)self, (void)layer, (void)lane;
}

TEST(threads_are_a_field) {
  kv_backend serial = kv_backend_ref;
  kv_watch ordered = {.finished = unheard}, free_one = ordered;
  kv_replay_how how = {.backend = &kv_backend_ref, .threads = 2};
  serial.threads = false;
  free_one.concurrent = true;
  assert_true(kv_replay_parallel(&how));
  how.backend = &kv_backend_blind; /* searches, too */
  assert_true(kv_replay_parallel(&how));
  how.watch = &free_one;
  assert_true(kv_replay_parallel(&how));
  free_one.next = &ordered;
  assert_false(kv_replay_parallel(&how));
  how.watch = NULL;
  how.backend = &serial; /* whatever it is called */
  assert_false(kv_replay_parallel(&how));
}

/* --- what is probed --------------------------------------------------------
 */

static kv_budget parsed(const char *text) {
  kv_budget b;
  kv_err e = {0};
  if (kv_budget_parse(text, &b, &e)) fail_msg("%s: %s", text, e.text);
  return b;
}

/* A method whose cost is a table; every probe is written down. */
typedef struct probed {
  int n, at[64];
  int64_t (*cost)(int entries);
} probed;

static kv_rc probe(void *self, int at, int64_t *bytes, int64_t *dense,
                   kv_err *e) {
  probed *p = self;
  (void)e;
  p->at[p->n++] = at;
  *bytes = p->cost(at);
  *dense = 1000;
  return KV_OK;
}

static int64_t linear(int n) { return 10 * n; }
/* Not steady: 48 and more fit again. */
static int64_t jumps(int n) { return n >= 48 && n < 100 ? 1 : 10 * n; }

static void searched(const char *budget, int from, int most,
                     int64_t (*cost)(int), kv_rc want, int B, int n,
                     const int *sequence) {
  kv_budget b = parsed(budget);
  probed p = {.cost = cost};
  kv_err e = {0};
  int out = -1;
  assert_int_equal(kv_budget_search(&b, from, most, "one", probe, &p, &out, &e),
                   want);
  assert_int_equal(out, B);
  assert_int_equal(p.n, n);
  assert_in_range(kv_budget_probes(from, most), n, most);
  assert_memory_equal(p.at, sequence, (size_t)n * sizeof *sequence);
  if (want) assert_non_null(strstr(e.text, "bytes"));
}

TEST(search_sequence) {
  searched("end:20%", 1, 100, linear, KV_OK, 20, 5,
           (int[]){100, 1, 20, 60, 21});
  searched("end:100%", 4, 100, linear, KV_OK, 100, 1, (int[]){100});
  searched("end:1%", 4, 100, linear, KV_REFUSED, -1, 2, (int[]){100, 4});
  searched("end:20%", 1, 100, jumps, KV_OK, 99, 9,
           (int[]){100, 1, 20, 60, 73, 86, 95, 98, 99});
  searched("end:20%", 7, 7, linear, KV_OK, 7, 1, (int[]){7});
  searched("end:1%", 7, 7, linear, KV_REFUSED, -1, 1, (int[]){7});
  searched("end:20%", 9, 7, linear, KV_OK, 9, 1, (int[]){9});
  searched("end:20%", 30, 7, linear, KV_REFUSED, -1, 1, (int[]){30});
}

/* Steps of 32 places, a cost that rises late, and one that rises early. */
static int64_t steps(int n) { return 10 * (n / 32 * 32); }
static int64_t late(int n) { return n * n / 10; }
static int64_t early(int n) { return n < 90 ? n * 11 : 1000; }

/* The bound holds for whatever grows, and a straight line takes few. */
TEST(probes_at_most) {
  int64_t (*const cost[])(int) = {linear, steps, late, early};
  for (int most = 2; most <= 130; most++)
    for (int percent = 1; percent < 130; percent++)
      for (int i = 0; i < 4; i++) {
        kv_budget b = parsed("end:50%");
        int from = 1 + most % 3, out = -1;
        if (from > most) continue;
        b.num = percent;
        b.den = 100;
        probed p = {.cost = cost[i]};
        kv_err e = {0};
        kv_rc rc = kv_budget_search(&b, from, most, "one", probe, &p, &out, &e);
        assert_in_range(p.n, 1, kv_budget_probes(from, most));
        if (i == 0) assert_in_range(p.n, 1, KV_BUDGET_USUAL);
        if (rc) continue;
        assert_true(kv_budget_fits(&b, cost[i](out), 1000));
        assert_true(out == most || !kv_budget_fits(&b, cost[i](out + 1), 1000));
      }
}

/* Sums beyond 2^53 bytes, whose excess over the budget is rounded to none. */
static int64_t vast(int n) { return (INT64_C(1) << 60) + (n > 7); }

static kv_rc vast_probe(void *self, int at, int64_t *bytes, int64_t *dense,
                        kv_err *e) {
  (void)self, (void)e;
  *bytes = vast(at);
  *dense = vast(1);
  return KV_OK;
}

TEST(search_beyond_doubles) {
  kv_budget b = parsed("end:100%");
  int out = -1;
  assert_true(kv_budget_over(&b, vast(8), vast(1)) == 0);
  assert_int_equal(
      kv_budget_search(&b, 1, 100, "one", vast_probe, NULL, &out, NULL), KV_OK);
  assert_int_equal(out, 7);
}

/* --- predicted costs ---------------------------------------------------------
 */

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

/* Nor does any shape overflow; what cells share is told apart from their own.
 */
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
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_search_opens_log_n),
                                     cmocka_unit_test(threads_are_a_field),
                                     cmocka_unit_test(search_sequence),
                                     cmocka_unit_test(probes_at_most),
                                     cmocka_unit_test(search_beyond_doubles),
                                     cmocka_unit_test(more_costs_more)};
  return cmocka_run_group_tests(tests, bundled_setup, bundled_teardown);
}

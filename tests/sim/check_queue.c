/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of methods that were really replayed over one pool: it holds what
 * the requests hold by themselves, for any number of threads, and a queue
 * serves every block of each once.
 */
#include "ref/pages/geometry.h"
#include "tests/laws/cells.h"
#include "tests/sim/together_ask.h"
#include "tests/support/scratch.h"
#include "tests/support/traces/opened.h"

#include <stdio.h>

static const kv_layout_asked asked = {
    .layout = &kv_layout_unified, .record = true, .name = "unified"};

enum { REQUESTS = 3 };
static kv_trace *trace[REQUESTS];

static int open_traces(void **state) {
  if (scratch_make(state)) return 1;
  for (int i = 0; i < REQUESTS; i++) {
    char name[32];
    snprintf(name, sizeof name, "request%d", i);
    const kv_small s = {name, 2, 4, 2, 32, KV_F16, 220 + 60 * i, 180 + 50 * i};
    trace[i] = opened_trace(&s, 9 + (uint64_t)i, kv_trace_open);
  }
  return 0;
}

static int close_traces(void **state) {
  for (int i = 0; i < REQUESTS; i++) kv_trace_close(trace[i]);
  return scratch_remove(state);
}

static void replay(const char *text, int i, const kv_layout_list *list,
                   kv_cell *c) {
  assert_true(cells_lay_out(kv_method_at, trace[i], text, 64, list,
                            (kv_replay_how){.threads = 2}, c));
}

/* Pages of a request at its steps, which the layout counted layer by layer. */
static int64_t pages_of(const kv_cell *c) {
  const kv_layout_result *l = c->result.layout;
  int64_t n = 0;
  for (int i = 0; i < l->n_steps; i++) n += l->step[i].pages;
  return n;
}

/* As check_queue() says, but who is let in stays, and has as much as alone:
 * nobody is put back, and the most that run at a time are not more. */
static void check_stays(const kv_layouts *const *from, int64_t pages,
                        int64_t most) {
  kv_together how = {.pool = pages * kv_page_bytes(32, 32),
                     .threads = 3,
                     .wait = KV_POOL_STAY,
                     .arrive = {.name = "every", .every = 25}};
  kv_pool_steps steps = {0};
  answer a = ask_how(how, REQUESTS, from, &steps);
  free(steps.at);
  steps = (kv_pool_steps){0};
  how.pool = 4000 * kv_page_bytes(32, 32);
  answer roomy = ask_how(how, REQUESTS, from, &steps);
  free(steps.at);
  for (int i = 0; i < REQUESTS; i++) {
    const kv_together_result *r = &a.of[i];
    assert_true(r->refused < 0 && !r->put_back);
    assert_int_equal(r->pages_peak, roomy.of[i].pages_peak);
    assert_int_equal(r->ends - r->arrives, from[i]->points + r->waited);
    assert_int_equal(roomy.of[i].waited, 0);
  }
  assert_int_equal(a.of[0].pool.wait, KV_POOL_STAY);
  assert_true(a.of[0].pool.waiting > 0 && a.of[0].pool.peak <= pages);
  assert_in_range(a.of[0].pool.running_peak, 1, most);
}

/* In pages for all but one: nobody is refused, somebody waits, every block is
 * served once, and the numbers of a step are the sums of the row. */
static void check_queue(const kv_layouts *const *from, int64_t pages) {
  kv_together how = {.pool = pages * kv_page_bytes(32, 32),
                     .threads = 1,
                     .wait = KV_POOL_WAIT,
                     .arrive = {.name = "every", .every = 25}};
  kv_pool_steps one = {0}, three = {0};
  int64_t blocks = 0, waited = 0, ran = 0, held = 0;
  answer a = ask_how(how, REQUESTS, from, &one);
  how.threads = 3;
  answer b = ask_how(how, REQUESTS, from, &three);
  assert_memory_equal(&a, &b, sizeof a);
  assert_int_equal(one.n, three.n);
  assert_memory_equal(one.at, three.at, (size_t)one.n * sizeof *one.at);
  for (int i = 0; i < REQUESTS; i++) {
    const kv_together_result *r = &a.of[i];
    assert_int_equal(r->refused, -1);
    assert_true(r->admitted >= r->arrives && r->first >= r->admitted);
    assert_int_equal(r->ends - r->arrives, from[i]->points + r->waited);
    blocks += from[i]->points;
    waited += r->waited;
  }
  for (int64_t i = 0; i < one.n; i++) {
    ran += one.at[i].running;
    held += one.at[i].pages;
    assert_true(one.at[i].pages <= pages);
  }
  assert_int_equal(ran, blocks);
  assert_int_equal(ran, a.of[0].pool.running);
  assert_int_equal(held, a.of[0].pool.held);
  assert_int_equal(waited, a.of[0].pool.waiting);
  assert_true(waited > 0);
  free(one.at);
  free(three.at);
  check_stays(from, pages, a.of[0].pool.running_peak);
}

TEST(test_replayed) {
  static const char *const texts[] = {"leankv:window=16:alpha_l=0.5",
                                      "snapkv+k8v4", "dense+k8v4:residual=32"};
  for (int t = 0; t < 3; t++) {
    kv_layout_asked own = asked;
    const kv_layout_list list = {1, &own};
    kv_cell c[REQUESTS] = {{0}};
    const kv_layouts *from[REQUESTS];
    int64_t page = kv_page_bytes(32, 32), held = 0;
    own.variant = t == 1 ? KV_PAGES_CODE : KV_PAGES_PAPER;
    for (int i = 0; i < REQUESTS; i++) {
      replay(texts[t], i, &list, &c[i]);
      from[i] = c[i].layouts;
      held += pages_of(&c[i]);
    }
    answer a = ask(4000, page, 25, 1, REQUESTS, from);
    answer b = ask(4000, page, 25, 3, REQUESTS, from);
    assert_memory_equal(&a, &b, sizeof a);
    assert_int_equal(a.of[0].pool.held, held);
    for (int i = 0; i < REQUESTS; i++) {
      assert_int_equal(a.of[i].refused, -1);
      assert_int_equal(a.of[i].ends - a.of[i].arrives, c[i].result.n_steps);
    }
    /* Room for all at once but for one page: somebody is refused, and who is
     * not does as before. */
    a = ask(a.of[0].pool.peak - 1, page, 25, 3, REQUESTS, from);
    int refused = 0;
    for (int i = 0; i < REQUESTS; i++) {
      refused += a.of[i].refused >= 0;
      if (a.of[i].refused >= 0) continue;
      assert_int_equal(a.of[i].ends, b.of[i].ends);
      assert_int_equal(a.of[i].pages_peak, b.of[i].pages_peak);
    }
    assert_true(refused > 0 && refused < REQUESTS);
    check_queue(from, b.of[0].pool.peak - 1);
    for (int i = 0; i < REQUESTS; i++) kv_cell_close(&c[i]);
  }
}

int main(void) {
  return tests_run("replays over one pool", open_traces, close_traces);
}

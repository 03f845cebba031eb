/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that share a pool: two of them by hand, step by step; what a refused
 * one leaves alone, and who waits. Of methods that were really replayed the
 * pool holds what the requests hold by themselves, for any number of threads,
 * and a queue serves every block of each once.
 */
#include "ref/pages/geometry.h"
#include "sim/replay/layout/layouts_part.h"
#include "sim/run/look/together.h"
#include "tests/laws/cells.h"
#include "tests/support/scratch.h"
#include "tests/support/told.h"
#include "tests/support/traces/opened.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The numbers of at most four requests. What is refused for want of arguments
 * fails the test. */
typedef struct answer {
  kv_together_result of[4];
} answer;

/* With numbers of each step, which the caller frees. */
static answer ask_how(kv_together how, int n, const kv_layouts *const *request,
                      kv_pool_steps *steps) {
  kv_together_result *out[4];
  answer a;
  memset(&a, 0xff, sizeof a);
  for (int i = 0; i < 4; i++) out[i] = &a.of[i];
  works(kv_together_run(&how, n, request, out, steps, &told));
  return a;
}

/* One request every so many steps, over so many pages; nobody waits. */
static answer ask(int64_t pages, int64_t page, int every, int threads, int n,
                  const kv_layouts *const *request) {
  const kv_together how = {.pool = pages * page,
                           .threads = threads,
                           .arrive = {.name = "every", .every = every}};
  kv_pool_steps steps = {0};
  answer a = ask_how(how, n, request, &steps);
  assert_int_equal(steps.n, a.of[0].pool.steps);
  free(steps.at);
  return a;
}

/* --- by hand ---------------------------------------------------------------
 * One layer, one head; pages of 6784 bytes hold 32 tokens as K8V4, or 60 as
 * K4V2. 40 tokens of prompt reserve 2 pages and compress as 30 high and 10 low;
 * four steps add a high one each, of which the third needs a page more. */

enum { PROMPT = 40, STEPS = 4, POINTS = 1 + STEPS, PAGE = 6784 };
enum { HIGH_BYTES = 128 + 4 + 64 + 4 + 8, LOW_BYTES = 64 + 4 + 32 + 4 + 8 };

static const kv_shape shape = {.n_layers = 1,
                               .n_heads = 1,
                               .n_kv_heads = 1,
                               .d = 128,
                               .d_v = 128,
                               .n_tokens = PROMPT + STEPS,
                               .prompt_len = PROMPT,
                               .dtype = KV_F16};
static const kv_needs needs = {.block = PROMPT};
static const kv_layout_asked asked = {
    .layout = &kv_layout_unified, .record = true, .name = "unified"};
static kv_pages_count count[POINTS] = {
    {{30, 10}}, {{31, 10}}, {{32, 10}}, {{33, 10}}, {{34, 10}}};
static int64_t moved[POINTS] = {0, 1, 0, 5, 0};
static kv_layout_tier tier[KV_TIERS] = {
    {.format = {KV_CODED, KV_CODED + 1}, .payload = HIGH_BYTES, .tokens = 32},
    {.format = {KV_CODED + 1, KV_CODED + 2},
     .payload = LOW_BYTES,
     .tokens = 60}};
static kv_layout_account account = {
    .asked = &asked, .count = count, .moved = moved, .tier = tier};
static const kv_layouts hand = {.shape = &shape,
                                .needs = &needs,
                                .layers = 1,
                                .lanes = 1,
                                .blocks = 1,
                                .points = POINTS,
                                .rows = 1,
                                .n = 1,
                                .of = &account};

static void must_be(const kv_together_result *r, int64_t arrives, int64_t ends,
                    int64_t refused, int64_t peak) {
  assert_true(r->there);
  assert_int_equal(r->arrives, arrives);
  assert_int_equal(r->ends, ends);
  assert_int_equal(r->refused, refused);
  assert_int_equal(r->pages_peak, peak);
}

/* The first arrives at step 0, the second at step 2. */
static const kv_layouts *const both[] = {&hand, &hand};
static const kv_layouts *const first[] = {&hand, NULL};
static const kv_layouts *const second[] = {NULL, &hand};

TEST(test_by_hand) {
  /* Pages in use, high tokens, low ones, after each step. */
  static const int64_t after[][3] = {
      {2, 30, 10},      {2, 31, 10}, {4, 32 + 30, 20}, {5, 33 + 31, 20},
      {5, 34 + 32, 20}, {3, 33, 10}, {3, 34, 10}};
  int64_t held = 0, unused = 0, most = 0;
  answer a = ask(5, PAGE, 2, 1, 2, both);
  const kv_pool_result *p = &a.of[1].pool;
  must_be(&a.of[0], 0, 5, -1, 3);
  must_be(&a.of[1], 2, 7, -1, 3);
  for (int i = 0; i < 7; i++) {
    int64_t here =
        after[i][0] * PAGE - after[i][1] * HIGH_BYTES - after[i][2] * LOW_BYTES;
    held += after[i][0];
    unused += here;
    if (here > most) most = here;
  }
  assert_string_equal(p->layout, "unified");
  assert_int_equal(p->bytes, 5 * PAGE);
  assert_int_equal(p->pages, 5);
  assert_int_equal(p->requests, 2);
  assert_int_equal(p->steps, 7);
  assert_int_equal(p->peak, 5);
  assert_int_equal(p->held, held);
  assert_int_equal(p->unused, unused);
  assert_int_equal(p->unused_peak, most);
  assert_int_equal(p->moved, 2 * 6);
  assert_int_equal(p->entries, 2 * (2 + 1)); /* 44 tokens, 32 a page */
  assert_int_equal(p->operations, 2 * (3 + 3));
}

/* Four pages: the third step of the first finds none, and it leaves. The second
 * does what it would do without the first. */
TEST(test_refused_later) {
  char why[400];
  answer a = ask(4, PAGE, 2, 1, 2, both), b = ask(4, PAGE, 2, 1, 2, second);
  must_be(&a.of[0], 0, 3, 3, 2);
  must_be(&a.of[1], 2, 7, -1, 3);
  must_be(&b.of[1], 2, 7, -1, 3);
  assert_int_equal(a.of[1].pool.operations, (2 + 2) + (3 + 3));
  assert_int_equal(a.of[1].pool.moved, 1 + 6);
  kv_together_say(&a.of[0], sizeof why, why);
  assert_string_equal(
      why, "refused at step 3: it holds 2 pages and needs 1 more, but "
           "0 of the pool's 4 are free; give a larger --pool, let "
           "requests --arrive later, or --wait");
}

/* Both ask for a page in the same step and none is there: the last leaves, and
 * the first finds one. With a page more the first would have had it. */
TEST(test_last_leaves) {
  for (int64_t pages = 4; pages <= 5; pages++) {
    answer a = ask(pages, PAGE, 0, 1, 2, both);
    must_be(&a.of[0], 0, 5, -1, 3);
    must_be(&a.of[1], 0, 3, 3, 2);
    assert_int_equal(a.of[1].spare, 0);
    assert_int_equal(a.of[0].pool.held, 3 * 4 + 2 * 3);
  }
}

/* Three pages: the second finds one where it asks for two. It holds nothing and
 * leaves at once, and not a number of the others or of the pool shows it. */
TEST(test_refused_at_once) {
  answer a = ask(3, PAGE, 2, 1, 2, both), b = ask(3, PAGE, 2, 1, 2, first);
  must_be(&a.of[1], 2, 2, 2, 0);
  assert_int_equal(a.of[1].holds, 0);
  assert_int_equal(a.of[1].wanted, 2);
  assert_int_equal(a.of[1].spare, 1);
  b.of[0].pool.requests = 2; /* what was asked for, and not what it held */
  assert_memory_equal(&a.of[0], &b.of[0], sizeof a.of[0]);
}

/* A page: no request finds room, and the sentence says how much one needs. */
TEST(test_too_small) {
  char why[400];
  int64_t pages;
  answer a = ask(1, PAGE, 0, 1, 2, both);
  must_be(&a.of[0], 0, 0, 0, 0);
  must_be(&a.of[1], 0, 0, 0, 0);
  assert_int_equal(a.of[0].pool.steps, 0);
  kv_together_say(&a.of[0], sizeof why, why);
  assert_non_null(
      strstr(why, "give --pool 13568 or more, which it needs even"));
  fails(kv_together_pages(&(kv_together){.pool = PAGE - 1}, &shape, 1, &pages,
                          &told),
        KV_USAGE, "give 6784 bytes or more");
  works(kv_together_pages(&(kv_together){.pool = 2 * PAGE}, &shape, 2, &pages,
                          &told));
  assert_int_equal(pages, 2);
}

/* --- who finds no room waits ---------------------------------------------- */

static answer wait_for(int64_t pages, int every, int n,
                       const kv_layouts *const *request, kv_pool_steps *steps) {
  return ask_how((kv_together){.pool = pages * PAGE,
                               .threads = 1,
                               .wait = KV_POOL_WAIT,
                               .arrive = {.name = "every", .every = every}},
                 n, request, steps);
}

static void must_wait(const kv_together_result *r, int64_t admitted,
                      int64_t token, int64_t waited, int64_t put_back) {
  assert_int_equal(r->admitted, admitted);
  assert_int_equal(r->first, token);
  assert_int_equal(r->waited, waited);
  assert_int_equal(r->put_back, put_back);
}

/* Four pages. At step 3 the first needs a third page and there is none: the
 * second, which had its token, is put back, comes back at step 5 by one block
 * of the 42 tokens that it had seen, and goes on. */
TEST(test_put_back) {
  static const int64_t after[][3] = {/* ran, wait, pages */
                                     {1, 0, 2}, {1, 0, 2}, {2, 0, 4},
                                     {2, 0, 3}, {1, 1, 3}, {1, 0, 2},
                                     {1, 0, 3}, {1, 0, 3}};
  kv_pool_steps steps = {0};
  answer a = wait_for(4, 2, 2, both, &steps);
  const kv_pool_result *p = &a.of[0].pool;
  must_be(&a.of[0], 0, 5, -1, 3);
  must_wait(&a.of[0], 0, 0, 0, 0);
  must_be(&a.of[1], 2, 8, -1, 3);
  must_wait(&a.of[1], 2, 2, 1, 1);
  assert_int_equal(steps.n, 8);
  for (int i = 0; i < 8; i++) {
    assert_int_equal(steps.at[i].step, i);
    assert_int_equal(steps.at[i].running, after[i][0]);
    assert_int_equal(steps.at[i].waiting, after[i][1]);
    assert_int_equal(steps.at[i].pages, after[i][2]);
  }
  assert_int_equal(p->wait, 1);
  assert_int_equal(p->steps, 8);
  assert_int_equal(p->held, 22);
  assert_int_equal(p->peak, 4);
  assert_int_equal(p->running, 10); /* five blocks each, no block twice */
  assert_int_equal(p->running_peak, 2);
  assert_int_equal(p->waiting, 1);
  assert_int_equal(p->waiting_peak, 1);
  assert_int_equal(p->moved, 2 * 6);
  assert_int_equal(p->operations, (3 + 3) + (2 + 2) + (3 + 3));
  free(steps.at);
}

/* To stay. The pages of the first after its steps, and of the second after its
 * own, 2, 2, 2, 3, 3 each, are 5 at most together; of four the first is to
 * leave before the second comes. */
TEST(test_stays) {
  for (int64_t pages = 4; pages <= 5; pages++) {
    int64_t waits = pages == 4 ? 3 : 0;
    kv_pool_steps steps = {0};
    answer a = ask_how((kv_together){.pool = pages * PAGE,
                                     .threads = 1,
                                     .wait = KV_POOL_STAY,
                                     .arrive = {.name = "every", .every = 2}},
                       2, both, &steps);
    must_be(&a.of[0], 0, 5, -1, 3);
    must_be(&a.of[1], 2, 7 + waits, -1, 3);
    must_wait(&a.of[1], 2 + waits, 2 + waits, waits, 0);
    assert_int_equal(a.of[0].pool.peak, waits ? 3 : 5);
    free(steps.at);
  }
}

/* Three pages: the second finds one where it asks for two, and comes when the
 * first has left. A third, whose ten tokens would fit, does not overtake it. */
TEST(test_first_come) {
  static const kv_shape few = {.n_layers = 1,
                               .n_heads = 1,
                               .n_kv_heads = 1,
                               .d = 128,
                               .d_v = 128,
                               .n_tokens = 10 + STEPS,
                               .prompt_len = 10,
                               .dtype = KV_F16};
  static kv_pages_count high[POINTS] = {
      {{10, 0}}, {{11, 0}}, {{12, 0}}, {{13, 0}}, {{14, 0}}};
  kv_layout_account of = account;
  kv_layouts small = hand;
  const kv_layouts *const three[] = {&hand, &hand, &small};
  kv_pool_steps steps = {0};
  of.count = high;
  small.of = &of;
  small.shape = &few;
  answer a = wait_for(3, 0, 3, three, &steps);
  must_be(&a.of[0], 0, 5, -1, 3);
  must_be(&a.of[1], 0, 10, -1, 3);
  must_wait(&a.of[1], 5, 5, 5, 0);
  must_wait(&a.of[2], 5, 5, 5 + 1, 1); /* put back at step 8, after its token */
  must_be(&a.of[2], 0, 11, -1, 1);
  free(steps.at);
}

/* Two pages: neither has room for its third step, alone in the pool, and the
 * second is let in when the first was refused. One page: both at once. */
TEST(test_too_small_alone) {
  kv_pool_steps steps = {0};
  answer a = wait_for(2, 0, 2, both, &steps);
  must_be(&a.of[0], 0, 3, 3, 2);
  must_be(&a.of[1], 0, 6, 6, 2);
  must_wait(&a.of[1], 3, 3, 3, 0);
  free(steps.at);
  steps = (kv_pool_steps){0};
  a = wait_for(1, 0, 2, both, &steps);
  must_be(&a.of[0], 0, 0, 0, 0);
  must_be(&a.of[1], 0, 0, 0, 0);
  must_wait(&a.of[0], -1, -1, 0, 0);
  assert_int_equal(steps.n, 0);
  free(steps.at);
}

/* --- what cannot share ---------------------------------------------------- */

TEST(test_cannot_share) {
  kv_layout_tier third[KV_TIERS] = {tier[KV_LOW], tier[KV_HIGH]};
  kv_layout_account other = account;
  kv_layouts one = hand, lanes = hand;
  const kv_layouts *const tiers[] = {&hand, &one};
  const kv_layouts *const models[] = {&hand, &lanes};
  kv_together_result a, b, *const out[] = {&a, &b};
  const kv_together how = {.pool = 8 * PAGE, .threads = 1};
  kv_pool_steps s = {0};
  other.tier = third;
  one.of = &other;
  works(kv_together_run(&how, 2, tiers, out, &s, &told));
  third[0].format[0] = KV_RAW;
  fails(kv_together_run(&how, 2, tiers, out, &s, &told), KV_REFUSED,
        "three pairs of formats");
  lanes.lanes = 2;
  fails(kv_together_run(&how, 2, models, out, &s, &told), KV_REFUSED,
        "the same layers, heads and rows");
  free(s.at);
}

/* --- replays over one pool ---------------------------------------------- */

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

int main(void) { return tests_run("together", open_traces, close_traces); }

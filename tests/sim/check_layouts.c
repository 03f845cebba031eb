/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory layouts (sim/replay/layout/layouts.h) beside a replay:
 *   - for every method, and one that calls every verb at random: slots holds
 *     the ledger's payload at every step and at the peak; pages of one token
 *     are slots; pages hold at least what is stored, and the more the wider
 *     their table is shared; what was vacated and is still held was vacated;
 *   - threads, the other walk and layers that come back as bytes change
 *     nothing of any layout;
 *   - the theory: of random evictions of a share s, a page of 16 comes free
 *     with probability s^16, and has s^15 of the evicted bytes in it.
 */
#include "sim/replay/engine/cell.h"
#include "sim/replay/engine/replay.h"
#include "sim/replay/layout/layouts.h"
#include "tests/laws/cells.h"
#include "tests/made/mad.h"
#include "tests/support/layerkeep.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "tests/support/traces/opened.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALL "slots,pages:1,pages:4,pages:4:layer,pages:4:model"
enum { SLOTS, ONES, LANE, LAYER, MODEL, N_LAYOUTS };

static const kv_small small = {"layouts", 3, 4, 2, 32, KV_F16, 110, 70};
static const kv_small large = {"pages", 4, 8, 8, 32, KV_F16, 2049, 2048};
static kv_trace *trace, *big;
static kv_layout_list layouts;

static int open_traces(void **state) {
  kv_err e = {0};
  if (scratch_make(state)) return 1;
  trace = opened_trace(&small, 5, kv_trace_open);
  big = opened_trace(&large, 5, kv_trace_open);
  if (kv_layouts_parse(ALL, &layouts, &e)) fail_msg("%s", e.text);
  return 0;
}

static int close_traces(void **state) {
  kv_trace_close(trace);
  kv_trace_close(big);
  kv_layout_list_free(&layouts);
  return scratch_remove(state);
}

/* --- replays ------------------------------------------------------------ */

static const kv_method *registry(int i) {
  if (i == 0) return &mad_method;
  return kv_method_at(i - 1);
}

/* False: the cell is refused, for it needs more than the trace or a budget. */
static bool replay(const kv_trace *t, const char *text, int budget,
                   const kv_layout_list *asked, kv_replay_how how, kv_cell *c) {
  return cells_lay_out(registry, t, text, budget, asked, how, c);
}

/* --- laws --------------------------------------------------------------- */

static void is_ledger(const kv_result *r, const kv_layout_result *l) {
  assert_int_equal(l->end, r->totals.codes_end);
  assert_int_equal(l->peak, r->totals.codes_peak);
  assert_true(l->mean == r->totals.codes_mean);
  assert_int_equal(l->vacated, l->freed);
  for (int i = 0; i < r->n_steps; i++) {
    assert_int_equal(l->step[i].step, r->step[i].step);
    assert_int_equal(l->step[i].bytes, r->step[i].codes);
    assert_int_equal(l->step[i].slack, 0);
    assert_int_equal(l->step[i].vacated, l->step[i].freed);
  }
}

static void pages_hold(const kv_result *r, const kv_layout_result *l) {
  assert_true(l->freed <= l->vacated);
  assert_true(l->peak >= l->end && l->pages_peak >= l->pages_end);
  for (int i = 0; i < r->n_steps; i++) {
    const kv_layout_step *s = &l->step[i];
    assert_true(s->slack >= 0);
    assert_int_equal(s->bytes - s->slack, r->step[i].codes);
    assert_true(s->freed <= s->vacated);
    if (i) assert_true(s->freed >= s[-1].freed && s->vacated >= s[-1].vacated);
  }
}

/* Tables: 4 bytes a row of slots; of pages 4 for each that the tokens seen,
 * 110, reach into, whoever shares them: a table for each of 2 lanes, then one
 * for these, then one for 3 layers. */
static void laws_of_maps(const kv_layout_result *l) {
  assert_int_equal(l[SLOTS].map_end, 4 * l[SLOTS].pages_end);
  assert_true(l[SLOTS].map_peak >= l[SLOTS].map_end);
  assert_int_equal(l[ONES].map_end * 28, l[LANE].map_end * 110);
  assert_int_equal(l[LANE].map_end, 2 * l[LAYER].map_end);
  assert_int_equal(l[LAYER].map_end, 3 * l[MODEL].map_end);
  assert_true(l[MODEL].map_end > 0 && l[MODEL].map_end % (4 * 28) == 0);
}

static void laws_of(const kv_result *r) {
  const kv_layout_result *l = r->layout;
  kv_layout_result ones = l[ONES];
  assert_int_equal(r->n_layouts, N_LAYOUTS);
  is_ledger(r, &l[SLOTS]);
  laws_of_maps(l);
  ones.map_end = l[SLOTS].map_end;
  ones.map_peak = l[SLOTS].map_peak;
  cells_same_layout(&l[SLOTS], &ones);
  for (int i = LANE; i <= MODEL; i++) {
    pages_hold(r, &l[i]);
    assert_int_equal(l[i].vacated, l[SLOTS].vacated);
    for (int s = 0; i > LANE && s < r->n_steps; s++)
      assert_true(l[i].step[s].bytes >= l[i - 1].step[s].bytes);
  }
  /* n rows of 4 tokens a page, K and V of every lane */
  int64_t rows = l[SLOTS].pages_end;
  assert_true(l[LANE].pages_end >= (rows + 3) / 4);
}

TEST(test_laws) {
  static const char *const further[] = {
      "kivi:group=8:residual=16",
      "kivi:group=8:residual=8:variant=code",
      "zsmerge:residual=3:proximity=4",
      "zsmerge:variant=code:residual=3:metric=l2",
      "quest:page=8:skip=0",
      "h2o:variant=prefill",
      "random:recent=0"};
  enum { FURTHER = sizeof further / sizeof *further };
  int held = 0;
  for (int i = 0; i < FURTHER || registry(i - FURTHER); i++) {
    const char *text = i < FURTHER ? further[i] : registry(i - FURTHER)->name;
    kv_cell c = {0};
    if (replay(trace, text, 24, &layouts, (kv_replay_how){0}, &c)) {
      print_message("  %s\n", text);
      laws_of(&c.result);
      held++;
    }
    kv_cell_close(&c);
  }
  assert_true(held >= FURTHER + 12);
}

/* --- what may not be seen ----------------------------------------------- */

/* Every kind of layout, those of all methods first. */
#define REGULAR                                                                \
  ",base,ls:sparse,ls:max,la:sparse,la:max,hs:sparse,hs:max,ha:sparse,ha:max"
#define UNIFIED ",unified,unified:code"

/* Threads, the other walk, and layers that come back as bytes. */
TEST(test_order) {
  static const struct {
    const char *text, *layouts;
  } of[] = {
      {"random:recent=0", ALL REGULAR UNIFIED},
      {"dense+k8v4:residual=16", ALL REGULAR UNIFIED},
      {"hardkv:upper=100:lower=10:window=2:every=3:variant=code", ALL REGULAR},
      {"mad", ALL REGULAR},
      {"zsmerge:variant=code:residual=3", ALL},
      {"kivi:group=8:residual=16", ALL}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    layerkeep s = {0};
    kv_replay_keeper keep = layerkeep_of(&s);
    const kv_replay_how how[] = {
        {.keep = &keep}, {.threads = 3}, {.by_steps = true}, {.keep = &keep}};
    kv_layout_list list = {0};
    kv_cell c[4] = {0};
    assert_int_equal(kv_layouts_parse(of[i].layouts, &list, NULL), KV_OK);
    for (int k = 0; k < 4; k++) {
      s.give = k == 3;
      assert_true(replay(trace, of[i].text, 24, &list, how[k], &c[k]));
      cells_same_layouts(&c[0], &c[k]);
    }
    for (int k = 0; k < 4; k++) kv_cell_close(&c[k]);
    kv_layout_list_free(&list);
    layerkeep_free(&s);
  }
}

/* A database that had one of the layouts has filled its numbers, and the cell
 * runs for the others: nothing of them is left. */
static kv_rc fill(void *self, int n, kv_cell *const *cell, bool *there,
                  kv_err *e) {
  (void)self, (void)n, (void)there, (void)e;
  for (int i = 0; i < N_LAYOUTS; i++) {
    kv_layout_result *l = &cell[0]->result.layout[i];
    l->pages_peak = l->peak = l->slack_peak = INT64_MAX / 2;
    l->vacated = l->freed = 1000;
    l->pages_mean = l->mean = l->slack_mean = 1e6;
  }
  return KV_OK;
}

TEST(test_recalled) {
  layerkeep s = {.give = true};
  kv_replay_keeper keep = layerkeep_of(&s);
  keep.begin = fill;
  kv_cell a = {0}, b = {0};
  replay(trace, "random:recent=0", 24, &layouts, (kv_replay_how){0}, &a);
  replay(trace, "random:recent=0", 24, &layouts, (kv_replay_how){.keep = &keep},
         &b);
  cells_same_layouts(&a, &b);
  kv_cell_close(&a);
  kv_cell_close(&b);
}

/* Other layouts do not read the bytes of a layer, whatever their size is. */
TEST(test_parts) {
  layerkeep s = {0}, own = {0};
  kv_replay_keeper keep = layerkeep_of(&s), keeps = layerkeep_of(&own);
  kv_cell a = {0}, other = {0};
  kv_layout_list one = {0};
  replay(trace, "random:recent=0", 24, &layouts, (kv_replay_how){.keep = &keep},
         &a);
  assert_int_equal(kv_layouts_parse("pages:2", &one, NULL), KV_OK);
  replay(trace, "random:recent=0", 24, &one, (kv_replay_how){.keep = &keeps},
         &other);
  assert_false(kv_partial_read(&other, 0, kv_partial_size(&a), s.part[0]));
  kv_layout_list_free(&one);
  layerkeep_free(&s);
  layerkeep_free(&own);
  kv_cell_close(&a);
  kv_cell_close(&other);
}

/* --- the theory --------------------------------------------------------- */

/* Full pages of 16, one of K and one of V for each: both come free together.
 * Of random pages each is free with probability q = s^16 (a little less, for
 * the tokens that stay are drawn without replacement). */
TEST(test_theory) {
  enum { BUDGET = 410, PROMPT = 2048, PAGE = 16 };
  kv_layout_list pages = {0};
  kv_err e = {0};
  double freed = 0, vacated = 0, n = 0;
  assert_int_equal(kv_layouts_parse("pages:16", &pages, &e), KV_OK);
  for (int seed = 1; seed <= 4; seed++) {
    kv_cell c = {0};
    char text[64];
    snprintf(text, sizeof text, "random:recent=0:seed=%d", seed);
    replay(big, text, BUDGET, &pages, (kv_replay_how){0}, &c);
    const kv_layout_step *first = &c.result.layout[0].step[0];
    freed += (double)first->freed;
    vacated += (double)first->vacated;
    n += (double)c.result.n_layers * 8 * PROMPT / PAGE;
    kv_cell_close(&c);
  }
  kv_layout_list_free(&pages);
  double s = 1 - (double)BUDGET / PROMPT, q = pow(s, PAGE);
  double row = 2 * 32 * 2; /* K and V, 32 elements of 2 bytes */
  double free_pages = freed / (row * PAGE) / n, error = sqrt(q * (1 - q) / n);
  print_message("  free %.5f, expected %.5f +- %.5f; of the evicted bytes "
                "%.5f, expected %.5f\n",
                free_pages, q, error, freed / vacated, pow(s, PAGE - 1));
  assert_true(fabs(free_pages - q) < 3 * error);
  assert_true(fabs(freed / vacated - pow(s, PAGE - 1)) < 3 * error / s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_laws), cmocka_unit_test(test_order),
      cmocka_unit_test(test_parts), cmocka_unit_test(test_recalled),
      cmocka_unit_test(test_theory)};
  return cmocka_run_group_tests_name("layouts", tests, open_traces,
                                     close_traces);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory layouts (sim/replay/layout/layouts.h) beside a replay, of every method
 * and of one that calls every verb at random:
 *   - no layout decides anything, and each has the numbers that were recorded;
 *   - slots holds the ledger's payload at every step and at the peak; pages of
 *     one token are slots; pages hold at least what is stored, and the more the
 *     wider their table is shared; what was vacated and is still held was
 *     vacated; the like of regular indices and of unified pages;
 *   - threads, the other walk and layers that come back as bytes change
 *     nothing of any layout;
 *   - the theory: of random evictions of a share s, a page of 16 comes free
 *     with probability s^16, and has s^15 of the evicted bytes in it.
 * Regular indices are recounted in numpy, tests/python/check_python_layouts.py.
 */
#include "ref/ground/sha256.h"
#include "ref/pages/geometry.h"
#include "ref/pages/pages.h"
#include "sim/replay/engine/cell.h"
#include "sim/replay/engine/replay.h"
#include "sim/replay/layout/layouts.h"
#include "tests/laws/cells.h"
#include "tests/made/mad.h"
#include "tests/support/bundled.h"
#include "tests/support/layerkeep.h"
#include "tests/support/scratch.h"
#include "tests/support/told.h"
#include "tests/support/traces/opened.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 2, LAYERS = 3, HEAD = 32 };
static const kv_small of_trace[] = {
    {"layouts", LAYERS, 4, LANES, HEAD, KV_F16, 110, 70},
    {"long", LAYERS, 4, LANES, HEAD, KV_F16, 400, 330},
    {"pages", 4, 8, 8, HEAD, KV_F16, 2049, 2048}};
enum { SMALL, LONG, LARGE, TRACES };
static kv_trace *trace[TRACES];

/* The kinds of layouts, and of each those that a replay is asked for. */
enum { MAPS, REGULAR, UNIFIED, KINDS };
enum { SLOTS, ONES, LANE, LAYER, MODEL }; /* of maps */
static const char *const asked[KINDS] = {
    "slots,pages:1,pages:4,pages:4:layer,pages:4:model",
    "base,ls:sparse,ls:max,la:sparse,la:max,hs:sparse,hs:max,ha:sparse,ha:max,"
    "ls:sparse:masks=layer,la:sparse:tp=2:masks=layer,base:tp=2,ls:max:tp=2,"
    "hs:sparse:tp=2,ha:max:tp=2,la:max:masks=lane,ha:max:masks=lane:tp=2",
    "slots,unified,unified:code"};
static kv_layout_list list[KINDS];

static int open_traces(void **state) {
  for (int i = 0; i < KINDS; i++)
    works(kv_layouts_parse(asked[i], &list[i], &told));
  return opened_make(state, TRACES, of_trace, 5, kv_trace_open, trace);
}

static int close_traces(void **state) {
  for (int i = 0; i < KINDS; i++) kv_layout_list_free(&list[i]);
  return opened_close(state, TRACES, trace);
}

/* --- replays ------------------------------------------------------------ */

static const kv_method *registry(int i) {
  return i ? kv_method_at(i - 1) : &mad_method;
}

/* False: the cell is refused, for it needs more than the trace or a budget, or
 * a layout has no place for what it stores. */
static bool replay(const kv_trace *t, const char *text, int budget,
                   const kv_layout_list *layouts, kv_replay_how how,
                   kv_cell *c) {
  return cells_lay_out(registry, t, text, budget, layouts, how, c);
}

static void same_digests(const char *text, const kv_result *a,
                         const kv_result *b) {
  if (memcmp(&a->journal, &b->journal, sizeof a->journal) ||
      memcmp(&a->state, &b->state, sizeof a->state) ||
      memcmp(&a->output, &b->output, sizeof a->output))
    fail_msg("%s: a layout changes a digest", text);
}

/* --- what was recorded --------------------------------------------------- */

/* The beginning of a SHA-256 of all numbers of a cell's layouts. */
static const char *numbers(const kv_result *r, char hex[65]) {
  kv_sha256 h;
  kv_sha256_init(&h);
  for (int i = 0; i < r->n_layouts; i++) {
    kv_layout_result l = r->layout[i];
    kv_sha256_add(&h, l.step, (size_t)l.n_steps * sizeof *l.step);
    l.step = NULL;
    kv_sha256_add(&h, &l, sizeof l);
  }
  kv_digest d = kv_sha256_end(&h);
  kv_digest_hex(&d, hex);
  hex[16] = 0;
  return hex;
}

#define HARDKV "hardkv:upper=100:lower=10:window="
#define LEANKV "leankv:window=16:alpha_l=0.5:alpha_h=1"

/* A change here is one of a layout's account, or of what the method decides
 * (tests/golden.tsv). Maps and regular indices of the small trace, unified
 * pages of the long one; NULL: the method does not suit the layouts. The
 * numbers of regular indices are those of a recount from what lanes held, in
 * plain loops, which this test did before it recorded them. */
static const struct {
  const char *spec, *numbers[KINDS];
} known[] = {
    {"dense", {"d5818e77a6cd75ad", "8802c8db527dc20b", "faf5b957c4eb1f65"}},
    {"h2o", {"4386b1e363ce7765", "9cd491267851212b", "333f742ae9b0c591"}},
    {"adakv", {"9247342dbd2f8299", "28cee80f42b752ff", "f78782c83416aecc"}},
    {"random:recent=0",
     {"f64ccedc58206e38", "4f08848990b577a2", "6d368545fe077ea6"}},
    {"mad", {"de43236ac94b99df", "f4bf499a60e498c5", NULL}},
    {"kivi:group=8:residual=16",
     {"02abbd93c436134c", "96dff5262ccc26bb", NULL}},
    {"zsmerge:variant=code:residual=3",
     {"614953fe33423d1d", "97816498d538c820", NULL}},
    {"dense+k8v4:residual=16",
     {"0870ab01daa4d921", "efb74c16d6467ecb", "fc9c81ebecdd4b09"}},
    {HARDKV "4:every=6:p=0.6",
     {"43c6657562588de4", "5aa9968cc785ffae", "cfb6d652c1598089"}},
    {HARDKV "1:sinks=0:local=0:every=1:adapter=vanilla:variant=code",
     {"5f91ddac21e689e7", "97e9366f9932d917", "0703c933da35c1b6"}},
    {"hardkv:upper=80:lower=10:window=4:every=6:p=0.5+int4",
     {"4849164391e3d3c3", "585aae43184aad53", "2dcb37ab5023fd26"}},
    {LEANKV, {"2e56810feac98db4", "cfb7153cfc5cc53d", "18ac6d4cd8ae6c0e"}}};

TEST(test_recorded) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    for (int k = 0; k < KINDS; k++) {
      const char *want = known[i].numbers[k];
      const kv_trace *t = trace[k == UNIFIED ? LONG : SMALL];
      char hex[65] = "refused";
      kv_cell c = {0};
      if (replay(t, known[i].spec, 24, &list[k], (kv_replay_how){0}, &c))
        numbers(&c.result, hex);
      if (strcmp(hex, want ? want : "refused"))
        fail_msg("%s, %s: %s, recorded %s", known[i].spec, asked[k], hex,
                 want ? want : "refused");
      kv_cell_close(&c);
    }
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

/* Of every layout. */
static void holds(const kv_layout_result *l) {
  assert_true(l->freed <= l->vacated);
  assert_true(l->peak >= l->end && l->pages_peak >= l->pages_end);
  for (int i = 0; i < l->n_steps; i++) {
    const kv_layout_step *s = &l->step[i];
    assert_true(s->slack >= 0 && s->freed <= s->vacated);
    if (i) assert_true(s->freed >= s[-1].freed && s->vacated >= s[-1].vacated);
  }
}

/* All of it but slack is payload. */
static void slack_is_the_rest(const kv_result *r, const kv_layout_result *l) {
  for (int i = 0; i < r->n_steps; i++)
    assert_int_equal(l->step[i].bytes - l->step[i].slack, r->step[i].codes);
}

/* Tables: 4 bytes a row of slots; of pages 4 for each that the tokens seen,
 * 110, reach into, whoever shares them: a table for each of 2 lanes, then one
 * for these, then one for 3 layers. */
static void tables_of_maps(const kv_layout_result *l) {
  assert_int_equal(l[SLOTS].map_end, 4 * l[SLOTS].pages_end);
  assert_true(l[SLOTS].map_peak >= l[SLOTS].map_end);
  assert_int_equal(l[ONES].map_end * 28, l[LANE].map_end * 110);
  assert_int_equal(l[LANE].map_end, 2 * l[LAYER].map_end);
  assert_int_equal(l[LAYER].map_end, 3 * l[MODEL].map_end);
  assert_true(l[MODEL].map_end > 0 && l[MODEL].map_end % (4 * 28) == 0);
}

static void laws_of_maps(const kv_result *r, const kv_needs *needs) {
  const kv_layout_result *l = r->layout;
  kv_layout_result ones = l[ONES];
  (void)needs;
  is_ledger(r, &l[SLOTS]);
  tables_of_maps(l);
  ones.map_end = l[SLOTS].map_end;
  ones.map_peak = l[SLOTS].map_peak;
  cells_same_layout(&l[SLOTS], &ones);
  for (int i = LANE; i <= MODEL; i++) {
    slack_is_the_rest(r, &l[i]);
    assert_int_equal(l[i].vacated, l[SLOTS].vacated);
    for (int s = 0; i > LANE && s < r->n_steps; s++)
      assert_true(l[i].step[s].bytes >= l[i - 1].step[s].bytes);
  }
  /* n rows of 4 tokens a page, K and V of every lane */
  assert_true(l[LANE].pages_end >= (l[SLOTS].pages_end + 3) / 4);
}

static void laws_of_regular(const kv_result *r, const kv_needs *needs) {
  for (int k = 0; k < r->n_layouts; k++) {
    const kv_layout_result *l = &r->layout[k];
    const kv_layout_regular_result *g = &l->regular;
    bool sparse = strstr(l->name, "sparse") != NULL;
    bool whole = !needs->unread || strstr(l->name, "masks=lane");
    assert_true(g->kept <= g->lanes * g->fullest);
    assert_false(l->tables.there);
    if (sparse) assert_int_equal(l->freed, 0);
    if (sparse || *l->name == 'b') {
      assert_int_equal(g->moves, 0);
      assert_int_equal(g->break_even, -1);
    }
    if (whole && g->lanes == LAYERS * LANES) slack_is_the_rest(r, l);
    for (int i = 0; sparse && i < r->n_steps; i++)
      assert_int_equal(l->step[i].pages, 2 * g->lanes * l->step[i].step);
  }
}

static void laws_of_unified(const kv_result *r, const kv_needs *needs) {
  int64_t page = kv_page_bytes(HEAD, HEAD);
  (void)needs;
  assert_int_equal(r->layout[0].tables.there, 0);
  for (int k = 1; k < r->n_layouts; k++) {
    const kv_layout_result *l = &r->layout[k];
    const kv_layout_table_result *t = &l->tables;
    assert_int_equal(t->there, 1);
    assert_true(t->unused_peak >= t->unused_end);
    assert_true(l->pages_peak * page == l->peak);
    assert_true(t->unused_end >= 0 && t->unused_end < l->end);
    assert_true((t->operations - l->pages_end) % 2 == 0);
    for (int i = 0; i < r->n_steps; i++) {
      assert_int_equal(l->step[i].bytes, l->step[i].pages * page);
      assert_true(l->step[i].slack > 0); /* scores and positions at least */
      assert_true(!i || l->step[i].pages >= l->step[i - 1].pages);
    }
  }
  assert_true(r->layout[2].pages_end >= r->layout[1].pages_end);
}

/* Fails unless the laws of a kind hold; false: the method does not suit it. */
static bool obeys(int kind, const kv_trace *t, const char *text, int budget) {
  static void (*const laws[])(const kv_result *, const kv_needs *) = {
      laws_of_maps, laws_of_regular, laws_of_unified};
  const kv_layout_list none = {0};
  kv_cell c = {0}, bare = {0};
  bool runs = replay(t, text, budget, &list[kind], (kv_replay_how){0}, &c);
  if (runs) {
    print_message("  %s\n", text);
    replay(t, text, budget, &none, (kv_replay_how){.threads = 2}, &bare);
    same_digests(text, &bare.result, &c.result);
    for (int i = 0; i < c.result.n_layouts; i++) holds(&c.result.layout[i]);
    laws[kind](&c.result, &c.plan.needs);
  }
  kv_cell_close(&bare);
  kv_cell_close(&c);
  return runs;
}

/* Beside the defaults of all methods. */
static const char *const further[] = {
    "kivi:group=8:residual=16",
    "kivi:group=8:residual=8:variant=code",
    "zsmerge:residual=3:proximity=4",
    "zsmerge:variant=code:residual=3:metric=l2",
    "quest:page=8:skip=0",
    "h2o:variant=prefill",
    "random:recent=0",
    HARDKV "4:every=6:p=0.6",
    HARDKV "1:sinks=0:local=0:every=1:adapter=vanilla:variant=code",
    "hardkv:upper=40:lower=10:window=4:every=6:p=0.6:condensed=merge",
    "hardkv:upper=80:lower=10:window=4:every=6:p=0.5+int4"};
enum { FURTHER = sizeof further / sizeof *further };

TEST(test_laws) {
  int held[] = {0, 0};
  for (int i = 0; i < FURTHER || registry(i - FURTHER); i++)
    for (int k = MAPS; k <= REGULAR; k++)
      held[k] +=
          obeys(k, trace[SMALL],
                i < FURTHER ? further[i] : registry(i - FURTHER)->name, 24);
  assert_true(held[MAPS] >= FURTHER + 12 && held[REGULAR] >= 15);
}

TEST(test_laws_of_unified) {
  static const char *const texts[] = {"dense",
                                      "h2o",
                                      "snapkv",
                                      "adakv",
                                      "quant",
                                      "h2o+int4",
                                      "tova+int2",
                                      "dense+k8v4:residual=64",
                                      "snapkv+k8v4",
                                      LEANKV,
                                      LEANKV ":variant=paper"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    assert_true(obeys(UNIFIED, trace[LONG], texts[i], 96));
}

/* --- unified pages -------------------------------------------------------- */

/* Dense has one tier, and every lane the same pages. */
TEST(test_dense) {
  static const kv_page_config raw = {{16, 16}, {0, 0}};
  kv_cell c = {0};
  replay(trace[LONG], "dense", -1, &list[UNIFIED], (kv_replay_how){0}, &c);
  kv_page_token t = kv_page_token_of(HEAD, HEAD, &raw);
  int32_t n = kv_page_map_of(kv_page_bytes(HEAD, HEAD), &t).tokens;
  const kv_layout_result *l = &c.result.layout[1];
  for (int i = 0; i < l->n_steps; i++)
    assert_int_equal(l->step[i].pages,
                     LAYERS * LANES * kv_pages_for(l->step[i].step, n));
  assert_int_equal(l->tables.entries, LAYERS * LANES * kv_pages_for(400, n));
  assert_int_equal(l->tables.operations, l->pages_end);
  kv_cell_close(&c);
}

/* What the prompt reserved is more than the pages that it then has. */
TEST(test_reserved) {
  kv_cell c = {0};
  replay(trace[LONG], "snapkv+k8v4", 96, &list[UNIFIED], (kv_replay_how){0},
         &c);
  const kv_layout_result *l = &c.result.layout[1];
  assert_true(l->pages_peak > l->step[0].pages);
  kv_cell_close(&c);
}

TEST(test_cells_refused) {
  static const char *const texts[] = {
      "kivi", "zsmerge", "deltakv:compressor=none:full=0:recent=16"};
  for (int i = 0; i < 3; i++) {
    kv_cell c = {0};
    assert_false(replay(trace[LONG], texts[i], 96, &list[UNIFIED],
                        (kv_replay_how){0}, &c));
    assert_int_equal(c.result.status, KV_CELL_REFUSED);
    assert_non_null(strstr(c.result.reason, "layout unified"));
    kv_cell_close(&c);
  }
}

/* --- what may not be seen ----------------------------------------------- */

/* Threads, the other walk, and layers that come back as bytes. */
static bool same_in_any_order(const char *text, const kv_layout_list *layouts) {
  layerkeep s = {0};
  kv_replay_keeper keep = layerkeep_of(&s);
  const kv_replay_how how[] = {
      {.keep = &keep}, {.threads = 3}, {.by_steps = true}, {.keep = &keep}};
  kv_cell c[4] = {0};
  bool runs = true;
  for (int k = 0; runs && k < 4; k++) {
    s.give = k == 3;
    runs = replay(trace[SMALL], text, 24, layouts, how[k], &c[k]);
    if (runs) cells_same_layouts(&c[0], &c[k]);
  }
  for (int k = 0; k < 4; k++) kv_cell_close(&c[k]);
  layerkeep_free(&s);
  return runs;
}

TEST(test_order) {
  static const struct {
    const char *text;
    bool suits[KINDS];
  } of[] = {{"random:recent=0", {true, true, true}},
            {"dense+k8v4:residual=16", {true, true, true}},
            {HARDKV "2:every=3:variant=code", {true, true, true}},
            {"mad", {true, true, false}},
            {"zsmerge:variant=code:residual=3", {true, true, false}},
            {"kivi:group=8:residual=16", {true, true, false}}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++)
    for (int k = 0; k < KINDS; k++)
      if (same_in_any_order(of[i].text, &list[k]) != of[i].suits[k])
        fail_msg("%s, %s: suits, or does not", of[i].text, asked[k]);
}

/* A database that had one of the layouts has filled its numbers, and the cell
 * runs for the others: nothing of them is left. */
static kv_rc fill(void *self, int n, kv_cell *const *cell, bool *there,
                  kv_err *e) {
  (void)self, (void)n, (void)there, (void)e;
  for (int i = 0; i < list[MAPS].n; i++) {
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
  replay(trace[SMALL], "random:recent=0", 24, &list[MAPS], (kv_replay_how){0},
         &a);
  replay(trace[SMALL], "random:recent=0", 24, &list[MAPS],
         (kv_replay_how){.keep = &keep}, &b);
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
  replay(trace[SMALL], "random:recent=0", 24, &list[MAPS],
         (kv_replay_how){.keep = &keep}, &a);
  assert_int_equal(kv_layouts_parse("pages:2", &one, NULL), KV_OK);
  replay(trace[SMALL], "random:recent=0", 24, &one,
         (kv_replay_how){.keep = &keeps}, &other);
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
  double freed = 0, vacated = 0, n = 0;
  works(kv_layouts_parse("pages:16", &pages, &told));
  for (int seed = 1; seed <= 4; seed++) {
    kv_cell c = {0};
    char text[64];
    snprintf(text, sizeof text, "random:recent=0:seed=%d", seed);
    replay(trace[LARGE], text, BUDGET, &pages, (kv_replay_how){0}, &c);
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

/* --- masks of a long answer --------------------------------------------- */

static void near(double share, double percent) {
  assert_true(100 * share > percent - 0.005 && 100 * share < percent + 0.005);
}

/* generated_1500, nothing of which is ever rewritten: what attention reads of
 * 2 lanes in each of 3 layers. Where the last 128 tokens and what any of their
 * queries votes for are read, lanes are nearly alike; where it is what one
 * query votes for, they are as unequal as the paper's top-p (33.2 %). */
TEST(test_long_answer) {
  static const struct {
    const char *more;
    double percent;
    int64_t rewrites, loads; /* of ha:max */
  } of[] = {{"", 83.03, 11, 2173644},
            {":window=1:sinks=0:local=0:every=1:adapter=vanilla:variant=code",
             34.35, 1436, 300048}};
  /* 65 + .. + 1,564 of 6 lanes over 1,500 steps: 814.5 a lane and step */
  enum { STORED = 7330500 };
  kv_trace *t = bundled_open("generated_1500.safetensors");
  for (int i = 0; i < 2; i++) {
    char text[128];
    kv_layout_list two = {0};
    kv_cell c = {0};
    snprintf(text, sizeof text, "hardkv:upper=1564:lower=128%s", of[i].more);
    works(kv_layouts_parse("ha:sparse,ha:max", &two, &told));
    assert_true(replay(t, text, -1, &two, (kv_replay_how){0}, &c));
    for (int k = 0; k < 2; k++) {
      const kv_layout_result *l = &c.result.layout[k];
      const kv_layout_regular_result *g = &l->regular;
      near((double)g->kept / (double)(g->lanes * g->fullest), of[i].percent);
      assert_int_equal(g->rewrites, of[i].rewrites);
      assert_int_equal(g->loads, k ? of[i].loads : STORED);
      assert_int_equal(g->moves > 0, k);
      assert_true(l->freed > 0 || k == 0);
    }
    kv_cell_close(&c);
    kv_layout_list_free(&two);
  }
  kv_trace_close(t);
}

int main(void) { return tests_run("layouts", open_traces, close_traces); }

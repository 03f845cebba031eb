/* SPDX-License-Identifier: Apache-2.0
 *
 * Regular indices (sim/replay/layout/regular.h): beside replays of all methods
 * a recount, in plain loops, of what a witness saw the lanes hold; masks of a
 * long answer. No layout changes a digest.
 */
#include "sim/replay/layout/layouts.h"
#include "tests/laws/cells.h"
#include "tests/made/mad.h"
#include "tests/support/bundled.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "tests/support/traces/opened.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALL                                                                    \
  "base,ls:sparse,ls:max,la:sparse,la:max,hs:sparse,hs:max,ha:sparse,ha:max,"  \
  "ls:sparse:masks=layer,la:sparse:tp=2:masks=layer,base:tp=2,ls:max:tp=2,"    \
  "hs:sparse:tp=2,ha:max:tp=2,la:max:masks=lane,ha:max:masks=lane:tp=2"
enum { N_LAYOUTS = 17 };
enum { LAYERS = 3, LANES = 2, TOKENS = 110, PROMPT = 70, HEAD = 32 };

static const kv_small small = {"regular", LAYERS, 4,      LANES,
                               HEAD,      KV_F16, TOKENS, PROMPT};
static kv_trace *trace;
static kv_layout_list layouts;

/* --- what lanes hold ---------------------------------------------------- */

enum { POINTS = TOKENS + 8 };
typedef bool tokens[LAYERS][LANES][TOKENS];
static tokens reads[POINTS],
    stores[POINTS]; /* views leave nothing out of these */
static tokens *seen = reads;
static int layer_now, points, tokens_at[POINTS];
static kv_layout witness;
static unsigned unread; /* classes that the witness leaves out */

static void watch_begin(kv_layout_state *s) {
  kv_layout_ha.begin(s);
  layer_now++;
}

static void watch_compressed(kv_layout_state *s, int step,
                             const kv_replica *lane) {
  kv_layout_ha.compressed(s, step, lane);
  assert_true(s->block < POINTS && kv_layout_ha.sound(s));
  tokens_at[s->block] = step;
  if (s->block >= points) points = s->block + 1;
  for (int h = 0; h < LANES; h++)
    for (int i = 0; i < lane[h].n; i++) {
      int t = lane[h].order[i];
      stores[s->block][layer_now][h][t] = true;
      reads[s->block][layer_now][h][t] =
          !(unread >> kv_replica_at(&lane[h], i)->tier & 1);
    }
}

static const kv_method *registry(int i) {
  return i ? kv_method_at(i - 1) : &mad_method;
}

/* What is replayed: methods by name, and lanes whose masks clear bits, which
 * come back in the second. */
static const char *text_of(int i) {
  static const char *const masked[] = {
      "hardkv:upper=100:lower=10:window=4:every=6:p=0.6",
      ("hardkv:upper=100:lower=10:window=1:sinks=0:local=0:every=1:"
       "adapter=vanilla:variant=code"),
      "hardkv:upper=40:lower=10:window=4:every=6:p=0.6:condensed=merge",
      "hardkv:upper=80:lower=10:window=4:every=6:p=0.5+int4"};
  enum { MASKED = sizeof masked / sizeof *masked };
  if (i < MASKED) return masked[i];
  return registry(i - MASKED) ? registry(i - MASKED)->name : NULL;
}

/* False: the cell is refused. */
static bool replay(const char *text, const kv_layout_list *asked, kv_cell *c) {
  return cells_lay_out(registry, trace, text, 24, asked, (kv_replay_how){0}, c);
}

static void see(const char *text, kv_cell *c) {
  kv_layout_asked item = {.layout = &witness, .page = 1, .name = "witness"};
  const kv_layout_list one = {1, &item};
  memset(reads, 0, sizeof reads);
  memset(stores, 0, sizeof stores);
  layer_now = -1;
  points = 0;
  assert_true(replay(text, &one, c));
  assert_int_equal(layer_now, LAYERS - 1);
}

/* --- the recount -------------------------------------------------------- */

/* The lanes of a layer that are recounted: all, or those of a rank. */
static int lane_0, lane_n;

typedef struct block {
  int64_t n[LAYERS][LANES], joined[LAYERS], all, seen;
} block;

static block look_at(int b) {
  block k = {.seen = b < 0 ? 0 : tokens_at[b]};
  for (int t = 0; b >= 0 && t < TOKENS; t++) {
    bool any = false;
    for (int l = 0; l < LAYERS; l++) {
      bool here = false;
      for (int h = lane_0; h < lane_n; h++) {
        k.n[l][h] += seen[b][l][h][t];
        here = here || seen[b][l][h][t];
      }
      k.joined[l] += here;
      any = any || here;
    }
    k.all += any;
  }
  return k;
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Slots of a rewritten store, lane by lane. */
static int64_t slots_of(const char *name, const block *k) {
  int64_t widest = 0, fullest = 0, sum = 0;
  for (int l = 0; l < LAYERS; l++) {
    widest = larger(widest, k->joined[l]);
    for (int h = lane_0; h < lane_n; h++) fullest = larger(fullest, k->n[l][h]);
  }
  for (int l = 0; l < LAYERS; l++) {
    int64_t longest = 0;
    for (int h = lane_0; h < lane_n; h++) longest = larger(longest, k->n[l][h]);
    for (int h = lane_0; h < lane_n; h++)
      sum += *name == 'b'             ? k->all
             : *name == 'l'           ? widest
             : strncmp(name, "hs", 2) ? fullest
                                      : longest;
  }
  return sum;
}

/* Does any of these lanes hold the token? */
static bool held_by(int b, int first, int layers, int lane, int lanes, int t) {
  bool any = false;
  for (int l = first; l < first + layers; l++)
    for (int h = lane; h < lane + lanes; h++) any = any || seen[b][l][h][t];
  return any;
}

/* Have they together lost a token that they held or that entered, or one back?
 */
static bool differs(int b, int first, int layers, int lane, int lanes) {
  int before = b ? tokens_at[b - 1] : 0;
  bool any = false;
  for (int t = 0; t < tokens_at[b]; t++)
    any = any ||
          held_by(b, first, layers, lane, lanes, t) !=
              (t >= before || held_by(b - 1, first, layers, lane, lanes, t));
  return any;
}

/* Entries that a rewrite moves, and whether any index changed. */
static int64_t moves_of(const char *name, int b, const block *k,
                        bool *changed) {
  int64_t moves = 0, widest = 0;
  int lanes = lane_n - lane_0;
  *changed = *name == 'b' && differs(b, 0, LAYERS, lane_0, lanes);
  for (int l = 0; l < LAYERS; l++) widest = larger(widest, k->joined[l]);
  for (int l = 0; l < LAYERS && *name != 'b'; l++) {
    bool other = *name == 'l' && differs(b, l, 1, lane_0, lanes);
    int64_t own = 0;
    for (int h = lane_0; h < lane_n; h++) {
      other = other || (*name == 'h' && differs(b, l, 1, h, 1));
      own += k->n[l][h];
    }
    if (*name == 'l') own = lanes * (name[1] == 's' ? widest : k->joined[l]);
    moves += other ? own : 0;
    *changed = *changed || other;
  }
  return moves;
}

/* What the lanes lane_0 .. lane_n - 1 come to. Fails unless l says so at every
 * step; l NULL: nobody says. */
static kv_layout_regular_result sum_up(const char *name, int64_t slot,
                                       const kv_layout_result *l, int n_steps) {
  bool sparse = strstr(name, "sparse") != NULL;
  bool one = strstr(name, "masks=layer") != NULL;
  kv_layout_regular_result g = {
      .there = 1, .lanes = LAYERS * (lane_n - lane_0), .rewritten = -1};
  block was = look_at(-1);
  int64_t held = 0, first = points - n_steps;
  for (int b = 0; b < points; b++) {
    block k = look_at(b);
    bool changed;
    int64_t moves = moves_of(name, b, &k, &changed), fullest = 0, widest = 0;
    if (b > first) g.loads += held + g.lanes * (k.seen - was.seen);
    held = sparse ? g.lanes * k.seen : slots_of(name, &k);
    g.mask_end = sparse || strstr(name, "masks=")
                     ? (one ? LAYERS : g.lanes) * ((k.seen + 7) / 8)
                     : 0;
    g.rewrites += changed;
    if (changed && g.rewritten < 0) g.rewritten = k.seen;
    g.moves += sparse ? 0 : moves;
    was = k;
    if (b < first) continue;
    if (l) assert_int_equal(l->step[b - first].pages, 2 * held);
    if (l) assert_int_equal(l->step[b - first].bytes, held * slot + g.mask_end);
    g.mti += held * slot + g.mask_end;
    for (int y = 0; y < LAYERS; y++) {
      widest = larger(widest, k.joined[y]);
      for (int h = lane_0; h < lane_n; h++) {
        g.kept += one ? k.joined[y] : k.n[y][h];
        fullest = larger(fullest, k.n[y][h]);
      }
    }
    g.fullest += one ? widest : fullest;
  }
  g.moved = g.moves * slot;
  return g;
}

/* Of several ranks the one that holds most has the row, of equals the first. */
static void recount(const kv_result *r, const kv_layout_result *l) {
  int64_t slot =
      l->pages_end ? (l->end - l->regular.mask_end) * 2 / l->pages_end : 0;
  int each = strstr(l->name, "tp=2") ? LANES / 2 : LANES, fullest = 0;
  int64_t most = -1;
  seen = strstr(l->name, "masks=lane") ? stores : reads;
  for (int i = 0; i < LANES; i += each) {
    lane_0 = i;
    lane_n = i + each;
    int64_t mti = sum_up(l->name, slot, NULL, r->n_steps).mti;
    if (mti > most) fullest = i;
    most = larger(most, mti);
  }
  lane_0 = fullest;
  lane_n = fullest + each;
  kv_layout_regular_result g = sum_up(l->name, slot, l, r->n_steps);
  g.break_even = l->regular.break_even;
  assert_memory_equal(&g, &l->regular, sizeof g);
}

/* The rows that count, where all are of a slot's size, are no slack. */
static void recount_slack(const kv_result *r, const kv_layout_result *l) {
  int64_t slot =
      l->pages_end ? (l->end - l->regular.mask_end) * 2 / l->pages_end : 0;
  for (int b = points - r->n_steps, i = 0; b < points; b++, i++) {
    block k = look_at(b);
    int64_t kept = 0;
    for (int y = 0; y < LAYERS; y++)
      for (int h = lane_0; h < lane_n; h++) kept += k.n[y][h];
    assert_int_equal(l->step[i].bytes - l->step[i].slack, kept * slot);
  }
}

static void laws_of(const kv_result *r, const kv_layout_result *l,
                    const kv_needs *need) {
  bool sparse = strstr(l->name, "sparse") != NULL;
  const kv_layout_regular_result *g = &l->regular;
  assert_true(g->kept <= g->lanes * g->fullest);
  assert_true(l->freed <= l->vacated && l->peak >= l->end);
  assert_false(l->tables.there);
  if (sparse) assert_int_equal(l->freed, 0);
  if (sparse || *l->name == 'b') {
    assert_int_equal(g->moves, 0);
    assert_int_equal(g->break_even, -1);
  }
  for (int i = 0; i < r->n_steps; i++) {
    const kv_layout_step *s = &l->step[i];
    assert_true(s->slack >= 0 && s->freed <= s->vacated);
    if ((!need->unread || strstr(l->name, "masks=lane")) &&
        g->lanes == LAYERS * LANES)
      assert_int_equal(s->bytes - s->slack, r->step[i].codes);
    if (i) assert_true(s->freed >= s[-1].freed);
    if (sparse) assert_int_equal(s->pages, 2 * g->lanes * s->step);
  }
}

/* Tokens coded in groups leave rows behind that the witness does not see. */
static bool one_by_one(const kv_cell *c) {
  kv_err e = {0};
  return !c->plan.needs.codings ||
         !kv_layout_unified.suits(NULL, &c->shape, &c->plan.needs, &e);
}

TEST(test_recount) {
  int held = 0;
  for (int i = 0; text_of(i); i++) {
    const char *text = text_of(i);
    kv_cell c = {0}, was = {0};
    if (replay(text, &layouts, &c)) {
      unread = c.plan.needs.unread;
      see(text, &was);
      /* no layout decides anything */
      assert_memory_equal(&c.result.journal, &was.result.journal,
                          sizeof c.result.journal);
      assert_memory_equal(&c.result.output, &was.result.output,
                          sizeof c.result.output);
      for (int k = 0; k < N_LAYOUTS; k++) {
        const kv_needs *need = &c.plan.needs;
        if (one_by_one(&c)) recount(&c.result, &c.result.layout[k]);
        if (one_by_one(&c) && !need->merges && !need->codings)
          recount_slack(&c.result, &c.result.layout[k]);
        laws_of(&c.result, &c.result.layout[k], &c.plan.needs);
      }
      held += one_by_one(&c);
    }
    kv_cell_close(&c);
    kv_cell_close(&was);
  }
  assert_true(held >= 15);
}

static void near(double share, double percent) {
  assert_true(100 * share > percent - 0.005 && 100 * share < percent + 0.005);
}

/* --- masks of a long answer --------------------------------------------- */

/* generated_1500, nothing of which is ever rewritten: what attention reads of
 * 2 lanes in each of 3 layers. Where the last 128 tokens and what any of their
 * queries votes for are read, lanes are nearly alike; where it is what one
 * query votes for, they are as unequal as the paper's top-p (33.2 %). */
TEST(test_masks) {
  static const struct {
    const char *more;
    double percent;
    int64_t rewrites, loads; /* of ha:max */
  } of[] = {{"", 83.03, 11, 2173644},
            {":window=1:sinks=0:local=0:every=1:adapter=vanilla:variant=code",
             34.35, 1436, 300048}};
  /* 65 + .. + 1,564 of 6 lanes over 1,500 steps: 814.5 a lane and step */
  enum { STORED = 7330500 };
  kv_trace *small_one = trace;
  trace = bundled_open("generated_1500.safetensors");
  for (int i = 0; i < 2; i++) {
    char text[128];
    kv_layout_list two = {0};
    kv_cell c = {0};
    kv_err e = {0};
    snprintf(text, sizeof text, "hardkv:upper=1564:lower=128%s", of[i].more);
    assert_int_equal(kv_layouts_parse("ha:sparse,ha:max", &two, &e), KV_OK);
    assert_true(replay(text, &two, &c));
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
  kv_trace_close(trace);
  trace = small_one;
}

static int open_trace(void **state) {
  kv_err e = {0};
  if (scratch_make(state)) return 1;
  trace = opened_trace(&small, 5, kv_trace_open);
  if (kv_layouts_parse(ALL, &layouts, &e)) fail_msg("%s", e.text);
  witness = kv_layout_ha;
  witness.begin = watch_begin;
  witness.compressed = watch_compressed;
  return 0;
}

static int close_trace(void **state) {
  kv_trace_close(trace);
  kv_layout_list_free(&layouts);
  return scratch_remove(state);
}

int main(void) { return tests_run("regular indices", open_trace, close_trace); }

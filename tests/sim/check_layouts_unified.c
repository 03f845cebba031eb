/* SPDX-License-Identifier: Apache-2.0
 *
 * Layout unified: the example by hand of sim/replay/layout/README.md, what it
 * has no place for, and what holds beside a replay of any method: it decides
 * nothing; pages are those of the formula once a prompt is compressed and never
 * fewer.
 */
#include "ref/formats/minmax.h"
#include "ref/pages/geometry.h"
#include "ref/pages/pages.h"
#include "sim/replay/layout/layouts.h"
#include "tests/laws/cells.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "tests/support/traces/opened.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- by hand ------------------------------------------------------------- */

/* K8V4 and K4V2 rows of 128 elements, of which a page holds 32 and 60. */
enum { RAW = KV_RAW, INT8 = KV_CODED, INT4, INT2, TOKENS = 120, PROMPT = 100 };

static const kv_minmax int8 = {8, 128, KV_RULE_UNROUNDED};
static const kv_minmax int4 = {4, 128, KV_RULE_UNROUNDED};
static const kv_minmax int2 = {2, 128, KV_RULE_UNROUNDED};
static const kv_shape shape = {.n_layers = 1,
                               .n_heads = 1,
                               .n_kv_heads = 1,
                               .d = 128,
                               .d_v = 128,
                               .n_tokens = TOKENS,
                               .prompt_len = PROMPT,
                               .dtype = KV_F16};
static const kv_needs needs = {
    .codings = 3,
    .coding = {{.format = &kv_format_token, .settings = &int8},
               {.format = &kv_format_token, .settings = &int4},
               {.format = &kv_format_token, .settings = &int2}}};

typedef struct hand {
  kv_layout_list list;
  const kv_layout *layout;
  kv_layout_state *s;
  kv_replica lane;
} hand;

static hand opened(const char *text) {
  const kv_layout_room room = {&shape, &needs, 1, 1, TOKENS};
  kv_err e = {0};
  hand h = {0};
  assert_int_equal(kv_layouts_parse(text, &h.list, &e), KV_OK);
  h.layout = h.list.item[0].layout;
  assert_int_equal(h.layout->suits(NULL, &shape, &needs, &e), KV_OK);
  assert_int_equal(h.layout->open(&h.list.item[0], &room, &h.s, &e), KV_OK);
  assert_int_equal(kv_replica_open(TOKENS, 3, &h.lane, &e), KV_OK);
  h.layout->begin(h.s);
  return h;
}

static void closed(hand *h) {
  h->layout->close(h->s);
  kv_replica_close(&h->lane);
  kv_layout_list_free(&h->list);
}

/* Of `step` tokens so many are stored as high, low and raw entries, in this
 * order. */
static void compress(hand *h, int step, int high, int low, int raw) {
  kv_replica *r = &h->lane;
  r->n = high + low + raw;
  r->dropped = step - r->n;
  for (int i = 0; i < r->n; i++) {
    int tier = i < high ? 0 : i < high + low ? 1 : 2;
    static const int16_t format[3][KV_SIDES] = {
        {INT8, INT4}, {INT4, INT2}, {RAW, RAW}};
    r->order[i] = i;
    memcpy(r->entry[i].format, format[tier], sizeof format[tier]);
  }
  h->layout->compressed(h->s, step, r);
  h->s->block++;
}

static void must_hold(const hand *h, int64_t pages, int64_t most,
                      int64_t unused) {
  assert_null(h->s->fault);
  assert_int_equal(h->s->pages, pages);
  assert_int_equal(h->s->bytes, pages * 6784);
  assert_int_equal(h->s->most_pages, most);
  assert_int_equal(h->s->unused, unused);
}

TEST(test_by_hand) {
  hand h = opened("unified");
  compress(&h, 100, 40, 50, 0); /* 4 are reserved, 2 and 1 are needed */
  must_hold(&h, 3, 4, 3 * 6784 - 40 * 208 - 50 * 112);
  assert_int_equal(h.s->freed[0], 0); /* nothing lay in what went back */
  compress(&h, 101, 40, 51, 0);
  must_hold(&h, 3, 3, 3 * 6784 - 40 * 208 - 51 * 112);
  compress(&h, 111, 40, 61, 0); /* ten at once, as a prompt: 2 and 2 */
  must_hold(&h, 4, 4, 4 * 6784 - 40 * 208 - 61 * 112);
  compress(&h, 112, 39, 62, 0); /* a demotion: no page goes back */
  must_hold(&h, 4, 4, 4 * 6784 - 39 * 208 - 62 * 112);
  assert_int_equal(h.s->moved, 1);
  h.layout->end(h.s);
  assert_true(h.layout->sound(h.s));
  assert_int_equal(h.s->taken, 5);
  assert_int_equal(h.s->given, 1);
  assert_int_equal(h.s->operations, 6);
  assert_int_equal(h.s->entries, 4 + 1); /* 120 tokens, 32 a page, and one */
  closed(&h);
}

/* Rows that were left: before they lay in a page, in one that stays, and in one
 * that goes back, of whose 8 tokens the other page has no room for. */
TEST(test_freed) {
  hand h = opened("unified");
  h.layout->leave(h.s, 0, KV_SIDE_K, RAW, 99);
  compress(&h, 100, 40, 50, 0);
  assert_int_equal(h.s->freed[0], 256);
  h.layout->leave(h.s, 0, KV_SIDE_K, INT8, 39);
  compress(&h, 101, 39, 51, 0);
  assert_int_equal(h.s->freed[1], 0);
  compress(&h, 103, 20, 51, 0); /* two enter at once */
  must_hold(&h, 2, 3, 2 * 6784 - 20 * 208 - 51 * 112);
  assert_int_equal(h.s->freed[2], (39 - 32) * (128 + 64));
  closed(&h);
}

/* The code reserves a page more, and in a step before it knows. */
TEST(test_by_hand_code) {
  hand h = opened("unified:code");
  compress(&h, 100, 64, 10, 0);
  must_hold(&h, 3, 5, 3 * 6784 - 64 * 208 - 10 * 112);
  compress(&h, 101, 64, 11, 0); /* the high pages are full: one more */
  must_hold(&h, 4, 4, 4 * 6784 - 64 * 208 - 11 * 112);
  h.layout->end(h.s);
  assert_int_equal(h.s->entries, 5 + 2); /* 24 a page: K8V8 */
  assert_true(h.layout->sound(h.s));
  closed(&h);
}

/* Raw rows that a compression left are a tier; a third pair has none. A token
 * that nobody has is noticed. */
TEST(test_tiers) {
  hand h = opened("unified");
  compress(&h, 100, 0, 90, 10); /* 12 raw tokens of 520 bytes a page */
  must_hold(&h, 1 + 2, 9, 3 * 6784 - 10 * 520 - 90 * 112);
  compress(&h, 101, 1, 90, 10);
  assert_non_null(strstr(h.s->fault, "after 101 tokens entries are stored in a "
                                     "third pair of formats"));
  closed(&h);
  h = opened("unified");
  compress(&h, 100, 90, 0, 0);
  h.lane.dropped--;
  h.layout->compressed(h.s, 101, &h.lane);
  assert_false(h.layout->sound(h.s));
  closed(&h);
}

TEST(test_refused) {
  static const kv_minmax many = {4, 32, KV_RULE_STORED};
  static const kv_needs merges = {.merges = true}, tiers = {.tiers = 3};
  static const kv_needs shares = {
      .codings = 1,
      .coding = {{.format = &kv_format_channel, .settings = &many}}};
  kv_shape wide = shape;
  kv_err e = {0};
  wide.d = wide.d_v = 6000;
  assert_int_equal(kv_layout_unified.suits(NULL, &shape, &merges, &e),
                   KV_REFUSED);
  assert_non_null(strstr(e.text, "no page for merged rows"));
  assert_int_equal(kv_layout_unified.suits(NULL, &shape, &tiers, &e),
                   KV_REFUSED);
  assert_non_null(strstr(e.text, "2 precisions, and the method has 3"));
  assert_int_equal(kv_layout_unified.suits(NULL, &shape, &shares, &e),
                   KV_REFUSED);
  assert_non_null(strstr(e.text, "format channel has one for 32 tokens"));
  assert_int_equal(kv_layout_unified.suits(NULL, &wide, &needs, &e),
                   KV_REFUSED);
  assert_non_null(strstr(e.text, "rows of 6000 and 6000 elements"));
}

/* --- beside a replay ----------------------------------------------------- */

#define ALL "slots,unified,unified:code"
enum { SLOTS, PAPER, CODE, N_LAYOUTS };

static const kv_small small = {"unified", 3, 4, 2, 32, KV_F16, 400, 330};
static kv_trace *trace;
static kv_layout_list layouts;

static int open_trace(void **state) {
  kv_err e = {0};
  if (scratch_make(state)) return 1;
  trace = opened_trace(&small, 5, kv_trace_open);
  if (kv_layouts_parse(ALL, &layouts, &e)) fail_msg("%s", e.text);
  return 0;
}

static int close_trace(void **state) {
  kv_trace_close(trace);
  kv_layout_list_free(&layouts);
  return scratch_remove(state);
}

static void replay(const char *text, const kv_layout_list *asked,
                   kv_replay_how how, kv_cell *c) {
  cells_lay_out(kv_method_at, trace, text, 96, asked, how, c);
}

static void same_digests(const kv_result *a, const kv_result *b) {
  assert_memory_equal(&a->journal, &b->journal, sizeof a->journal);
  assert_memory_equal(&a->state, &b->state, sizeof a->state);
  assert_memory_equal(&a->output, &b->output, sizeof a->output);
}

/* What holds of a row; tokens: of a page of the largest tier. */
static void laws_of(const kv_result *r, const kv_layout_result *l) {
  const kv_layout_table_result *t = &l->tables;
  int64_t page = kv_page_bytes(small.d, small.d);
  assert_int_equal(t->there, 1);
  assert_true(l->peak >= l->end && t->unused_peak >= t->unused_end);
  assert_true(l->pages_peak * page == l->peak);
  assert_true(t->unused_end >= 0 && t->unused_end < l->end);
  assert_true((t->operations - l->pages_end) % 2 == 0);
  for (int i = 0; i < r->n_steps; i++) {
    assert_int_equal(l->step[i].bytes, l->step[i].pages * page);
    assert_true(l->step[i].slack > 0); /* scores and positions at least */
    assert_true(l->step[i].freed <= l->step[i].vacated);
    assert_true(!i || l->step[i].pages >= l->step[i - 1].pages);
  }
}

TEST(test_laws) {
  static const char *const texts[] = {
      "dense",    "h2o",       "snapkv",
      "adakv",    "quant",     "snapkv+k8v4",
      "h2o+int4", "tova+int2", "dense+k8v4:residual=64"};
  kv_layout_list none = {0};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    kv_cell a = {0}, b = {0};
    replay(texts[i], &none, (kv_replay_how){.threads = 2}, &a);
    replay(texts[i], &layouts, (kv_replay_how){0}, &b);
    print_message("  %s\n", texts[i]);
    if (!kv_result_ran(&b.result)) fail_msg("%s", b.result.reason);
    same_digests(&a.result, &b.result);
    assert_int_equal(b.result.layout[SLOTS].tables.there, 0);
    laws_of(&b.result, &b.result.layout[PAPER]);
    laws_of(&b.result, &b.result.layout[CODE]);
    assert_true(b.result.layout[CODE].pages_end >=
                b.result.layout[PAPER].pages_end);
    if (!strcmp(texts[i], "snapkv+k8v4")) /* what the prompt reserved */
      assert_true(b.result.layout[PAPER].pages_peak >
                  b.result.layout[PAPER].step[0].pages);
    kv_cell_close(&a);
    kv_cell_close(&b);
  }
}

/* Dense has one tier, and every lane the same pages. */
TEST(test_dense) {
  static const kv_page_config raw = {{16, 16}, {0, 0}};
  kv_cell c = {0};
  replay("dense", &layouts, (kv_replay_how){0}, &c);
  kv_page_token t = kv_page_token_of(small.d, small.d, &raw);
  int32_t n = kv_page_map_of(kv_page_bytes(small.d, small.d), &t).tokens;
  int64_t lanes = (int64_t)small.n_layers * small.n_kv_heads;
  const kv_layout_result *l = &c.result.layout[PAPER];
  for (int i = 0; i < l->n_steps; i++)
    assert_int_equal(l->step[i].pages,
                     lanes * kv_pages_for(l->step[i].step, n));
  assert_int_equal(l->tables.entries, lanes * kv_pages_for(small.n_tokens, n));
  assert_int_equal(l->tables.operations, l->pages_end);
  kv_cell_close(&c);
}

TEST(test_cells_refused) {
  static const char *const texts[] = {
      "kivi", "zsmerge", "deltakv:compressor=none:full=0:recent=16"};
  for (int i = 0; i < 3; i++) {
    kv_cell c = {0};
    replay(texts[i], &layouts, (kv_replay_how){0}, &c);
    assert_int_equal(c.result.status, KV_CELL_REFUSED);
    assert_non_null(strstr(c.result.reason, "layout unified"));
    kv_cell_close(&c);
  }
}

int main(void) { return tests_run("layout unified", open_trace, close_trace); }

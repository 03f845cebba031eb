/* SPDX-License-Identifier: Apache-2.0
 *
 * Later questions as prompts (--segments_turns), for every method on the
 * backend that KV_TEST_BACKEND names:
 *   - they have no measures, and what is held is counted where one ends;
 *   - where nothing was dropped before, a method that looks at the prompt alone
 *     does what it does after a prompt that ends there;
 *   - at the end of each the budget holds again;
 *   - walks, tiles, threads and backends change nothing, and closings are in
 *     order.
 */
#include "tests/support/traces/segments.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Tokens that are no decode step of the replay. */
static int asked(const kv_cell *c) {
  int n = 0;
  for (int i = 0; i < c->turns; i++) n += c->turn[i].count;
  return n;
}

TEST(measures_of_steps_alone) {
  kv_cell c, *each = &c;
  segments_mark(TURNS, segments_turns);
  segments_open("dense", -1, FIRST, KV_OBSERVE_CONTEXT + KV_OBSERVE_TURNS, &c);
  segments_replay(&each, 1);
  const kv_result *r = &c.result;
  int steps = TOKENS_ALL - FIRST - asked(&c);
  assert_int_equal(asked(&c), 12 + 6);
  assert_int_equal(r->stat[KV_OUTPUT_ERROR].count, 2 * 4 * steps);
  assert_true(r->totals.kr == 1 && r->totals.cr == 1);
  int64_t row = 2 * 2 * (16 + 16) * 4; /* layers, heads, K and V, bytes */
  for (int i = 0; i < r->n_steps; i++) {
    int t = r->step[i].step;
    bool within = (t > 34 && t < 46) || (t > 60 && t < 66);
    int held = !within ? t : t < 46 ? 34 : 60;
    assert_int_equal(t, FIRST + i);
    assert_int_equal(r->step[i].bytes, row * held);
    bool reads = i && !within && t != 46 && t != 66;
    assert_int_equal(r->step[i].read, reads ? row * t : 0);
    if (i)
      assert_true(reads ==
                  !isnan(r->step_mean[KV_MASS * (r->n_steps - 1) + i - 1]));
  }
  kv_cell_close(&c);
}

/* The first prompt drops nothing, so that the second is alone: as a prompt that
 * has all tokens up to its end. */
TEST(as_one_prompt) {
  static const char *const spec[] = {
      "snapkv:window=8",      "pyramidkv:window=8",  "adakv:window=8",
      "tova:variant=prefill", "h2o:variant=prefill", "adakv:score=lagkv",
      "chunkkv:window=8",     "criticalkv:window=8"};
  kv_segment one[] = {{0, FIRST, KV_CONTEXT}, {34, ASKED, KV_QUESTION}};
  segments_mark(2, one);
  for (size_t i = 0; i < sizeof spec / sizeof *spec; i++) {
    kv_cell c[2], *each[] = {&c[0], &c[1]};
    bool all_rows = i == 4; /* it also sees what the first prompt asked for */
    int budget = 36;
    segments_open(spec[i], budget, FIRST, KV_OBSERVE_TURNS, &c[0]);
    segments_open(spec[i], budget, ASKED, KV_OBSERVE_RECORDED, &c[1]);
    segments_replay(&each[0], 1);
    segments_replay(&each[1], 1);
    const kv_result *a = &c[0].result, *b = &c[1].result;
    assert_true(a->totals.kept == b->totals.kept);
    for (int t = ASKED + 1; !all_rows && t <= TOKENS_ALL; t++) {
      float x =
          a->step_mean[KV_OUTPUT_ERROR * (a->n_steps - 1) + t - FIRST - 1];
      float y =
          b->step_mean[KV_OUTPUT_ERROR * (b->n_steps - 1) + t - ASKED - 1];
      if (x != y) fail_msg("%s, step %d: %g is not %g", spec[i], t, x, y);
    }
    kv_cell_close(&c[0]);
    kv_cell_close(&c[1]);
  }
}

/* At every later prompt's end there is the budget again. */
TEST(budget_holds) {
  static const struct {
    const char *spec;
    int kept; /* at the end, 14 tokens after the last question */
  } want[] = {{"window", 12},
              {"streamingllm", 12},
              {"h2o", 12},
              {"h2o:variant=masked", 12},
              {"h2o:variant=prefill", 12 + 14},
              {"tova", 12},
              {"oracle-evict", 12},
              {"snapkv:window=4", 12 + 14},
              {"snapkv:window=4:grow=no:every=7", 12},
              {"snapkv:window=4:grow=twice:voters=1", 12 + 14 - 12},
              {"adakv:window=4:safeguard=minimum", 12 + 14},
              {"adakv:window=4:safeguard=minimum:grow=no:every=7", 12},
              {"adakv:score=lagkv:safeguard=minimum", 12 + 14},
              {"adakv:score=expected:safeguard=minimum", 12 + 14},
              {"chunkkv:window=4:chunk=1", 12 + 14},
              {"criticalkv:window=4", 12 + 14},
              {"criticalkv:score=keydiff:form=both:every=7", 12},
              {"zsmerge:variant=paper", 12},
              {"zsmerge:variant=code", 12}};
  enum { SPECS = sizeof want / sizeof *want };
  kv_cell c[SPECS], *each[SPECS];
  segments_mark(TURNS, segments_turns);
  for (int i = 0; i < SPECS; i++) {
    each[i] = &c[i];
    segments_open(want[i].spec, 12, FIRST,
                  KV_OBSERVE_CONTEXT + KV_OBSERVE_TURNS, &c[i]);
  }
  segments_replay(each, SPECS);
  for (int i = 0; i < SPECS; i++) {
    if (c[i].result.totals.kept != want[i].kept)
      fail_msg("%s: %g kept, not %d", want[i].spec, c[i].result.totals.kept,
               want[i].kept);
    kv_cell_close(&c[i]);
  }
}

/* Beside the defaults: all that looks at where a prompt ends. */
static const char *const further[] = {"h2o:variant=masked",
                                      "h2o:variant=prefill",
                                      "snapkv:window=4:grow=no:every=7",
                                      "snapkv:window=4:grow=twice",
                                      "pyramidkv:window=4:grow=no:every=7",
                                      "snapkv:window=4:group=query_head",
                                      "adakv:window=4:safeguard=minimum",
                                      "adakv:window=4:normalise=yes",
                                      "adakv:score=lagkv:normalise=yes",
                                      "adakv:score=lagkv:safeguard=minimum",
                                      "adakv:score=h2o",
                                      "chunkkv:chunk=3:form=both:every=7",
                                      "chunkkv:score=lagkv:count=share",
                                      "criticalkv:score=expected",
                                      "tova:variant=prefill",
                                      "quest:page=4:skip=0",
                                      "zsmerge:variant=code",
                                      "zsmerge+kivi:group=8:residual=8"};
enum { FURTHER = sizeof further / sizeof *further };

/* Of all methods at once, so that they share what can be shared. */
static int open_all(kv_cell *cell, kv_cell **each) {
  int n = 0;
  for (int i = -FURTHER; i < 0 || kv_method_at(i); i++) {
    const char *text = i < 0 ? further[i + FURTHER] : kv_method_at(i)->name;
    if (i >= 0 && !kv_backend_has(rig_backend(), kv_method_at(i))) continue;
    if (i >= 0 && rig_wants_file(kv_method_at(i))) continue;
    assert_true(n < 64);
    each[n] = &cell[n];
    segments_open(text, 12, FIRST, KV_OBSERVE_CONTEXT + KV_OBSERVE_TURNS,
                  each[n]);
    n++;
  }
  return n;
}

TEST(walked_in_any_way) {
  static const kv_replay_how ways[] =
      {{.threads = 2, .fidelity = true},
       {.threads = 1, .fidelity = true, .tile = 1},
       {.threads = 1, .fidelity = true, .by_steps = true},
       {.threads = 1}},
                             ref = {.threads = 1, .backend = &kv_backend_ref};
  kv_cell first[64], c[64], *each[64];
  segments_mark(TURNS, segments_turns);
  int n = open_all(first, each),
      all = segments_slow() ? 1 : sizeof ways / sizeof *ways;
  segments_replay(each, n);
  for (int w = 0; w < all; w++) {
    open_all(c, each);
    segments_replay_as(segments_slow() ? ref : ways[w], each, n);
    for (int i = 0; i < n; i++) {
      const kv_result *a = &first[i].result, *b = &c[i].result;
      if (!segments_same_digest(&a->journal, &b->journal) ||
          !segments_same_digest(&a->output, &b->output) ||
          !segments_same_digest(&a->state, &b->state))
        fail_msg("%s: a digest differs, way %d", b->spec, w);
      kv_cell_close(&c[i]);
    }
  }
  for (int i = 0; i < n; i++) kv_cell_close(&first[i]);
}

/* Closings, as who compares two backends takes them, give the same order. */
TEST(closings_in_order) {
  static const char *const spec[] = {"dense", "zsmerge"};
  segments_mark(TURNS, segments_turns);
  for (int i = 0; i < 2; i++) {
    kv_cell c;
    int at = 0, count, first, closings;
    bool decodes;
    segments_open(spec[i], 12, FIRST, KV_OBSERVE_CONTEXT + KV_OBSERVE_TURNS,
                  &c);
    closings = c.blocks + TOKENS_ALL - FIRST;
    for (int n = 0; n < closings; n++) {
      if (!kv_cell_closing(&c, n, &first, &count, &decodes)) continue;
      assert_int_equal(first, at);
      at += count;
      bool question =
          (first >= 34 && first < 46) || (first >= 60 && first < 66);
      assert_true(decodes == (first >= FIRST && !question));
      assert_int_equal(kv_cell_prompt_at(&c, at), at <= 34   ? FIRST
                                                  : at <= 60 ? 46
                                                             : 66);
    }
    assert_int_equal(at, TOKENS_ALL);
    kv_cell_close(&c);
  }
}

int main(void) { return tests_run("turns", segments_make, segments_close); }

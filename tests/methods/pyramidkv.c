/* SPDX-License-Identifier: Apache-2.0
 *
 * PyramidKV: the worked budgets, computed by hand with the schedule's integer
 * divisions (C = 12, window 2, four layers), and three long ones through the
 * schedule alone; what a layer then keeps is SnapKV's choice at that budget.
 */
#include "ref/methods/pyramidkv.h"
#include "tests/support/rig.h"
#include <stdio.h>

static int kept(int layers, int layer, int prompt, const char *spec) {
  rig_case c =
      RIG_SHAPE(1, 1, 2, 1, prompt, prompt, .n_layers = layers, .layer = layer);
  rig_data(&c, 11);
  rig *r = rig_open(&c, spec);
  int n = rig_lane(r, 0)->n;
  rig_close(r);
  rig_data_free(&c);
  return n;
}

TEST(worked) {
  static const struct {
    int prompt, kept[4];
  } at[] = {{100, {22, 16, 10, 4}}, {21, {21, 15, 9, 3}},
            {20, {20, 15, 10, 5}},  {19, {12, 12, 12, 12}},
            {12, {12, 12, 12, 12}}, {11, {11, 11, 11, 11}}};
  for (size_t i = 0; i < sizeof at / sizeof *at; i++)
    for (int l = 0; l < 4; l++)
      assert_int_equal(kept(4, l, at[i].prompt, "pyramidkv:budget=12:window=2"),
                       at[i].kept[l]);
  assert_int_equal(kept(1, 0, 100, "pyramidkv:budget=12:window=2"), 12);
}

TEST(long_ones) {
  static const struct {
    int c, w, layers, n, first, second, last, total;
  } at[] = {{128, 8, 32, 4000, 242, 235, 25, 4272},
            {128, 8, 32, 240, 240, 233, 23, 4208},
            {64, 8, 32, 4000, 118, 115, 25, 2288},
            {2048, 8, 32, 8000, 3986, 3861, 111, 65552},
            {2048, 32, 80, 31500, 3964, 3916, 172, 165440}};
  for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
    int total = 0, b[80];
    bool all;
    for (int l = 0; l < at[i].layers; l++) {
      b[l] = at[i].w + schedule_of_layer(at[i].c, at[i].w, at[i].layers, l,
                                         at[i].n, 20, &all);
      assert_false(all);
      total += b[l];
    }
    assert_int_equal(b[0], at[i].first);
    assert_int_equal(b[1], at[i].second);
    assert_int_equal(b[at[i].layers - 1], at[i].last);
    assert_int_equal(total, at[i].total);
  }
}

/* exact_total: never rising, and L * C in sum whatever the regime. */
TEST(exact_total) {
  /* max 20, fall 20: 20, 20 - 20 div 3, and what is left of 2 * 10 */
  static const int four[4] = {22, 16, 8, 2};
  for (int l = 0; l < 4; l++)
    assert_int_equal(
        kept(4, l, 100, "pyramidkv:budget=12:window=2:exact_total=yes"),
        four[l]);
  for (int layers = 1; layers <= 9; layers++)
    for (int prompt = 13; prompt <= 61; prompt += 6)
      for (int budget = 4; budget <= 12; budget += 4) {
        char spec[96];
        int total = 0, before = prompt;
        snprintf(spec, sizeof spec,
                 "pyramidkv:budget=%d:window=2:exact_total=yes", budget);
        for (int l = 0; l < layers; l++) {
          int n = kept(layers, l, prompt, spec);
          assert_true(n <= before && n >= 2);
          total += before = n;
        }
        assert_int_equal(total, layers * budget);
      }
}

/* Sparse-vLLM's line: 10 (180 - 59 l) div 180; and what always stays. */
TEST(ratio) {
  static const struct {
    const char *spec;
    int prompt, kept[4];
  } at[] = {
      {"pyramidkv:budget=12:window=2:schedule=ratio:beta=60",
       100,
       {12, 8, 5, 2}},
      {"pyramidkv:budget=12:window=2:schedule=ratio:beta=60", 9, {9, 8, 5, 2}},
      {"pyramidkv:budget=14:window=2:schedule=ratio:beta=60:sinks=1:recent=3",
       100,
       {14, 10, 7, 4}},
      {"pyramidkv:budget=14:window=2:sinks=1:recent=3", 100, {24, 18, 12, 6}},
      {"pyramidkv:budget=14:window=2:sinks=1:recent=3", 23, {23, 17, 11, 5}},
      {"pyramidkv:budget=14:window=2:sinks=1:recent=3", 19, {14, 14, 14, 14}}};
  for (size_t i = 0; i < sizeof at / sizeof *at; i++)
    for (int l = 0; l < 4; l++)
      assert_int_equal(kept(4, l, at[i].prompt, at[i].spec), at[i].kept[l]);
  assert_int_equal(kept(1, 0, 100, at[0].spec), 12);
  /* 96 (1860 - 59 l) div 1860 */
  static const char spec[] =
      "pyramidkv:budget=98:window=2:schedule=ratio:beta=60";
  assert_int_equal(kept(32, 1, 200, spec), 92 + 2);
  assert_int_equal(kept(32, 31, 200, spec), 1 + 2);
}

/* The line as printed: 40 27 14 1 of a mean of 20, where the authors' code has
 * 39 27 15 3; of 10 it is 20, 13.5, 7, .5, and halves are rounded up. */
TEST(printed) {
  static const struct {
    const char *spec;
    int prompt, kept[4];
  } at[] = {
      {"pyramidkv:budget=22:window=2:schedule=printed", 100, {42, 29, 16, 3}},
      {"pyramidkv:budget=22:window=2", 100, {41, 29, 17, 5}},
      {"pyramidkv:budget=12:window=2:schedule=printed", 100, {22, 16, 9, 3}},
      {"pyramidkv:budget=12:window=2:schedule=printed", 20, {20, 16, 9, 3}},
      {"pyramidkv:budget=12:window=2:schedule=printed:beta=1",
       100,
       {22, 19, 15, 12}}};
  for (size_t i = 0; i < sizeof at / sizeof *at; i++)
    for (int l = 0; l < 4; l++)
      assert_int_equal(kept(4, l, at[i].prompt, at[i].spec), at[i].kept[l]);
  assert_int_equal(kept(1, 0, 100, at[0].spec), 22);
}

/* Decoding: as snapkv does at the layer's budget, which stays the prompt's. */
TEST(again) {
  static const char *const more[] = {"grow=no:every=5", "grow=twice:voters=1",
                                     "grow=past_more:voters=1",
                                     "grow=twice_past"};
  static const int at[4] = {22, 16, 10, 4};
  rig_case c = RIG_SHAPE(2, 1, 8, 4, 90, 30, .n_layers = 4);
  char spec[128];
  rig_data(&c, 14);
  for (c.layer = 0; c.layer < 4; c.layer++)
    for (int i = 0; i < 4; i++) {
      snprintf(spec, sizeof spec, "pyramidkv:budget=12:window=2:%s", more[i]);
      kv_layer_digests p = rig_replay(&c, spec);
      snprintf(spec, sizeof spec, "snapkv:budget=%d:window=2:%s", at[c.layer],
               more[i]);
      kv_layer_digests s = rig_replay(&c, spec);
      assert_true(rig_same(&p.journal, &s.journal));
    }
  /* shorter than C: each layer grows to it, and comes back to it */
  c.prompt_len = 10;
  c.layer = 3;
  rig *r = rig_open(&c, "pyramidkv:budget=12:window=2:grow=no:every=5");
  for (int step = 10; step <= 30; step += 5) {
    rig_to(r, step);
    assert_int_equal(rig_lane(r, 0)->n, step < 12 ? step : 12);
  }
  rig_close(r);
  rig_data_free(&c);
}

/* C = 12, w = 2, layer 1 of 4. */
static const rig_laws laws = {
    RIG_SHAPE(4, 2, 8, 8, 70, 50, .n_layers = 4, .layer = 1),
    {{"pyramidkv:budget=12:window=2", .grown = 15, .prompt_len = 21},
     {"pyramidkv:budget=12:window=2", .grown = 16, .prompt_len = 45},
     {"pyramidkv:budget=12:window=2", .grown = 16, .prompt_len = 69},
     {"pyramidkv:budget=50", .dense = true},
     {"pyramidkv:budget=12:window=2", .same = "snapkv:budget=16:window=2"},
     {"pyramidkv:budget=12:window=2:group=max:pooling=avg",
      .same = "snapkv:budget=4:window=2:group=max:pooling=avg", .layer = 3},
     /* nothing to share */
     {"pyramidkv:budget=2:window=2", .same = "snapkv:budget=2:window=2",
      .layer = 3},
     {"pyramidkv:budget=4:window=5", KV_REFUSED, .says = {"window=5", "4"}},
     {"pyramidkv:budget=8:schedule=ratio:exact_total=yes", KV_REFUSED,
      .says = {"exact_total", "ratio"}},
     {"pyramidkv:budget=8:schedule=printed:exact_total=yes", KV_REFUSED,
      .says = {"exact_total", "printed"}},
     {"pyramidkv:budget=12:window=2:schedule=printed",
      .same = "snapkv:budget=16:window=2"},
     {"pyramidkv:budget=8:every=9", KV_REFUSED,
      .says = {"every=9", "grow=yes"}}}};

TEST(opening) {
  rig_case c = RIG_SHAPE(4, 2, 8, 8, 70, 50, .n_layers = 4, .layer = 3);
  kv_needs n = rig_needs(&c, "pyramidkv:budget=8:grow=no:group=max");
  assert_int_equal(n.meta[0].per, KV_PER_ENTRY);
  assert_int_equal(n.meta[0].bytes, 16); /* two query heads, 8 bytes each */
}

RIG_TESTS(pyramidkv, RIG_CASE(worked), RIG_CASE(long_ones),
          RIG_CASE(exact_total), RIG_CASE(ratio), RIG_CASE(printed),
          RIG_CASE(again), RIG_LAWS(laws), RIG_CASE(opening))

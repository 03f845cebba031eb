/* SPDX-License-Identifier: Apache-2.0
 *
 * HeadKV. Two layers of four query heads on two KV heads, window 2, scores
 * 4 2 1 1 / 0 0 4 4, which add up to 16. budget=10: base 8; beta 1.01 gives
 * each = floor(7.92) = 7, a pool of 7 * 8 = 56 and 1 for every head, so that
 * caps are 15, 8, 4.5 -> 4, 4 / 1, 1, 15, 15; of a KV head their mean, 11.5 ->
 * 12, 4 / 1, 15. beta=2: each 4, pool 32, 4 for every head: 12, 8, 6, 6 /
 * 4, 4, 12, 12; means 10, 6 / 4, 12. Which entries those are is SnapKV's
 * choice at that budget.
 */
#include "ref/methods/headkv.h"
#include "tests/support/rig.h"

#include <stdio.h>
#include <string.h>

typedef struct scores {
  float score[8];
  int layer[2];
  kv_tensor tensor[2];
  kv_asset asset;
} scores;

static void fill(scores *t) {
  static const kv_tensor_ask ask[] = {
      {"scores", KV_T_F32, 2, {KV_DIM_LAYERS, KV_DIM_HEADS}, false, false},
      {.name = NULL}};
  t->layer[0] = 0, t->layer[1] = 1;
  t->tensor[0] = (kv_tensor){t->score, 8, {2, 4}};
  t->tensor[1] = t->tensor[0];
  t->asset = (kv_asset){.path = "scores.safetensors",
                        .ask = ask,
                        .asked = 1,
                        .layers = 2,
                        .layer = t->layer,
                        .tensor = t->tensor,
                        .bytes = sizeof t->score};
}

static rig_case two_layers(int prompt_len) {
  rig_case c = RIG_SHAPE(4, 2, 8, 4, prompt_len + 6, prompt_len, .n_layers = 2);
  rig_data(&c, 21);
  return c;
}

/* Lane by lane, what SnapKV keeps with that many before the window. */
static void same_as_snapkv(rig_case *c, const char *spec, const char *more,
                           const int *past) {
  rig *r = rig_open(c, spec);
  rig_to(r, c->n_tokens);
  for (int l = 0; l < rig_lanes(r); l++) {
    char other[96];
    uint32_t a[64], b[64];
    snprintf(other, sizeof other, "snapkv:budget=%d:window=2%s", past[l] + 2,
             more);
    rig_case alone = *c;
    alone.asset = NULL;
    rig *s = rig_open(&alone, other);
    rig_to(s, c->n_tokens);
    int n = rig_ids(r, l, a), prompt = c->prompt_len;
    assert_int_equal(n, (past[l] + 2 < prompt ? past[l] + 2 : prompt) + 6);
    assert_int_equal(rig_ids(s, l, b), n);
    assert_memory_equal(a, b, (size_t)n * sizeof *a);
    rig_close(s);
  }
  rig_close(r);
}

TEST(worked) {
  static const int mean[2][2] = {{12, 4}, {1, 15}};
  static const int two[2][2] = {{10, 6}, {4, 12}};
  static const int each[2][4] = {{15, 8, 4, 4}, {1, 1, 15, 15}};
  scores t = {.score = {4, 2, 1, 1, 0, 0, 4, 4}};
  rig_case c = two_layers(30);
  fill(&t);
  c.asset = &t.asset;
  for (c.layer = 0; c.layer < 2; c.layer++) {
    same_as_snapkv(&c, "headkv:budget=10:window=2:beta=1.01", "",
                   mean[c.layer]);
    same_as_snapkv(&c, "headkv:budget=10:window=2:beta=2", "", two[c.layer]);
    same_as_snapkv(&c, "headkv:budget=10:window=2:beta=1.01:group=query_head",
                   ":group=query_head", each[c.layer]);
  }
  rig_data_free(&c);
}

/* KVCache-Factory's numbers: C = 128 before the window, beta 1.01. */
TEST(published) {
  params o = {.sum = 4, .pool = 126.0f * 1024, .least = 2, .named = 1};
  assert_int_equal(kv_headkv_cap(&o, 4.0f / 1024), 128);
  assert_int_equal(kv_headkv_cap(&o, 0), 2);
  assert_int_equal(kv_headkv_cap(&o, 4.0f / 512), 254);
  o.pool = 0x1p60f;
  assert_int_equal(kv_headkv_cap(&o, 4), 1 << 30);
}

/* A prompt below the budget stays whole, one of just the budget does not. */
TEST(short_prompts) {
  static const int all[2] = {9, 9}, some[2] = {12, 4};
  scores t = {.score = {4, 2, 1, 1, 0, 0, 4, 4}};
  fill(&t);
  for (int n = 9; n < 11; n++) {
    rig_case c = two_layers(n);
    c.asset = &t.asset;
    same_as_snapkv(&c, "headkv:budget=10:window=2:beta=1.01", "",
                   n < 10 ? all : some);
    rig_data_free(&c);
  }
}

/* All heads alike, by a table or without one: SnapKV. */
TEST(uniform) {
  scores t = {.score = {3, 3, 3, 3, 3, 3, 3, 3}};
  rig_case c = two_layers(30);
  fill(&t);
  kv_layer_digests s = rig_replay(&c, "snapkv:budget=10:window=2");
  for (int i = 0; i < 2; i++) {
    kv_layer_digests h = rig_replay(&c, "headkv:budget=10:window=2:beta=1.01");
    assert_true(rig_same(&h.journal, &s.journal));
    assert_true(rig_same(&h.output, &s.output));
    c.asset = &t.asset;
  }
  rig_data_free(&c);
}

/* grow=no: after `every` steps every lane is at its cap and the last two. */
TEST(compresses_again) {
  static const int held[2][7] = {{14, 15, 16, 14, 15, 16, 14},
                                 {6, 7, 8, 6, 7, 8, 6}};
  scores t = {.score = {4, 2, 1, 1, 0, 0, 4, 4}};
  rig_case c = two_layers(30);
  fill(&t);
  c.asset = &t.asset;
  rig *r = rig_open(&c, "headkv:budget=10:window=2:beta=1.01:grow=no:every=3");
  for (int i = 0; i < 7; i++) {
    rig_to(r, 30 + i);
    for (int l = 0; l < 2; l++) assert_int_equal(rig_lane(r, l)->n, held[l][i]);
  }
  rig_close(r);
  rig_data_free(&c);
}

TEST(laws) {
  scores t = {.score = {4, 2, 1, 1, 0, 0, 4, 4}};
  rig_case c = two_layers(30);
  fill(&t);
  rig_law(&c, "headkv:budget=10:window=2", rig_grown, &(int){10});
  rig_law_dense(&c, "headkv:budget=30");
  c.asset = &t.asset;
  rig_law(&c, "headkv:budget=10:window=2:beta=1.01", rig_grown, &(int){14});
  rig_law(&c, "headkv:budget=10:window=2:beta=1.01:group=query_head", rig_grown,
          &(int){17});
  rig_law(&c, "headkv:budget=10:window=2:beta=2:grow=twice:sinks=1",
          rig_at_most, &(int){23});
  rig_law_dense(&c, "headkv:budget=31");
  rig_data_free(&c);
}

TEST(opening) {
  scores t = {.score = {4, 2, 1, 1, 0, -1, 4, 4}};
  rig_case c = two_layers(30);
  fill(&t);
  c.asset = &t.asset;
  rig_law_refused(&c, "headkv:budget=10", KV_REFUSED, "query head 1 of layer 1",
                  "-1");
  memset(t.score, 0, sizeof t.score);
  rig_law_refused(&c, "headkv:budget=10", KV_REFUSED, "scores.safetensors",
                  "add up to 0");
  rig_data_free(&c);
}

RIG_TESTS(headkv, RIG_CASE(worked), RIG_CASE(published),
          RIG_CASE(short_prompts), RIG_CASE(uniform),
          RIG_CASE(compresses_again), RIG_CASE(laws), RIG_CASE(opening))

/* SPDX-License-Identifier: Apache-2.0
 *
 * Random: the hash is splitmix64's step (its first outputs for seed 0 are
 * published), the selection is the one that a plain count of larger hashes
 * gives, and depends on the step alone, not on when decoding began.
 */
#include "ref/parts/parts.h"
#include "tests/support/rig.h"

static const uint64_t golden = 0x9e3779b97f4a7c15u;

TEST(known_hash) {
  assert_true(kv_mix(0) == 0xe220a8397b1dcdafu);
  assert_true(kv_mix(golden) == 0x6e789e6aa1b965f4u);
  assert_true(kv_mix(golden * 2) == 0x06c45d188009454fu);
}

/* Equal hashes: the lower index. */
TEST(ties) {
  const uint64_t hash[6] = {5, 9, 5, 1, 5, UINT64_MAX};
  bool keep[6];
  kv_top_hash(hash, 6, 3, keep);
  for (int i = 0; i < 6; i++) assert_int_equal(keep[i], i == 0 || i % 4 == 1);
  kv_top_hash(hash, 6, 0, keep);
  for (int i = 0; i < 6; i++) assert_false(keep[i]);
  kv_top_hash(hash, 6, 6, keep);
  for (int i = 0; i < 6; i++) assert_true(keep[i]);
}

typedef struct setting {
  int budget, recent, seed, layer;
} setting;

static uint64_t hash_of(const setting *x, int lane, int t) {
  uint64_t u = kv_mix((uint64_t)x->seed + (uint64_t)x->layer);
  return kv_mix(kv_mix(u + (uint64_t)lane) + (uint64_t)t);
}

static void expect(const setting *x, int lane, int step, int *ids) {
  int n = 0, past = step - x->recent;
  for (int t = 0; t < step; t++) {
    int larger = 0;
    for (int o = 0; o < past; o++)
      larger += hash_of(x, lane, o) > hash_of(x, lane, t);
    if (t >= past || larger < x->budget - x->recent) ids[n++] = t;
  }
  ids[n] = -1;
}

static void by_count(const rig_case *c, const setting *x, const char *spec) {
  int ids[64];
  rig *r = rig_open(c, spec);
  for (int step = c->prompt_len; step <= c->n_tokens; step++) {
    rig_to(r, step);
    for (int l = 0; l < c->kv_heads; l++) {
      expect(x, l, step, ids);
      rig_holds(r, l, ids);
    }
  }
  rig_close(r);
}

TEST(selection) {
  rig_case c = RIG_SHAPE(2, 2, 4, 4, 48, 0, .n_layers = 7);
  rig_data(&c, 5);
  for (c.prompt_len = 16; c.prompt_len <= 32; c.prompt_len += 16) {
    by_count(&c, &(setting){12, 6, 1, 0}, "random:budget=12");
    by_count(&c, &(setting){1, 1, 1, 0}, "random:budget=1");
    by_count(&c, &(setting){9, 0, 7, 0}, "random:budget=9:recent=0:seed=7");
    c.layer = 5;
    by_count(&c, &(setting){12, 6, 1, 5}, "random:budget=12");
    c.layer = 0;
  }
  rig_data_free(&c);
}

/* What the prompt's last step keeps, and all that come. */
TEST(prefill) {
  rig_case c = RIG_SHAPE(2, 2, 4, 4, 30, 24);
  int ids[64], n = 9;
  rig_data(&c, 5);
  rig *r = rig_open(&c, "random:budget=9:recent=0:variant=prefill");
  rig_to(r, 30);
  for (int l = 0; l < 2; l++) {
    expect(&(setting){9, 0, 1, 0}, l, 24, ids);
    for (int t = 24; t <= 30; t++) ids[n + t - 24] = t < 30 ? t : -1;
    rig_holds(r, l, ids);
  }
  rig_close(r);
  rig_data_free(&c);
}

static const rig_laws laws = {
    RIG_SHAPE(4, 2, 8, 8, 30, 15),
    {{"random:budget=12", .at_most = 12},
     {"random:budget=12:variant=prefill", .grown = 12},
     {"random:budget=15:variant=prefill", .dense = true},
     {"random:budget=30", .dense = true},
     {"random:budget=12:seed=1", .unlike = "random:budget=12:seed=2"},
     {"random:budget=4:recent=5", KV_REFUSED, .says = {"recent=5", "4"}}}};

TEST(looks_at_nothing) {
  rig_case c = RIG_SHAPE(4, 2, 8, 8, 30, 15);
  kv_needs needs = rig_needs(&c, "random:budget=12");
  assert_int_equal(needs.prompt_rows, 0);
}

RIG_TESTS(random, RIG_CASE(known_hash), RIG_CASE(ties), RIG_CASE(selection),
          RIG_CASE(prefill), RIG_LAWS(laws), RIG_CASE(looks_at_nothing))

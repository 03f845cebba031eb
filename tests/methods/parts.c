/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of methods at places that no replay reaches: equal hashes, equal
 * quotients of scores, and how near a key comes that was turned back and forth;
 * and ZSMerge's theorem.
 */
#include "ref/parts/parts.h"
#include "ref/ground/rope.h"
#include "tests/support/rig.h"
#include <math.h>
#include <string.h>

/* splitmix64's first outputs for seed 0, as published. */
TEST(known_hash) {
  const uint64_t golden = 0x9e3779b97f4a7c15u;
  assert_true(kv_mix(0) == 0xe220a8397b1dcdafu);
  assert_true(kv_mix(golden) == 0x6e789e6aa1b965f4u);
  assert_true(kv_mix(golden * 2) == 0x06c45d188009454fu);
}

/* Equal hashes: the lower index. */
TEST(equal_hashes) {
  const uint64_t hash[6] = {5, 9, 5, 1, 5, UINT64_MAX};
  bool keep[6];
  kv_top_hash(hash, 6, 3, keep);
  for (int i = 0; i < 6; i++) assert_int_equal(keep[i], i == 0 || i % 4 == 1);
  kv_top_hash(hash, 6, 0, keep);
  for (int i = 0; i < 6; i++) assert_false(keep[i]);
  kv_top_hash(hash, 6, 6, keep);
  for (int i = 0; i < 6; i++) assert_true(keep[i]);
}

/* h2o's scale=seen: the quotient is rounded once, and equal ones go by the
 * lower entry: 3/3 and 1/1 tie, 1/3 in binary32 is 0x1.555556p-2. */
TEST(equal_quotients) {
  const uint32_t id[4] = {0, 1, 2, 7};
  float score[4] = {3, 1, 1, 0.5f};
  bool keep[4];
  kv_scores_seen(3, id, 3, score);
  kv_scores_seen(8, id + 3, 1, score + 3);
  assert_true(score[0] == 1 && score[1] == 0.5f && score[2] == 1);
  assert_true(score[3] == 0.5f);
  kv_top(score, 4, 3, keep);
  for (int i = 0; i < 4; i++) assert_int_equal(keep[i], i < 3);
  score[0] = 1;
  kv_scores_seen(3, id, 1, score);
  assert_true(score[0] == 0x1.555556p-2f);
}

/* Turned back and forth a key is within 2^-21 of its largest pair. */
TEST(turning_is_close) {
  enum { D = 64, TOKENS = 4096 };
  float inv_freq[D / 2], key[D], was[D];
  kv_rope rope = {.inv_freq = inv_freq};
  kv_turns turns;
  for (int interleaved = 0; interleaved < 2; interleaved++) {
    rope.interleaved = interleaved;
    for (int i = 0; i < D / 2; i++)
      inv_freq[i] = (float)pow(10000, -2.0 * i / D);
    assert_int_equal(kv_turns_open(&rope, TOKENS, D, 0, &turns, NULL), KV_OK);
    for (uint32_t t = 0; t < TOKENS; t++) {
      for (int x = 0; x < D; x++)
        key[x] = was[x] = (float)sin((double)(t * 64 + (uint32_t)x) * 0.37) * 8;
      kv_turn_back(&turns, t, key);
      kv_turn_forth(&turns, t, key);
      if (t == 0) assert_memory_equal(key, was, sizeof was);
      for (int x = 0; x < D; x++)
        assert_true(fabs((double)(key[x] - was[x])) < 12 * 0x1p-21);
    }
    kv_turns_close(&turns);
  }
}

/* ZSMerge's Theorem 3.1: a merged key is a mean, so that no token that is there
 * by itself loses probability. An output is the tokens' probabilities. */
TEST(merging_takes_nothing) {
  rig_case c = RIG_SHAPE(1, 1, 16, 48, 48, 24);
  rig_data(&c, 16);
  for (int i = 0; i < 48 * 48; i++) ((float *)(uintptr_t)c.v)[i] = i % 49 == 0;
  rig *r = rig_open(&c, "zsmerge:budget=14:residual=3:proximity=4");
  rig *dense = rig_open(&c, "dense");
  for (int step = 25; step <= 48; step++) {
    rig_to(r, step), rig_to(dense, step);
    const kv_lane *l = rig_lane(r, 0);
    const float *p = rig_out(r, 0), *was = rig_out(dense, 0);
    for (int i = 0; i < l->n; i++)
      assert_true(l->weight[i] > 1 || p[l->id[i]] > was[l->id[i]] - 1e-6f);
  }
  rig_close(r), rig_close(dense);
  rig_data_free(&c);
}

RIG_TESTS(parts, RIG_CASE(known_hash), RIG_CASE(equal_hashes),
          RIG_CASE(equal_quotients), RIG_CASE(turning_is_close),
          RIG_CASE(merging_takes_nothing))

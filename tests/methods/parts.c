/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of methods at places that no replay reaches: equal hashes, equal
 * quotients of scores, how near a key comes that was turned back and forth, and
 * strided's stride at many lengths. And a law that needs the outputs of two
 * replays: ZSMerge takes no probability from a token that is there by itself.
 */
#include "ref/parts/parts.h"
#include "ref/ground/rope.h"
#include "ref/methods/strided.h"
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

static int strided_count(const params *o, int n, int s) {
  int in = 0;
  for (int i = 0; i < n; i++) in += strided_has(o, n, s, i);
  return in;
}

/* The stride is the least that leaves no more than the budget. */
TEST(least_stride) {
  for (int budget = 1; budget <= 12; budget++)
    for (int recent = 1; recent <= budget; recent++)
      for (int n = budget + 1; n <= 90; n++) {
        params o = {budget, recent};
        int s = stride_of(&o, n);
        assert_true(strided_count(&o, n, s) <= budget);
        for (int less = 1; less < s; less++)
          assert_true(strided_count(&o, n, less) > budget);
      }
}

enum { T = 48, HEADS = 4, LANES = 2 };

/* Values are unit vectors, so that an output is the tokens' probabilities.
 * Returns how many entries are merged. */
static int none_loses(const rig *r, const rig *dense) {
  int merged = 0;
  for (int h = 0; h < HEADS; h++) {
    const kv_lane *l = rig_lane(r, h / (HEADS / LANES));
    for (int i = 0; i < l->n; i++) {
      uint32_t t = l->id[i];
      merged += l->weight[i] > 1;
      if (l->weight[i] == 1 && rig_out(r, h)[t] < rig_out(dense, h)[t] - 1e-6f)
        fail_msg("step %d, head %d, token %u: probability %.7f, of dense %.7f",
                 rig_step(r), h, t, (double)rig_out(r, h)[t],
                 (double)rig_out(dense, h)[t]);
    }
  }
  return merged;
}

/* The paper's Theorem 3.1: a merged key is a mean, so that the log-sum-exp is
 * never above that of dense. */
TEST(merging_takes_nothing) {
  static const char *const spec[] = {
      "zsmerge:budget=14:residual=3:proximity=4",
      "zsmerge:budget=14:residual=3:proximity=4:metric=l2",
      "zsmerge:budget=14:residual=3:proximity=4:merge_bias=1:decay=1",
      "zsmerge:budget=14:residual=3:proximity=4:variant=code",
      "zsmerge:budget=14:residual=3:proximity=4:variant=code:metric=l2"};
  static float unit[LANES * T * T];
  rig_case c = RIG_SHAPE(HEADS, LANES, 16, T, T, 24);
  rig_data(&c, 16);
  rig_case of = c;
  of.v = unit;
  for (int i = 0; i < LANES * T; i++) unit[i * T + i % T] = 1;
  for (size_t i = 0; i < sizeof spec / sizeof *spec; i++) {
    rig *r = rig_open(&of, spec[i]), *dense = rig_open(&of, "dense");
    for (int step = c.prompt_len + 1; step <= T; step++) {
      rig_to(r, step);
      rig_to(dense, step);
      assert_true(none_loses(r, dense) > 0);
    }
    rig_close(dense);
    rig_close(r);
  }
  rig_data_free(&c);
}

RIG_TESTS(parts, RIG_CASE(known_hash), RIG_CASE(equal_hashes),
          RIG_CASE(equal_quotients), RIG_CASE(turning_is_close),
          RIG_CASE(least_stride), RIG_CASE(merging_takes_nothing))

/* SPDX-License-Identifier: Apache-2.0
 *
 * StreamingLLM: sinks and the last tokens. The worked case is eight tokens
 * with two sinks and three recent ones: the last step attends tokens
 * 0 1 4 5 6 7 at places 0..5, so query and keys 4..7 turn back by two.
 */
#include "tests/support/rig.h"
#include <math.h>

static const float one = 1; /* one radian a position: turns are visible */

static double turned(const float *x, int by, int part) {
  double c = cos(by), s = sin(by), a = (double)x[0], b = (double)x[1];
  return part ? b * c + a * s : a * c - b * s;
}

/* Probabilities over tokens 0 1 from..7 of row 7, turned or not. */
static void expected(int from, int back, double *p) {
  double sum = 0;
  for (int j = 0; j < 8; j++) {
    p[j] = 0;
    if (j >= 2 && j < from) continue;
    int by = j >= from ? back : 0;
    double s = 0;
    for (int x = 0; x < 2; x++)
      s += turned(rig_query8 + 14, back, x) * turned(rig_key8 + 2 * j, by, x);
    sum += p[j] = exp(s / sqrt(2));
  }
  for (int j = 0; j < 8; j++) p[j] /= sum;
}

TEST(worked) {
  const char *spec[] = {"streamingllm:budget=5:sink=2",
                        "streamingllm:budget=5:recent=3:positions=original"};
  for (int i = 0; i < 2; i++) {
    rig_case c = rig_eight(6);
    double p[8];
    c.inv_freq = &one;
    rig *r = rig_open(&c, spec[i]);
    rig_holds(r, 0, (int[]){0, 1, 3, 4, 5, -1});
    rig_to(r, 7);
    rig_holds(r, 0, (int[]){0, 1, 4, 5, 6, -1});
    rig_to(r, 8);
    rig_saw(r, 0, (int[]){0, 1, 4, 5, 6, 7, -1});
    rig_holds(r, 0, (int[]){0, 1, 5, 6, 7, -1});
    expected(4, i == 0 ? -2 : 0, p);
    rig_shares(r, 0, p);
    rig_close(r);
  }
}

/* Once: tokens 0 1 3 4 5 of six stay; the last step is the seventh place's,
 * and tokens 3..7 turn back by one with the query. */
TEST(prefill) {
  const char *spec[] = {
      "streamingllm:budget=5:sink=2:variant=prefill",
      "streamingllm:budget=5:sink=2:variant=prefill:positions=original"};
  for (int i = 0; i < 2; i++) {
    rig_case c = rig_eight(6);
    double p[8];
    c.inv_freq = &one;
    rig *r = rig_open(&c, spec[i]);
    rig_holds(r, 0, (int[]){0, 1, 3, 4, 5, -1});
    rig_to(r, 8);
    rig_saw(r, 0, (int[]){0, 1, 3, 4, 5, 6, 7, -1});
    rig_holds(r, 0, (int[]){0, 1, 3, 4, 5, 6, 7, -1});
    expected(3, i == 0 ? -1 : 0, p);
    rig_shares(r, 0, p);
    rig_close(r);
  }
}

TEST(sizes) {
  rig_case c = rig_eight(8);
  c.inv_freq = &one;
  static const struct {
    const char *spec;
    int ids[8];
  } at[] = {{"streamingllm:budget=1", {7, -1}},
            {"streamingllm:budget=2", {0, 7, -1}},
            {"streamingllm:budget=6", {0, 1, 2, 3, 6, 7, -1}},
            {"streamingllm:budget=6:recent=5", {0, 3, 4, 5, 6, 7, -1}},
            {"streamingllm:budget=3:sink=3", {0, 1, 2, -1}},
            {"streamingllm:budget=3:sink=0", {5, 6, 7, -1}},
            {"streamingllm:budget=3:sink=1:recent=2", {0, 6, 7, -1}}};
  for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
    rig_keeps(&c, at[i].spec, 0, at[i].ids);
  }
}

static const float turns[4] = {1, 0.5f, 0.25f, 0.125f};

/* Dense: nothing dropped, no turn. */
static const rig_laws laws = {
    RIG_SHAPE(4, 2, 8, 8, 30, 15, .inv_freq = turns),
    {{"streamingllm:budget=9", .at_most = 9},
     {"streamingllm:budget=9:positions=original", .at_most = 9},
     {"streamingllm:budget=9:variant=prefill", .grown = 9},
     {"streamingllm:budget=15:variant=prefill", .dense = true},
     {"streamingllm:budget=30", .dense = true},
     {"streamingllm:budget=9:sink=0:positions=original",
      .same = "window:budget=9"},
     {"streamingllm:budget=4:sink=5", KV_REFUSED, .says = {"sink=5", "4"}},
     {"streamingllm:budget=4:recent=5", KV_REFUSED, .says = {"recent=5", "4"}},
     {"streamingllm:budget=9:sink=2:recent=3", KV_REFUSED,
      .says = {"recent=3", "9"}}}};

/* Positions move no decision, and what is attended. */
TEST(positions) {
  rig_case c = laws.shape;
  rig_data(&c, 7);
  kv_layer_digests a = rig_replay(&c, "streamingllm:budget=9");
  kv_layer_digests b =
      rig_replay(&c, "streamingllm:budget=9:positions=original");
  assert_true(rig_same(&a.journal, &b.journal));
  assert_false(rig_same(&a.output, &b.output));
  rig_data_free(&c);
}

TEST(opening) {
  rig_case c = rig_eight(4);
  kv_needs needs = rig_needs(&c, "streamingllm:budget=4");
  assert_true(needs.reindex);
  needs = rig_needs(&c, "streamingllm:budget=4:positions=original");
  assert_false(needs.reindex);
}

RIG_TESTS(streamingllm, RIG_CASE(worked), RIG_CASE(prefill), RIG_CASE(sizes),
          RIG_LAWS(laws), RIG_CASE(positions), RIG_CASE(opening))

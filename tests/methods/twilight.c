/* SPDX-License-Identifier: Apache-2.0
 *
 * Twilight. The worked case is the query (2, 0) over the eight keys, whose
 * probabilities are .129572 .031501 .532964 .007658 .129572 .031501 .129572
 * .007658: .85 of them are 0, 2, 4 and 6, .95 those and 1, which is level with
 * 5. Then: copies are within half a step of their keys, and charged; what is
 * attended is, in binary64 over these copies, the least prefix of the
 * candidates that reaches p; behind Quest only what Quest chose.
 */
#include "ref/ground/arith.h"
#include "tests/support/rig.h"
#include <math.h>
#include <string.h>

TEST(worked) {
  static const struct {
    const char *spec;
    int seen[9];
  } at[] = {{"twilight:skip=0", {0, 2, 4, 6, -1}},
            {"twilight:skip=0:p=0.95", {0, 1, 2, 4, 6, -1}},
            {"twilight:skip=0:p=0", {2, -1}},
            {"twilight:skip=0:p=1", {0, 1, 2, 3, 4, 5, 6, 7, -1}},
            {"twilight", {0, 1, 2, 3, 4, 5, 6, 7, -1}}};
  rig_case c = rig_eight(7);
  for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
    rig *r = rig_open(&c, at[i].spec);
    rig_to(r, 8);
    rig_saw(r, 0, at[i].seen);
    rig_close(r);
  }
}

/* --- copies --------------------------------------------------------------- */

enum { T = 70, P = 37, HEADS = 4, KV_HEADS = 2, D = 18 };

static rig_case any(void) {
  rig_case c =
      RIG_SHAPE(HEADS, KV_HEADS, D, 4, T, P, .n_layers = 4, .layer = 2);
  rig_data(&c, 41);
  return c;
}

/* Element x of token t's copy, in the lane's own state. */
static double copied(const kv_lane *l, size_t state, int bits, int t, int x) {
  int plane = (D * bits + 7) / 8, stride = (4 + plane + 1) / 2 * 2;
  const unsigned char *at =
      (const unsigned char *)l->own + state + (size_t)t * (size_t)stride;
  uint16_t half[2];
  memcpy(half, at, 4);
  int code = at[4 + x % plane] >> x / plane * bits & ((1 << bits) - 1);
  return (double)kv_from_f16(half[0]) * code + (double)kv_from_f16(half[1]);
}

static void near_their_keys(const rig *r, int bits) {
  const kv_lane *l = rig_lane(r, 1);
  float key[D];
  for (int t = 0; t < rig_step(r); t++) {
    float least = INFINITY, most = -INFINITY;
    kv_lane_key(l, t, key);
    for (int x = 0; x < D; x++) {
      least = fminf(least, key[x]);
      most = fmaxf(most, key[x]);
    }
    double step = ((double)most - (double)least) / ((1 << bits) - 1);
    for (int x = 0; x < D; x++)
      assert_true(fabs(copied(l, 0, bits, t, x) - (double)key[x]) <
                  step * .51 + 2e-3);
  }
}

TEST(copies) {
  rig_needs_own();
  rig_case c = any();
  for (int bits = 2; bits <= 4; bits += 2) {
    rig *r = rig_open(&c, bits == 2 ? "twilight:bits=2" : "twilight");
    kv_bytes held = {0};
    rig_to(r, 60);
    near_their_keys(r, bits);
    kv_lane_bytes(rig_lane(r, 0), &held);
    int each = 4 + (D * bits + 7) / 8;
    assert_int_equal(held.side, 60 * each);
    assert_int_equal(kv_lane_scanned(rig_lane(r, 0)), 60 * each);
    rig_close(r);
  }
  rig_data_free(&c);
}

/* --- the choice ----------------------------------------------------------- */

/* The logit of token t's copy. */
static double estimate(const rig_case *c, const rig *r, size_t state, int h,
                       int t) {
  const float *q = c->q + ((size_t)h * T + (size_t)(rig_step(r) - 1)) * D;
  const kv_lane *l = rig_lane(r, h / (HEADS / KV_HEADS));
  double sum = 0;
  for (int x = 0; x < D; x++) sum += (double)q[x] * copied(l, state, 4, t, x);
  return sum / sqrt(D);
}

/* Of the candidates, whose mass is `all`: what is in reaches p, would not
 * without its least, and none that is out is above it. */
static void least_prefix(const rig_case *c, const rig *r, size_t state, int h,
                         const bool *candidate, double p) {
  double all = 0, held = 0, least = INFINITY, out = -INFINITY;
  bool in[T] = {false};
  uint32_t id[T];
  for (int i = rig_seen(r, h, id) - 1; i >= 0; i--) {
    assert_true(candidate[id[i]]);
    in[id[i]] = true;
  }
  for (int t = 0; t < rig_step(r); t++) {
    if (!candidate[t]) continue;
    double s = estimate(c, r, state, h, t);
    all += exp(s);
    if (in[t]) held += exp(s);
    if (in[t]) least = fmin(least, s);
    if (!in[t]) out = fmax(out, s);
  }
  assert_true(held >= p * all * (1 - 1e-5));
  assert_true(held - exp(least) <= p * all * (1 + 1e-5));
  assert_true(least >= out - 1e-5);
}

TEST(everything) {
  rig_needs_own();
  rig_case c = any();
  bool all[T];
  memset(all, true, sizeof all);
  rig *r = rig_open(&c, "twilight:p=0.6");
  for (int step = P + 1; step <= T; step++) {
    rig_to(r, step);
    for (int h = 0; h < HEADS; h++) least_prefix(&c, r, 0, h, all, .6);
  }
  rig_close(r);
  rig_data_free(&c);
}

/* Behind Quest, whose boxes stand before the copies; both are looked at, the
 * copies of as many tokens as Quest lets through. */
TEST(behind_quest) {
  rig_needs_own();
  static const char base[] = "quest:budget=13:page=4:rule=twilight";
  static const char both[] =
      "quest:budget=13:page=4:rule=twilight+twilight:p=0.6";
  rig_case c = any();
  kv_bytes held = {0};
  size_t boxes = (2 * 32 * D * sizeof(float) + 63) / 64 * 64;
  rig *quest = rig_open(&c, base), *r = rig_open(&c, both);
  for (int step = P + 1; step <= T; step++) {
    rig_to(quest, step);
    rig_to(r, step);
    for (int h = 0; h < HEADS; h++) {
      bool candidate[T] = {false};
      uint32_t id[T];
      for (int i = rig_seen(quest, h, id) - 1; i >= 0; i--)
        candidate[id[i]] = true;
      least_prefix(&c, r, boxes, h, candidate, .6);
    }
  }
  kv_lane_bytes(rig_lane(r, 0), &held);
  assert_int_equal(held.side, 18 * 2 * D * 4 + T * (4 + 9));
  assert_int_equal(kv_lane_scanned(rig_lane(r, 0)),
                   18 * 2 * D * 4 + 2 * 16 * (4 + 9));
  rig_close(r);
  rig_close(quest);
  rig_data_free(&c);
}

/* Copies lie by token: what is dropped before does not move them. */
TEST(behind_a_dropper) {
  rig_needs_own();
  rig_case c = any();
  rig *base = rig_open(&c, "window:budget=20"),
      *r = rig_open(&c, "window:budget=20+twilight:p=0.6");
  for (int step = P + 1; step <= T; step++) {
    rig_to(base, step);
    rig_to(r, step);
    for (int h = 0; h < HEADS; h++) {
      bool candidate[T] = {false};
      uint32_t id[T];
      for (int i = rig_seen(base, h, id) - 1; i >= 0; i--)
        candidate[id[i]] = true;
      least_prefix(&c, r, 0, h, candidate, .6);
    }
  }
  rig_close(r);
  rig_close(base);
  rig_data_free(&c);
}

/* --- laws ----------------------------------------------------------------- */

static const rig_laws laws = {
    RIG_SHAPE(HEADS, KV_HEADS, D, 4, T, P, .n_layers = 4, .layer = 2),
    {{"twilight", .at_most = T},
     {"quest:budget=9:page=4+twilight:bits=2", .at_most = T},
     {"twilight:p=1", .dense = true},
     {"quest:budget=70+twilight:p=1", .dense = true},
     {"quest:budget=9:skip=3+twilight:skip=3", .dense = true},
     {"zsmerge:budget=30+twilight", KV_REFUSED, .says = {"zsmerge", "merges"}},
     {"streamingllm:budget=30+twilight", KV_REFUSED,
      .says = {"streamingllm", "positions"}},
     {"kivi+twilight", KV_REFUSED, .says = {"kivi", "codes"}},
     {"twilight", .at_most = T, .half = true},
     {"twilight:p=1", .dense = true, .half = true}}};

RIG_TESTS(twilight, RIG_CASE(worked), RIG_CASE(copies), RIG_CASE(everything),
          RIG_CASE(behind_quest), RIG_CASE(behind_a_dropper), RIG_LAWS(laws))

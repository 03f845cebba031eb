/* SPDX-License-Identifier: Apache-2.0
 *
 * ZSMerge. The worked case is the paper's Figure 2 in numbers (2 residual, 4
 * context, 3 proximity entries, tokens 12 to 17, decay .98, bias .6; two-digit
 * data in the plane), worked out in binary64 for both variants, token numbers
 * from 0. Laws: weights add up to the tokens seen; entries within the budget
 * and at most `residual` of them merged; a merged row is the mean of its
 * members; merging never raises the log-sum-exp, so no surviving token loses
 * probability (the paper's Theorem 3.1); without merged entries there are no
 * weights; a budget that holds everything gives dense.
 */
#include "ref/backend/attend.h"
#include "ref/ground/arith.h"
#include "ref/parts/parts.h"
#include "tests/support/rig.h"
#include <math.h>
#include <string.h>

/* Hundredths: keys, values, queries. */
static const int16_t data[3][34] = {
    {19, -40, -34, 38,  99,  -79, 96,  94,  -51, -33, -32, 55,
     81, 58,  -95, -98, -13, 44,  17,  -54, -98, 13,  -69, 81,
     10, -11, 93,  12,  62,  -8,  -15, -21, 64,  -73},
    {67,  47,  27,  -79, -39, 83, 22,  -17, -95, 76, -70, -4,
     -18, -57, -67, -79, -45, 63, -53, 18,  21,  75, 29,  -34,
     -97, 3,   -46, 94,  -2,  30, 20,  -6,  8,   -20},
    {96,  -151, -96,  90,  109, -199, 20,  7,   -94,  100, 167, 139,
     -72, -111, -168, 47,  195, 176,  159, -76, -50,  131, 107, -173,
     -68, -126, -186, 129, 198, -45,  18,  70,  -148, -90}};
static float figures[3][34];

static rig_case request(int heads, int kv_heads, int d, int tokens,
                        int prompt) {
  return (rig_case)RIG_SHAPE(heads, kv_heads, d, d == 2 ? 2 : 4, tokens,
                             prompt);
}

static rig_case figure(void) {
  for (int i = 0; i < 3 * 34; i++)
    figures[i / 34][i % 34] = (float)((double)data[i / 34][i % 34] / 100);
  rig_case c = request(1, 1, 2, 17, 12);
  c.q = figures[2];
  c.k = figures[0];
  c.v = figures[1];
  return c;
}

typedef struct moment {
  int ids[10];
  struct {
    uint32_t weight;
    double key[2];
  } merged[2];     /* in lane order */
  double score[4]; /* of tokens 0..3 */
} moment;

static void is_moment(const rig *r, const moment *m) {
  const kv_lane *l = rig_lane(r, 0);
  int merged = 0;
  float key[2];
  rig_holds(r, 0, m->ids);
  for (int i = 0; i < l->n; i++) {
    if (l->id[i] < 4)
      assert_true(fabs((double)l->column[0].f[i] - m->score[l->id[i]]) < 6e-5);
    if (l->weight[i] == 1) continue;
    assert_int_equal(l->weight[i], m->merged[merged].weight);
    kv_lane_key(l, i, key);
    for (int x = 0; x < 2; x++)
      assert_true(fabs((double)key[x] - m->merged[merged].key[x]) < 6e-5);
    merged++;
  }
  assert_int_equal(merged, 2);
}

TEST(paper) {
  static const moment at[6] = {
      {{0, 1, 2, 3, 4, 5, 9, 10, 11, -1},
       {{2, {-.73, -.655}}, {3, {.12, .5233}}},
       {2.1719, 1.7128, 1.9328, 1.8211}},
      {{0, 1, 2, 3, 4, 5, 10, 11, 12, -1},
       {{3, {-.43, -.6167}}, {3, {.12, .5233}}},
       {2.2263, 1.7416, 1.9884, 1.8052}},
      {{0, 1, 2, 3, 4, 5, 11, 12, 13, -1},
       {{4, {-.5675, -.43}}, {3, {.12, .5233}}},
       {2.2109, 1.8260, 1.9558, 1.8050}},
      {{0, 1, 2, 3, 4, 5, 12, 13, 14, -1},
       {{4, {-.5675, -.43}}, {4, {-.0825, .595}}},
       {2.2386, 1.8162, 2.1661, 1.9069}},
      {{0, 1, 2, 3, 4, 5, 13, 14, 15, -1},
       {{5, {-.434, -.366}}, {4, {-.0825, .595}}},
       {2.2565, 1.8660, 2.1800, 2.0028}},
      {{0, 1, 2, 3, 4, 5, 14, 15, 16, -1},
       {{5, {-.434, -.366}}, {5, {.12, .5}}},
       {2.2930, 1.9152, 2.1816, 1.9783}},
  };
  rig_case c = figure();
  rig *r = rig_open(&c, "zsmerge:budget=9:residual=2:proximity=3");
  for (int t = 0; t < 6; t++) {
    rig_to(r, 12 + t);
    is_moment(r, &at[t]);
  }
  rig_close(r);
}

/* Ids, weights and rows of the authors' procedure on the same data. */
TEST(code) {
  static const struct {
    int ids[10];
    uint32_t weight[2];
  } at[6] = {
      {{4, 7, 0, 2, 3, 1, 9, 10, 11, -1}, {3, 2}},
      {{4, 7, 0, 2, 3, 1, 10, 11, 12, -1}, {3, 3}},
      {{4, 7, 0, 2, 3, 1, 11, 12, 13, -1}, {3, 4}},
      {{4, 7, 0, 2, 3, 1, 12, 13, 14, -1}, {4, 4}},
      {{4, 7, 0, 2, 3, 1, 13, 14, 15, -1}, {4, 5}},
      {{4, 7, 0, 2, 3, 1, 14, 15, 16, -1}, {5, 5}},
  };
  rig_case c = figure();
  float key[2];
  rig *r = rig_open(&c, "zsmerge:budget=9:residual=2:proximity=3:variant=code:"
                        "merge_bias=0.6");
  const kv_lane *l = rig_lane(r, 0);
  kv_lane_key(l, 0, key);
  assert_true(fabsf(key[0] + .0067f) < 6e-5f && fabsf(key[1] - .2667f) < 6e-5f);
  kv_lane_key(l, 1, key);
  assert_true(fabsf(key[0] + .54f) < 6e-5f && fabsf(key[1] + .27f) < 6e-5f);
  for (int t = 0; t < 6; t++) {
    rig_to(r, 12 + t);
    rig_holds(r, 0, at[t].ids);
    for (int i = 0; i < l->n; i++)
      assert_int_equal(l->weight[i], i < 2 ? at[t].weight[i] : 1);
  }
  kv_lane_key(l, 0, key);
  assert_true(fabsf(key[0] - .044f) < 6e-5f && fabsf(key[1] - .346f) < 6e-5f);
  kv_lane_key(l, 1, key);
  assert_true(fabsf(key[0] + .358f) < 6e-5f && fabsf(key[1] + .212f) < 6e-5f);
  rig_close(r);
}

/* Which of places 0 and 1 the key is more like: the larger dot product, or the
 * smaller squared distance. */
static int more_like(const float *key, const float two[2][8], bool l2) {
  double like[2] = {0, 0};
  for (int r = 0; r < 2; r++)
    for (int x = 0; x < 8; x++) {
      double a = (double)key[x], b = (double)two[r][x];
      like[r] += l2 ? -(a - b) * (a - b) : a * b;
    }
  return like[1] > like[0];
}

/* One step of the ring: the victim is the least of the others, its place goes
 * to the oldest of the ring, its row to the more similar residual entry. */
static void ring_step(rig *r, int step, bool l2) {
  const kv_lane *l = rig_lane(r, 0);
  uint32_t was[12], weight[2] = {l->weight[0], l->weight[1]};
  float key[9][8], least = INFINITY;
  int victim = 0;
  memcpy(was, l->id, sizeof was);
  for (int i = 0; i < 9; i++) kv_lane_key(l, i, key[i]);
  rig_to(r, step);
  for (int i = 2; i < 9; i++) {
    if (l->id[i] == was[i])
      least = fminf(least, l->column[0].f[i]);
    else
      victim = victim ? 99 : i;
  }
  assert_in_range(victim, 2, 8); /* one place changed */
  assert_int_equal(l->id[victim], was[9]);
  int into = more_like(key[victim], (const float(*)[8])key, l2);
  assert_int_equal(l->weight[into], weight[into] + 1);
  assert_int_equal(l->weight[!into], weight[!into]);
  for (int i = 9; i < 12; i++) assert_int_equal(l->id[i], step - 12 + i);
}

/* In the authors' code a prompt below the budget leaves its first tokens as
 * the residual entries. */
TEST(ring) {
  static const char *const spec[] = {
      "zsmerge:budget=12:residual=2:proximity=4:variant=code",
      "zsmerge:budget=12:residual=2:proximity=4:variant=code:metric=l2"};
  rig_case c = request(2, 1, 8, 60, 5);
  rig_data(&c, 15);
  for (int l2 = 0; l2 < 2; l2++) {
    rig *r = rig_open(&c, spec[l2]);
    for (int step = 6; step <= 12; step++) {
      rig_to(r, step);
      for (int i = 0; i < step; i++) assert_int_equal(rig_lane(r, 0)->id[i], i);
    }
    for (int step = 13; step <= 60; step++) ring_step(r, step, l2);
    rig_close(r);
  }
  rig_data_free(&c);
}

/* The decayed sums of a prompt within the budget, in binary64. */
TEST(scores) {
  rig_case c = request(4, 2, 16, 150, 140);
  double p[150], s[150] = {0};
  rig_data(&c, 21);
  for (int t = 0; t < 140; t++) {
    for (int i = 0; i < t; i++) s[i] *= 0.98;
    for (int h = 2; h < 4; h++) {
      rig_exact(&c, h, t, NULL, p);
      for (int i = 0; i <= t; i++) s[i] += p[i];
    }
  }
  for (int v = 0; v < 2; v++) {
    rig *r = rig_open(&c, v ? "zsmerge:budget=140"
                            : "zsmerge:budget=140:variant=code");
    for (int i = 0; i < 140; i++)
      assert_true(fabs((double)rig_lane(r, 1)->column[0].f[i] - s[i]) < 1e-5);
    rig_close(r);
  }
  rig_data_free(&c);
}

/* One decode row of a single head: the scores to the bit, from logits and
 * probabilities of the arithmetic. */
TEST(score_bits) {
  rig_case c = request(1, 1, 16, 90, 60);
  float s[90], was[90];
  c.scale = 0.25f;
  rig_data(&c, 23);
  rig *r = rig_open(&c, "zsmerge:budget=90:variant=code");
  const float *column = rig_lane(r, 0)->column[0].f;
  for (int t = 60; t < 90; t++) {
    memcpy(was, column, sizeof was);
    was[t] = 0;
    rig_to(r, t + 1);
    for (int i = 0; i <= t; i++)
      s[i] = kv_dot(c.q + t * 16, c.k + i * 16, 16) * 0.25f + 0.0f;
    kv_observation_row(kv_kernels_best(), t + 1, s, s);
    for (int i = 0; i <= t; i++) {
      float want = fmaf(0.98f, was[i], kv_unfix(kv_fix(s[i])));
      assert_int_equal(kv_bits(column[i]), kv_bits(want));
    }
  }
  rig_close(r);
  rig_data_free(&c);
}

/* --- laws ---------------------------------------------------------------- */

/* Entry i is, to rounding, the mean of the rows of its members. */
static void is_mean(const rig_case *c, const kv_lane *l, int i) {
  const float *k = c->k + (size_t)l->kv_head * (size_t)(c->n_tokens * c->d);
  float key[64];
  kv_lane_key(l, i, key);
  for (int x = 0; x < c->d; x++) {
    double sum = 0;
    int members = 0;
    for (uint32_t t = l->id[i];; t = l->next[t]) {
      sum += (double)k[(int)t * c->d + x];
      members++;
      if (t == l->last[i]) break;
    }
    assert_int_equal(members, l->weight[i]);
    assert_true(fabs(sum / members - (double)key[x]) < 1e-5);
  }
}

static void sound(const rig_case *c, const rig *r, int step, int most) {
  for (int g = 0; g < c->kv_heads; g++) {
    const kv_lane *l = rig_lane(r, g);
    uint32_t weight = 0;
    int merged = 0;
    for (int i = 0; i < l->n; i++) {
      weight += l->weight[i];
      merged += l->weight[i] > 1;
      is_mean(c, l, i);
    }
    assert_int_equal(weight, step);
    assert_true(merged <= most);
    for (int h = 0; h < 3; h++) /* the newest stay as they came */
      assert_int_equal(l->weight[l->n - 1 - h], 1);
  }
}

TEST(conservation) {
  static const char *const spec[] = {
      "zsmerge:budget=14:residual=3:proximity=4",
      "zsmerge:budget=14:residual=3:proximity=4:metric=l2",
      "zsmerge:budget=14:residual=3:proximity=4:merge_bias=1:decay=1",
      "zsmerge:budget=14:residual=3:proximity=4:variant=code",
      "zsmerge:budget=14:residual=3:proximity=4:variant=code:metric=l2"};
  rig_case c = request(8, 2, 16, 70, 40);
  rig_data(&c, 16);
  for (size_t i = 0; i < sizeof spec / sizeof *spec; i++) {
    rig *r = rig_open(&c, spec[i]), *dense = rig_open(&c, "dense");
    for (int step = 40; step <= 70; step++) {
      rig_to(r, step);
      rig_to(dense, step);
      sound(&c, r, step, 3);
      for (int h = 0; step > 40 && h < c.heads; h++)
        assert_true(rig_lse(r, h) <= rig_lse(dense, h) + 1e-5f);
    }
    rig_close(dense);
    rig_close(r);
  }
  rig_data_free(&c);
}

TEST(eviction) {
  rig_case c = request(2, 1, 8, 60, 30);
  rig_data(&c, 18);
  rig *r = rig_open(&c, "zsmerge:budget=12:residual=0");
  for (int step = 30; step <= 60; step++) {
    rig_to(r, step);
    const kv_lane *l = rig_lane(r, 0);
    assert_int_equal(l->n, 12);
    for (int i = 0; i < 12; i++) assert_int_equal(l->weight[i], 1);
    assert_int_equal(l->id[11], step - 1);
    assert_int_equal(l->id[10], step - 2);
  }
  rig_close(r);
  rig_data_free(&c);
}

static void bytes_of(const char *spec, int each) {
  rig_case c = request(1, 1, 8, 60, 30);
  kv_bytes b = {0};
  c.half = true;
  rig_data(&c, 19);
  rig *r = rig_open(&c, spec);
  int merged = 0;
  rig_to(r, 60);
  const kv_lane *l = rig_lane(r, 0);
  for (int i = 0; i < l->n; i++) merged += l->weight[i] > 1;
  kv_lane_bytes(l, &b);
  assert_int_equal(b.payload, (12 - merged) * 24 + merged * each);
  /* position, weight, index, class */
  assert_int_equal(b.metadata, 12 * (4 + 4 + 4 + 1));
  assert_true(merged == 3 && b.columns == 12 * 4 && b.side == 0);
  /* class 1 are the residual's; both together are what entries hold */
  int64_t of[2] = {0};
  for (int i = 0; i < l->n; i++)
    of[l->tier[i]] += (l->weight[i] > 1 ? each : 24) + 13 + 4;
  assert_true(b.tier_0 == of[0] && b.tier_1 == of[1]);
  assert_int_equal(b.tier_0 + b.tier_1, b.payload + b.metadata + b.columns);
  rig_close(r);
  rig_data_free(&c);
}

static void bytes(void **state) { /* 8 and 4 halves, or floats */
  (void)state;
  bytes_of("zsmerge:budget=12:residual=3:proximity=2", 24);
  bytes_of("zsmerge:budget=12:residual=3:proximity=2:merged=fp32", 48);
}

static const rig_laws laws = {
    RIG_SHAPE(4, 2, 16, 4, 50, 20),
    {{"zsmerge:budget=10", .at_most = 10},
     {"zsmerge:budget=4", .at_most = 4},
     {"zsmerge:budget=10:variant=code", .at_most = 10},
     {"zsmerge:budget=4:variant=code", .at_most = 4},
     {"zsmerge:budget=8:context=0:proximity=1", .at_most = 8},
     {"zsmerge:budget=50", .dense = true},
     {"zsmerge:budget=50:variant=code", .dense = true},
     {"zsmerge:budget=99:residual=70", .dense = true},
     {"zsmerge:budget=10:variant=code",
      .same = "zsmerge:budget=10:variant=code:merge_bias=1:context=7"},
     {"zsmerge:budget=10", .at_most = 10, .prompt_len = 1},
     {"zsmerge:budget=10:variant=code", .at_most = 10, .prompt_len = 1},
     {"zsmerge:budget=3", KV_REFUSED, .says = {"3", "4"}},
     {"zsmerge:budget=9:residual=2:context=4:proximity=4", KV_REFUSED,
      .says = {"context=4", "9"}},
     {"zsmerge:budget=9:residual=0:variant=code", KV_REFUSED,
      .says = {"residual=0", "code"}},
     {"zsmerge:budget=9:residual=9", KV_REFUSED,
      .says = {"residual=9", "budget"}}}};

RIG_TESTS(zsmerge, RIG_CASE(paper), RIG_CASE(code), RIG_CASE(ring),
          RIG_CASE(scores), RIG_CASE(score_bits), RIG_CASE(conservation),
          RIG_CASE(eviction), RIG_CASE(bytes), RIG_LAWS(laws))

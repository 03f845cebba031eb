/* SPDX-License-Identifier: Apache-2.0
 *
 * Quest. The worked case: pages of two, nine keys in the plane, two query
 * heads; bounds worked out by hand from the boxes' corners are
 *   q = (1, -.5)  1.0 2.5 0.5 2.0 0.05
 *   q = (1, 1)    2   4   1   0   0.5
 *   their sum     3   6.5 1.5 2   0.55   maximum  2 4 1 2 0.5
 * and outputs are softmax over the chosen tokens in binary64. Laws: boxes are
 * the extremes of their pages' keys and bound every product; the last page is
 * in and the budget is kept (engine); layers below `skip` see everything;
 * heads that share see the same; two rows a page are charged.
 */
#include "ref/ground/arith.h"
#include "tests/support/rig.h"
#include <math.h>
#include <string.h>

static const float keys[18] = {1,   0,   0, 1,  2,  -1, -1, 2,   0,
                               .5f, .5f, 0, -2, -1, 1,  -2, .2f, .3f};

static rig_case nine(float q[36]) {
  static const float v[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  for (int t = 0; t < 9; t++) {
    q[2 * t] = 1;
    q[2 * t + 1] = -.5f;
    q[18 + 2 * t] = q[19 + 2 * t] = 1;
  }
  return (rig_case)RIG_SHAPE(2, 1, 2, 1, 9, 8, .q = q, .k = keys, .v = v);
}

TEST(worked) {
  static const struct {
    const char *spec;
    int seen[2][10];
    double out[2]; /* 0: not worked out */
  } at[] = {
      {"quest:page=2:skip=0:budget=4", {{2, 3, 8, -1}, {2, 3, 8, -1}}, {0, 0}},
      {"quest:page=2:skip=0:budget=6",
       {{2, 3, 6, 7, 8, -1}, {0, 1, 2, 3, 8, -1}},
       {4.449928, 2.470660}},
      {"quest:page=2:skip=0:budget=8",
       {{0, 1, 2, 3, 6, 7, 8, -1}, {0, 1, 2, 3, 4, 5, 8, -1}},
       {0, 0}},
      {"quest:page=2:skip=0:budget=1", {{8, -1}, {8, -1}}, {8, 8}},
      {"quest:page=2:skip=0:budget=9",
       {{0, 1, 2, 3, 4, 5, 6, 7, 8, -1}, {0, 1, 2, 3, 4, 5, 6, 7, 8, -1}},
       {3.784349, 3.119725}},
      {"quest:page=2:skip=0:budget=4:rule=paper",
       {{0, 1, 2, 3, 6, 7, -1}, {0, 1, 2, 3, 4, 5, -1}},
       {0, 0}},
      {"quest:page=2:skip=0:budget=6:rule=paper",
       {{0, 1, 2, 3, 6, 7, -1}, {0, 1, 2, 3, 4, 5, -1}},
       {0, 0}},
      {"quest:page=2:skip=0:budget=8:rule=paper",
       {{0, 1, 2, 3, 4, 5, 6, 7, -1}, {0, 1, 2, 3, 4, 5, 8, -1}},
       {0, 0}},
      {"quest:page=2:skip=0:budget=4:rule=twilight",
       {{2, 3, 6, 7, -1}, {0, 1, 2, 3, -1}},
       {0, 0}},
      {"quest:page=2:skip=0:budget=5:rule=twilight",
       {{0, 1, 2, 3, 6, 7, -1}, {0, 1, 2, 3, 4, 5, -1}},
       {0, 0}},
      {"quest:page=2:skip=0:budget=1:rule=twilight",
       {{2, 3, -1}, {2, 3, -1}},
       {0, 0}},
      /* below its budget, because 9 div 2 is 4 pages of 5 */
      {"quest:page=2:skip=0:budget=100:rule=paper",
       {{0, 1, 2, 3, 4, 5, 6, 7, -1}, {0, 1, 2, 3, 4, 5, 8, -1}},
       {0, 0}},
      {"quest:page=2:skip=0:budget=6:share=group_sum",
       {{0, 1, 2, 3, 8, -1}, {0, 1, 2, 3, 8, -1}},
       {0, 2.470660}},
      {"quest:page=2:skip=0:budget=8:share=group_sum",
       {{0, 1, 2, 3, 6, 7, 8, -1}, {0, 1, 2, 3, 6, 7, 8, -1}},
       {0, 0}},
      {"quest:page=2:skip=0:budget=6:share=group_max", /* a tie: page 0 */
       {{0, 1, 2, 3, 8, -1}, {0, 1, 2, 3, 8, -1}},
       {0, 2.470660}},
  };
  float q[36];
  rig_case c = nine(q);
  for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
    rig *r = rig_open(&c, at[i].spec);
    rig_to(r, 9);
    for (int h = 0; h < 2; h++) {
      rig_saw(r, h, at[i].seen[h]);
      if (at[i].out[h] != 0)
        assert_true(fabs((double)*rig_out(r, h) - at[i].out[h]) < 2e-6);
    }
    rig_close(r);
  }
}

/* --- laws ---------------------------------------------------------------- */

/* Element x of the box of `page`, of the side at `at`: tiles of 16 boxes. */
static float corner(const char *at, int page, int d, int x, bool half) {
  size_t i =
      ((size_t)(page / 16) * (size_t)d + (size_t)x) * 16 + (size_t)(page % 16);
  uint16_t h;
  float f;
  memcpy(&h, at + 2 * i, 2);
  memcpy(&f, at + 4 * (half ? 0 : i), 4);
  return half ? kv_from_f16(h) : f;
}

static void boxes_hold(const rig_case *c, int page, int step,
                       const kv_lane *l) {
  int room = ((c->n_tokens + page - 1) / page + 15) / 16 * 16;
  size_t side = (size_t)room * (size_t)c->d * (c->half ? 2 : 4);
  const char *own = l->own;
  float key[64];
  for (int p = 0; p * page < step; p++)
    for (int x = 0; x < c->d; x++) {
      float lo = INFINITY, hi = -INFINITY;
      for (int t = p * page; t < (p + 1) * page && t < step; t++) {
        kv_lane_key(l, t, key);
        lo = fminf(lo, key[x]);
        hi = fmaxf(hi, key[x]);
      }
      assert_true(corner(own, p, c->d, x, c->half) == lo);
      assert_true(corner(own + side, p, c->d, x, c->half) == hi);
    }
}

TEST(boxes) {
  rig_needs_own();
  rig_case c = RIG_SHAPE(2, 2, 20, 4, 70, 37);
  rig_data(&c, 7);
  for (int half = 0; half < 2; half++) {
    c.half = half;
    rig *r = rig_open(&c, "quest:page=3:budget=9:skip=0");
    for (int step = 37; step <= 70; step++) {
      rig_to(r, step);
      boxes_hold(&c, 3, step, rig_lane(r, 1));
    }
    rig_close(r);
  }
  rig_data_free(&c);
}

TEST(budget_kept) {
  rig_case c = RIG_SHAPE(8, 2, 16, 8, 90, 40, .n_layers = 4, .layer = 2);
  uint32_t id[8][90];
  rig_data(&c, 8);
  rig *r = rig_open(&c, "quest:page=4:budget=14:share=group_max");
  for (int step = 41; step <= 90; step++) {
    rig_to(r, step);
    for (int h = 0; h < 8; h++) {
      int n = rig_seen(r, h, id[h]);
      assert_in_range(n, 9, 12); /* two full pages and the last */
      assert_int_equal(id[h][n - 1], step - 1);
      if (h % 4) assert_memory_equal(id[h], id[h - 1], (size_t)n * sizeof **id);
    }
    kv_bytes b = {0};
    kv_lane_bytes(rig_lane(r, 0), &b);
    assert_int_equal(b.side, (step + 3) / 4 * 2 * 16 * 4);
    assert_int_equal(b.metadata + b.columns + b.slack, 0);
  }
  rig_close(r);
  c.layer = 1;
  rig_law_dense(&c, "quest:page=4:budget=14");
  rig_data_free(&c);
}

/* Bound of a page by one query head, in binary64. */
static double bound_of(const rig_case *c, int h, int t, int page, int p) {
  int g = h / (c->heads / c->kv_heads);
  const float *q =
      c->q + ((size_t)h * (size_t)c->n_tokens + (size_t)t) * (size_t)c->d;
  const float *k = c->k + (size_t)g * (size_t)(c->n_tokens * c->d);
  double u = 0;
  for (int x = 0; x < c->d; x++) {
    double most = -INFINITY;
    for (int i = p * page; i < (p + 1) * page && i <= t; i++)
      most = fmax(most, (double)q[x] * (double)k[i * c->d + x]);
    u += most;
  }
  return u;
}

/* No page outside promises more than one inside; the last is left aside. */
static void best_pages(const rig_case *c, const rig *r, int share, int h) {
  int t = rig_step(r) - 1, pages = t / 4, group = c->heads / c->kv_heads;
  bool in[32] = {false};
  double worst = INFINITY, out = -INFINITY;
  uint32_t id[90];
  for (int i = rig_seen(r, h, id) - 1; i >= 0; i--) in[id[i] / 4] = true;
  for (int p = 0; p < pages; p++) {
    double u = share ? -INFINITY : bound_of(c, h, t, 4, p);
    double sum = 0;
    for (int j = h / group * group; share && j < (h / group + 1) * group; j++) {
      double one = bound_of(c, j, t, 4, p);
      sum += one;
      u = fmax(u, one);
    }
    if (share == 1) u = sum;
    if (in[p])
      worst = fmin(worst, u);
    else
      out = fmax(out, u);
  }
  assert_true(worst >= out - 1e-5);
}

TEST(choice) {
  static const char *const spec[] = {
      "quest:page=4:budget=14:skip=0",
      "quest:page=4:budget=14:skip=0:share=group_sum",
      "quest:page=4:budget=14:skip=0:share=group_max"};
  rig_case c = RIG_SHAPE(8, 2, 16, 8, 90, 40);
  rig_data(&c, 22);
  for (int share = 0; share < 3; share++) {
    rig *r = rig_open(&c, spec[share]);
    for (int step = 41; step <= 90; step++) {
      rig_to(r, step);
      for (int h = 0; h < 8; h++) best_pages(&c, r, share, h);
    }
    rig_close(r);
  }
  rig_data_free(&c);
}

static const rig_laws laws = {
    RIG_SHAPE(4, 2, 16, 8, 50, 1, .n_layers = 3, .layer = 2),
    {{.spec = "quest:page=4:budget=9"},
     {.spec = "quest:page=1:budget=9:rule=paper"},
     {"quest:page=4:budget=50", .dense = true},
     {"quest:page=64:budget=3", .dense = true},
     {"quest:budget=16", .half = true},
     {"quest:budget=50", .dense = true, .half = true}}};

RIG_TESTS(quest, RIG_CASE(worked), RIG_CASE(boxes), RIG_CASE(budget_kept),
          RIG_CASE(choice), RIG_LAWS(laws))

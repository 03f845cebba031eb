/* SPDX-License-Identifier: Apache-2.0
 *
 * Oracle top-k, against probabilities worked out in binary64: what it attends
 * has the largest mass of all sets of that size, for every head and step;
 * equal logits keep the lower entry; nothing is ever dropped; a budget that
 * holds everything gives dense.
 */
#include "tests/support/rig.h"

/* The mass of the k largest of p[0..n). */
static double best_mass(int n, int k, const double *p) {
  double mass = 0;
  for (int i = 0; i < n; i++) {
    int above = 0;
    for (int j = 0; j < n; j++) above += p[j] > p[i];
    if (above < k) mass += p[i];
  }
  return mass;
}

TEST(largest) {
  rig_case c = RIG_SHAPE(4, 2, 24, 8, 48, 8);
  double p[48];
  uint32_t id[48];
  rig_data(&c, 3);
  rig *r = rig_open(&c, "oracle-topk:budget=11");
  for (int step = c.prompt_len + 1; step <= c.n_tokens; step++) {
    rig_to(r, step);
    for (int h = 0; h < c.heads; h++) {
      double mass = 0;
      int n = rig_seen(r, h, id), k = step < 11 ? step : 11;
      rig_exact(&c, h, step - 1, NULL, p);
      for (int i = 0; i < n; i++) mass += p[id[i]];
      assert_int_equal(n, k);
      assert_true(mass >= best_mass(step, k, p) - 1e-12);
    }
    assert_int_equal(rig_lane(r, 1)->n, step);
  }
  rig_close(r);
  rig_data_free(&c);
}

TEST(ties) {
  static const float q[12] = {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0};
  static const float k[12] = {1, 0, 2, 0, 1, 0, 1, 0, 3, 0, 1, 0};
  static const float v[6] = {0};
  rig_case c = RIG_SHAPE(1, 1, 2, 1, 6, 5, .q = q, .k = k, .v = v);
  rig *r = rig_open(&c, "oracle-topk:budget=4");
  rig_to(r, 6);
  rig_saw(r, 0, (int[]){0, 1, 2, 4, -1});
  rig_close(r);
}

static const rig_laws laws = {RIG_SHAPE(8, 2, 16, 16, 60, 30),
                              {{.spec = "oracle-topk:budget=1"},
                               {.spec = "oracle-topk:budget=20"},
                               {"oracle-topk:budget=60", .dense = true}}};

RIG_TESTS(oracle_topk, RIG_CASE(largest), RIG_CASE(ties), RIG_LAWS(laws))

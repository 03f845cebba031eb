/* SPDX-License-Identifier: Apache-2.0
 *
 * Dense: holds and sees everything at every step, in one run, and attends
 * as softmax(q k) v does in binary64.
 */
#include "tests/support/rig.h"
#include <math.h>

TEST(everything) {
  rig_case c = RIG_SHAPE(4, 2, 16, 8, 300, 290);
  rig_data(&c, 1);
  rig *r = rig_open(&c, "dense");
  for (int step = c.prompt_len + 1; step <= c.n_tokens; step++) {
    rig_to(r, step);
    for (int h = 0; h < c.heads; h++) {
      assert_int_equal(rig_view(r, h)->runs, 1);
      assert_int_equal(rig_view(r, h)->entries, step);
      assert_int_equal(rig_lane(r, h / 2)->n, step);
    }
  }
  rig_close(r);
  rig_law(&c, "dense", NULL, NULL);
  rig_data_free(&c);
}

TEST(exact) {
  rig_case c = RIG_SHAPE(2, 1, 8, 5, 140, 139);
  double p[140];
  rig_data(&c, 2);
  rig *r = rig_open(&c, "dense");
  rig_to(r, 140);
  for (int h = 0; h < 2; h++) {
    rig_exact(&c, h, 139, NULL, p);
    for (int x = 0; x < 5; x++) {
      double o = 0;
      for (int j = 0; j < 140; j++) o += p[j] * (double)c.v[j * 5 + x];
      assert_true(fabs(o - (double)rig_out(r, h)[x]) < 1e-6);
    }
  }
  rig_close(r);
  rig_data_free(&c);
}

/* A prompt of one token, and a prompt without decode steps. */
TEST(edges) {
  rig_case c = RIG_SHAPE(1, 1, 2, 2, 3, 0);
  rig_data(&c, 3);
  for (c.prompt_len = 1; c.prompt_len <= 3; c.prompt_len++)
    rig_law(&c, "dense", NULL, NULL);
  rig_data_free(&c);
}

RIG_TESTS(dense, RIG_CASE(everything), RIG_CASE(exact), RIG_CASE(edges))

/* SPDX-License-Identifier: Apache-2.0
 *
 * KNorm: of the worked case the four shortest keys, of equal ones the older;
 * what a plain sort of squared norms keeps; layers that stay dense; a token may
 * leave at the step that brought it.
 */
#include "tests/support/rig.h"

/* Norms 1 1 2.236 1 2.236 1 1.414 1.414. */
TEST(worked) {
  rig_case c = rig_eight(8);
  rig_keeps(&c, "knorm:budget=4:skip=0", 0, (int[]){0, 1, 3, 5, -1});
  rig_keeps(&c, "knorm:budget=5:skip=0", 0, (int[]){0, 1, 3, 5, 6, -1});
  rig_keeps(&c, "knorm:budget=4", 0, (int[]){0, 1, 2, 3, 4, 5, 6, 7, -1});
}

TEST(steps) {
  rig_case c = rig_eight(4);
  rig *r = rig_open(&c, "knorm:budget=3:skip=0:variant=drop");
  rig_holds(r, 0, (int[]){0, 1, 3, -1});
  rig_to(r, 5); /* token 4 is long: seen once, then dropped */
  rig_saw(r, 0, (int[]){0, 1, 3, 4, -1});
  rig_holds(r, 0, (int[]){0, 1, 3, -1});
  rig_close(r);
  r = rig_open(&c, "knorm:budget=3:skip=0");
  rig_to(r, 8);
  rig_holds(r, 0, (int[]){0, 1, 3, 4, 5, 6, 7, -1});
  rig_close(r);
}

/* Binary64 sums of squares that lie far enough apart decide alike. */
static void shortest(const rig_case *c, int lane, int budget, int *ids) {
  double square[64];
  int n = 0;
  for (int t = 0; t < c->prompt_len; t++) {
    const float *k =
        c->k + ((size_t)lane * (size_t)c->n_tokens + (size_t)t) * (size_t)c->d;
    square[t] = 0;
    for (int x = 0; x < c->d; x++) square[t] += (double)k[x] * (double)k[x];
  }
  for (int t = 0; t < c->prompt_len; t++) {
    int shorter = 0;
    for (int o = 0; o < c->prompt_len; o++) shorter += square[o] < square[t];
    if (shorter < budget) ids[n++] = t;
  }
  ids[n] = -1;
}

TEST(by_sorting) {
  rig_case c = RIG_SHAPE(4, 2, 16, 8, 50, 48, .n_layers = 4, .layer = 2);
  int ids[64];
  rig_data(&c, 11);
  rig *r = rig_open(&c, "knorm:budget=13");
  for (int lane = 0; lane < 2; lane++) {
    shortest(&c, lane, 13, ids);
    rig_holds(r, lane, ids);
  }
  rig_close(r);
  rig_data_free(&c);
}

static const rig_laws laws = {
    RIG_SHAPE(4, 2, 8, 8, 40, 20),
    {{"knorm:budget=7:skip=0:variant=drop", .at_most = 7},
     {"knorm:budget=1:skip=0:variant=drop", .at_most = 1},
     {"knorm:budget=7:skip=0", .grown = 7},
     {"knorm:budget=20:skip=0", .dense = true},
     {"knorm:budget=40:skip=0:variant=drop", .dense = true},
     {"knorm:budget=7:skip=1:variant=drop", .dense = true}}};

RIG_TESTS(knorm, RIG_CASE(worked), RIG_CASE(steps), RIG_CASE(by_sorting),
          RIG_LAWS(laws))

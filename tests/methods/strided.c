/* SPDX-License-Identifier: Apache-2.0
 *
 * Strided: what it attends, by hand; the stride is the least that fits and
 * never leaves more than the budget, over many lengths; Sparse Transformer's
 * pattern where budget and recent are what its stride gives; nothing is ever
 * dropped; a budget that holds everything is dense.
 */
#include "ref/methods/strided.h"
#include "tests/support/rig.h"

/* Budget 4, of which 2 are the last: of 5 entries (stride 2: distances 2 and
 * 4), 6 (2: 2, 4), 7 (3: 3, 6) and 8 (3: 3, 6). */
TEST(every_second) {
  rig_case c = rig_eight(4);
  rig *r = rig_open(&c, "strided:budget=4:recent=2");
  rig_holds(r, 0, (int[]){0, 1, 2, 3, -1});
  rig_to(r, 5);
  rig_saw(r, 0, (int[]){0, 2, 3, 4, -1});
  rig_to(r, 6);
  rig_saw(r, 0, (int[]){1, 3, 4, 5, -1});
  rig_to(r, 7);
  rig_saw(r, 0, (int[]){0, 3, 5, 6, -1});
  rig_to(r, 8);
  rig_saw(r, 0, (int[]){1, 4, 6, 7, -1});
  rig_holds(r, 0, (int[]){0, 1, 2, 3, 4, 5, 6, 7, -1});
  rig_close(r);
}

/* No room for any but the last ones. */
TEST(recent_alone) {
  rig_case c = rig_eight(4);
  rig *r = rig_open(&c, "strided:budget=3:recent=3");
  rig_to(r, 8);
  rig_saw(r, 0, (int[]){5, 6, 7, -1});
  rig_close(r);
}

static int count(const params *o, int n, int s) {
  int in = 0;
  for (int i = 0; i < n; i++) in += strided_has(o, n, s, i);
  return in;
}

TEST(least_stride) {
  for (int budget = 1; budget <= 12; budget++)
    for (int recent = 1; recent <= budget; recent++)
      for (int n = budget + 1; n <= 90; n++) {
        params o = {budget, recent};
        int s = stride_of(&o, n);
        assert_true(count(&o, n, s) <= budget);
        for (int less = 1; less < s; less++)
          assert_true(count(&o, n, less) > budget);
      }
}

/* (i - j) mod l = 0 and the last l, of n = l * l. */
TEST(sparse_transformer) {
  for (int l = 2; l <= 9; l++) {
    params o = {2 * l - 1, l};
    assert_int_equal(stride_of(&o, l * l), l);
  }
}

static const rig_laws laws = {
    RIG_SHAPE(8, 2, 16, 16, 60, 30),
    {{.spec = "strided:budget=1"},
     {.spec = "strided:budget=20"},
     {.spec = "strided:budget=20:recent=20"},
     {"strided:budget=60", .dense = true},
     {"strided:budget=4:recent=5", KV_REFUSED, .says = {"recent=5", "4"}}}};

RIG_TESTS(strided, RIG_CASE(every_second), RIG_CASE(recent_alone),
          RIG_CASE(least_stride), RIG_CASE(sparse_transformer), RIG_LAWS(laws))

/* SPDX-License-Identifier: Apache-2.0
 *
 * Window: exactly the last `budget` tokens after every compression, one more
 * while attending; a budget that holds everything is dense.
 */
#include "tests/support/rig.h"

TEST(last_ones) {
  rig_case c = rig_eight(4);
  rig *r = rig_open(&c, "window:budget=3");
  rig_holds(r, 0, (int[]){1, 2, 3, -1});
  rig_to(r, 5);
  rig_saw(r, 0, (int[]){1, 2, 3, 4, -1});
  rig_holds(r, 0, (int[]){2, 3, 4, -1});
  rig_to(r, 8);
  rig_saw(r, 0, (int[]){4, 5, 6, 7, -1});
  rig_holds(r, 0, (int[]){5, 6, 7, -1});
  rig_close(r);
}

/* Once after the prompt: the last three of four, then all that come. */
TEST(prefill) {
  rig_case c = rig_eight(4);
  rig *r = rig_open(&c, "window:budget=3:variant=prefill");
  rig_holds(r, 0, (int[]){1, 2, 3, -1});
  rig_to(r, 8);
  rig_saw(r, 0, (int[]){1, 2, 3, 4, 5, 6, 7, -1});
  rig_holds(r, 0, (int[]){1, 2, 3, 4, 5, 6, 7, -1});
  rig_close(r);
}

static const rig_laws laws = {
    RIG_SHAPE(2, 1, 16, 16, 40, 20),
    {{"window:budget=7", .at_most = 7},
     {"window:budget=30", .at_most = 30},
     {"window:budget=1", .at_most = 1},
     {"window:budget=7:variant=prefill", .grown = 7},
     {"window:budget=20:variant=prefill", .dense = true},
     {"window:budget=40", .dense = true},
     /* the last step sees all 40 */
     {"window:budget=39", .dense = true}}};

RIG_TESTS(window, RIG_CASE(last_ones), RIG_CASE(prefill), RIG_LAWS(laws))

/* SPDX-License-Identifier: Apache-2.0
 *
 * CriticalKV over the shortest keys: the scores are -1 -1 -5 -1 -5 -1 -2 -2,
 * the first half goes by them; the rest by the score times the size of the
 * value, which is worked out by hand.
 */
#include "tests/support/rig.h"

/* Sizes 1 1 .5 9 .1 9 4 1: with the score -1 -1 -2.5 -9 -.5 -9 -8 -2. */
static const float values[16] = {1, 0,   0, -1, .5f, 0,  -4,  5,
                                 0, .1f, 9, 0,  -2,  -2, .5f, .5f};

TEST(worked) {
  rig_case c = rig_eight(8);
  c.v = values;
  c.d_v = 2;
  rig_keeps(&c, "criticalkv:score=knorm:budget=4:epsilon=0", 0,
            (int[]){0, 1, 4, 7, -1});
  rig_keeps(&c, "criticalkv:score=knorm:budget=4:epsilon=0:first=0.75", 0,
            (int[]){0, 1, 3, 4, -1});
  rig_keeps(&c, "criticalkv:score=knorm:budget=4:epsilon=0:first=1", 0,
            (int[]){0, 1, 3, 5, -1});
  rig_keeps(&c, "criticalkv:score=knorm:budget=2:epsilon=0:first=0", 0,
            (int[]){0, 4, -1});
  /* The sink takes the whole first stage. */
  rig_keeps(&c, "criticalkv:score=knorm:budget=2:epsilon=0:first=0.5:sinks=1",
            0, (int[]){0, 4, -1});
}

static const rig_laws laws = {
    RIG_SHAPE(4, 2, 8, 8, 44, 30),
    {{"criticalkv:budget=9", .grown = 9},
     {"criticalkv:budget=1", .grown = 1},
     {"criticalkv:budget=9:score=keydiff:form=both:every=1", .at_most = 9},
     {"criticalkv:budget=30", .dense = true}}};

RIG_TESTS(criticalkv, RIG_CASE(worked), RIG_LAWS(laws))

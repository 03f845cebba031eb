/* SPDX-License-Identifier: Apache-2.0
 *
 * ChunkKV over the shortest keys: of the eight keys the scores are -1 -1 -5 -1
 * -5 -1 -2 -2, so that chunks of two have the means -1 -3 -3 -2 and of three
 * -2.333 -2.333 -2. Forms, and what a scorer protects.
 */
#include "tests/support/rig.h"

TEST(worked) {
  rig_case c = rig_eight(8);
  rig_keeps(&c, "chunkkv:score=knorm:budget=4:chunk=2", 0,
            (int[]){0, 1, 6, 7, -1});
  rig_keeps(&c, "chunkkv:score=knorm:budget=7:chunk=2", 0,
            (int[]){0, 1, 2, 3, 6, 7, -1}); /* the second and third tie */
  rig_keeps(&c, "chunkkv:score=knorm:budget=5:chunk=3", 0, (int[]){6, 7, -1});
  rig_keeps(&c, "chunkkv:score=knorm:budget=5:chunk=3:sinks=1", 0,
            (int[]){0, 7, -1}); /* -2.333, -2.667, -2 of token 7 */
  rig_keeps(&c, "chunkkv:score=knorm:budget=7:chunk=3:count=share", 0,
            (int[]){0, 1, 2, 6, 7, -1});
  rig_keeps(&c, "chunkkv:score=knorm:budget=3:chunk=10", 0, (int[]){6, 7, -1});
}

static const rig_laws laws = {
    RIG_SHAPE(4, 2, 8, 8, 44, 30),
    {{"chunkkv:budget=12:chunk=3:window=4", .grown = 12},
     {"chunkkv:budget=1", .grown = 1},
     {"chunkkv:budget=9:score=keydiff:form=both:every=1", .at_most = 9},
     {"chunkkv:budget=9:score=lagkv", .grown = 9},
     {"chunkkv:budget=9:score=h2o:form=both:every=5", .at_most = 9, .every = 5},
     {"chunkkv:budget=12:window=4:form=both:every=5", .at_most = 12,
      .every = 5},
     {"chunkkv:budget=30", .dense = true}}};

RIG_TESTS(chunkkv, RIG_CASE(worked), RIG_LAWS(laws))

/* SPDX-License-Identifier: Apache-2.0
 *
 * ChunkKV over the shortest keys: of the eight keys the scores are -1 -1 -5 -1
 * -5 -1 -2 -2, so that chunks of two have the means -1 -3 -3 -2 and of three
 * -2.333 -2.333 -2. Forms, and what a scorer protects.
 */
#include "tests/support/rig.h"

static void holds(const rig_case *c, const char *spec, const int *ids) {
  rig *r = rig_open(c, spec);
  rig_holds(r, 0, ids);
  rig_close(r);
}

static void worked(void **state) {
  rig_case c = rig_eight(8);
  (void)state;
  holds(&c, "chunkkv:score=knorm:budget=4:chunk=2", (int[]){0, 1, 6, 7, -1});
  holds(&c, "chunkkv:score=knorm:budget=7:chunk=2",
        (int[]){0, 1, 2, 3, 6, 7, -1}); /* the second and third tie */
  holds(&c, "chunkkv:score=knorm:budget=5:chunk=3", (int[]){6, 7, -1});
  holds(&c, "chunkkv:score=knorm:budget=5:chunk=3:sinks=1",
        (int[]){0, 7, -1}); /* -2.333, -2.667, -2 of token 7 */
  holds(&c, "chunkkv:score=knorm:budget=7:chunk=3:count=share",
        (int[]){0, 1, 2, 6, 7, -1});
  holds(&c, "chunkkv:score=knorm:budget=3:chunk=10", (int[]){6, 7, -1});
}

static void laws(void **state) {
  rig_case c = {.heads = 4,
                .kv_heads = 2,
                .d = 8,
                .d_v = 8,
                .n_tokens = 44,
                .prompt_len = 30};
  (void)state;
  rig_data(&c, 41);
  rig_law(&c, "chunkkv:budget=12:chunk=3:window=4", rig_grown, &(int){12});
  rig_law(&c, "chunkkv:budget=1", rig_grown, &(int){1});
  rig_law(&c, "chunkkv:budget=9:score=keydiff:form=both:every=1", rig_at_most,
          &(int){9});
  rig_law(&c, "chunkkv:budget=9:score=lagkv", rig_grown, &(int){9});
  rig_law(&c, "chunkkv:budget=9:score=h2o:form=both:every=5", rig_grown,
          &(int){9});
  rig_law_dense(&c, "chunkkv:budget=30");
  rig_law_refused(&c, "chunkkv", KV_USAGE, "chunkkv", "budget");
  rig *r = rig_open(&c, "chunkkv:budget=12:window=4:form=both:every=5");
  rig_to(r, 35);
  assert_true(rig_lane(r, 1)->n <= 12 && rig_lane(r, 0)->n > 4);
  rig_close(r);
  rig_data_free(&c);
}

int kv_test_chunkkv(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(worked),
                                     cmocka_unit_test(laws)};
  return cmocka_run_group_tests_name("chunkkv", tests, NULL, NULL);
}

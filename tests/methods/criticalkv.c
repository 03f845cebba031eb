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

static void holds(const rig_case *c, const char *spec, const int *ids) {
  rig *r = rig_open(c, spec);
  rig_holds(r, 0, ids);
  rig_close(r);
}

static void worked(void **state) {
  rig_case c = rig_eight(8);
  (void)state;
  c.v = values;
  c.d_v = 2;
  holds(&c, "criticalkv:score=knorm:budget=4:epsilon=0",
        (int[]){0, 1, 4, 7, -1});
  holds(&c, "criticalkv:score=knorm:budget=4:epsilon=0:first=0.75",
        (int[]){0, 1, 3, 4, -1});
  holds(&c, "criticalkv:score=knorm:budget=4:epsilon=0:first=1",
        (int[]){0, 1, 3, 5, -1});
  holds(&c, "criticalkv:score=knorm:budget=2:epsilon=0:first=0",
        (int[]){0, 4, -1});
  /* The sink takes the whole first stage. */
  holds(&c, "criticalkv:score=knorm:budget=2:epsilon=0:first=0.5:sinks=1",
        (int[]){0, 4, -1});
}

static void laws(void **state) {
  rig_case c = {.heads = 4,
                .kv_heads = 2,
                .d = 8,
                .d_v = 8,
                .n_tokens = 44,
                .prompt_len = 30};
  (void)state;
  rig_data(&c, 42);
  rig_law(&c, "criticalkv:budget=9", rig_grown, &(int){9});
  rig_law(&c, "criticalkv:budget=1", rig_grown, &(int){1});
  rig_law(&c, "criticalkv:budget=9:score=keydiff:form=both:every=1",
          rig_at_most, &(int){9});
  rig_law_dense(&c, "criticalkv:budget=30");
  rig_law_refused(&c, "criticalkv", KV_USAGE, "criticalkv", "budget");
  rig_data_free(&c);
}

int kv_test_criticalkv(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(worked),
                                     cmocka_unit_test(laws)};
  return cmocka_run_group_tests_name("criticalkv", tests, NULL, NULL);
}

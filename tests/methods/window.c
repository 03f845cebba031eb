/* SPDX-License-Identifier: Apache-2.0
 *
 * Window: exactly the last `budget` tokens after every compression, one more
 * while attending; a budget that holds everything is dense.
 */
#include "tests/support/rig.h"

static void last_ones(void **state) {
  rig_case c = rig_eight(4);
  (void)state;
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
static void prefill(void **state) {
  rig_case c = rig_eight(4);
  (void)state;
  rig *r = rig_open(&c, "window:budget=3:variant=prefill");
  rig_holds(r, 0, (int[]){1, 2, 3, -1});
  rig_to(r, 8);
  rig_saw(r, 0, (int[]){1, 2, 3, 4, 5, 6, 7, -1});
  rig_holds(r, 0, (int[]){1, 2, 3, 4, 5, 6, 7, -1});
  rig_close(r);
}

static void laws(void **state) {
  rig_case c = {.heads = 2,
                .kv_heads = 1,
                .d = 16,
                .d_v = 16,
                .n_tokens = 40,
                .prompt_len = 20};
  (void)state;
  rig_data(&c, 4);
  rig_law(&c, "window:budget=7", rig_at_most, &(int){7});
  rig_law(&c, "window:budget=30", rig_at_most, &(int){30});
  rig_law(&c, "window:budget=1", rig_at_most, &(int){1});
  rig_law(&c, "window:budget=7:variant=prefill", rig_grown, &(int){7});
  rig_law_dense(&c, "window:budget=20:variant=prefill");
  rig_law_dense(&c, "window:budget=40");
  rig_law_dense(&c, "window:budget=39"); /* the last step sees all 40 */
  rig_data_free(&c);
}

static void refusals(void **state) {
  rig_case c = rig_eight(4);
  (void)state;
  rig_law_refused(&c, "window", KV_USAGE, "window", "budget");
}

int kv_test_window(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(last_ones), cmocka_unit_test(prefill),
      cmocka_unit_test(laws), cmocka_unit_test(refusals)};
  return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}

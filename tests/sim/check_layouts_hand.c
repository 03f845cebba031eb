/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory layouts without a replay: the example by hand of
 * sim/layout/README.md, row by row, and what --layout refuses.
 */
#include "sim/layout/layouts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* --- the example by hand ------------------------------------------------- */

static void must_hold(const kv_layout_state *s, int64_t pages, int64_t bytes) {
  assert_int_equal(s->pages, pages);
  assert_int_equal(s->bytes, bytes);
}

/* sim/layout/README.md, "An example by hand": one lane, rows of 8 bytes, pages
 * of 4 tokens; the K side alone is followed here, V does the same. */
static void test_by_hand(void **state) {
  const kv_shape shape = {.n_layers = 1,
                          .n_heads = 1,
                          .n_kv_heads = 1,
                          .d = 4,
                          .d_v = 4,
                          .n_tokens = 10,
                          .prompt_len = 6,
                          .dtype = KV_F16};
  const kv_needs needs = {.merges = true};
  const kv_layout_room room = {&shape, &needs, 1, 1, 5};
  kv_layout_list l = {0};
  kv_layout_state *s = NULL;
  kv_err e = {0};
  (void)state;
  assert_int_equal(kv_layouts_parse("pages:4", &l, &e), KV_OK);
  const kv_layout *p = l.item[0].layout;
  assert_int_equal(p->open(&l.item[0], &room, &s, &e), KV_OK);
  p->begin(s);
  s->block = 0;
  for (int side = 0; side < 2; side++)
    for (int t = 0; t < 6; t++) p->write(s, 0, side, KV_RAW, t);
  p->entered(s, 6);
  must_hold(s, 4, 4 * 32);               /* 0-3 and 4-5, K and V */
  for (int side = 0; side < 2; side++) { /* keep drops 0, 2, 3 */
    p->leave(s, 0, side, KV_RAW, 0);
    p->leave(s, 0, side, KV_RAW, 2);
    p->leave(s, 0, side, KV_RAW, 3);
  }
  must_hold(s, 4, 4 * 32); /* 1 holds its page */
  s->block = 1;
  for (int side = 0; side < 2; side++) { /* 4 is merged into 1 */
    p->leave(s, 0, side, KV_RAW, 4);
    p->leave(s, 0, side, KV_RAW, 1);
    p->write(s, 0, side, KV_MERGED, 1);
  }
  must_hold(s, 4, 2 * 32 + 2 * 64); /* the raw page 0-3 is free */
  for (int side = 0; side < 2; side++) p->leave(s, 0, side, KV_RAW, 5);
  must_hold(s, 4, 2 * 32 + 2 * 64); /* nothing in 4-7, but it is written to */
  s->block = 2;
  for (int side = 0; side < 2; side++)
    for (int t = 6; t < 8; t++) p->write(s, 0, side, KV_RAW, t);
  p->entered(s, 8);
  for (int side = 0; side < 2; side++) {
    p->leave(s, 0, side, KV_RAW, 6);
    p->leave(s, 0, side, KV_RAW, 7);
  }
  must_hold(s, 2, 2 * 64); /* full and empty: free */
  p->end(s);
  assert_true(p->sound(s));
  assert_int_equal(s->freed[0], 0);
  assert_int_equal(s->freed[1], 2 * 4 * 8);
  assert_int_equal(s->freed[2], 2 * 4 * 8);
  p->close(s);
  kv_layout_list_free(&l);
}

/* --- what is refused ----------------------------------------------------- */

static void test_refused(void **state) {
  static const char *const bad[] = {"",
                                    "slot",
                                    "slots:1",
                                    "pages",
                                    "pages:0",
                                    "pages:65537",
                                    "pages:4:",
                                    "pages:4:all",
                                    "pages:+4",
                                    "pages:4x",
                                    "slots,slots",
                                    "slots,",
                                    "pages:4,pages:4:lane"};
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    kv_layout_list l = {0};
    kv_err e = {0};
    if (kv_layouts_parse(bad[i], &l, &e) != KV_USAGE)
      fail_msg("\"%s\" is taken", bad[i]);
    assert_true(*e.text);
    kv_layout_list_free(&l);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_by_hand),
                                     cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests_name("layouts by hand", tests, NULL, NULL);
}

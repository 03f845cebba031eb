/* SPDX-License-Identifier: Apache-2.0
 *
 * For every test program, C or C++: includes cmocka after the headers that it
 * requires, and collects tests: tests_run runs those that TEST defines.
 */
#ifndef KV_TESTS_TEST_H
#define KV_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif
#include <cmocka.h>
#ifdef __cplusplus
}
#endif

/* The tests of this file, in the order of their lines. */
enum { TESTS_MOST = 64 };
static struct CMUnitTest tests_all[TESTS_MOST];
static int tests_line[TESTS_MOST], tests_n;

/* Adds a test, before main begins; TEST calls it. */
static inline void tests_add(int line, const char *name, CMUnitTestFunction f,
                             CMFixtureFunction set_up,
                             CMFixtureFunction tear_down) {
  const struct CMUnitTest t = {name, f, set_up, tear_down, NULL};
  int i = tests_n++;
  if (i >= TESTS_MOST) abort();
  for (; i > 0 && tests_line[i - 1] > line; i--) {
    tests_line[i] = tests_line[i - 1];
    tests_all[i] = tests_all[i - 1];
  }
  tests_line[i] = line;
  tests_all[i] = t;
}

/* Runs the file's tests as a group; set_up and tear_down, for all of them, may
 * be NULL. Returns main's result: 0 if there are some and all pass. */
static inline int tests_run(const char *name, CMFixtureFunction set_up,
                            CMFixtureFunction tear_down) {
  if (!tests_n) return 1;
  return _cmocka_run_group_tests(name, tests_all, (size_t)tests_n, set_up,
                                 tear_down);
}

/* Begins a test: TEST(name) { .. }. TEST_ON: a test that uses its `state`, from
 * its own fixture or, with NULL for both, from its group's. */
#define TEST(name) TESTS_ADD(name, NULL, NULL, no_state)
#define TEST_ON(name, set_up, tear_down)                                       \
  TESTS_ADD(name, set_up, tear_down, state)
#define TESTS_ADD(name, set_up, tear_down, state)                              \
  static void name(void **);                                                   \
  __attribute__((constructor)) static void name##_is_a_test(void) {            \
    tests_add(__LINE__, #name, name, set_up, tear_down);                       \
  }                                                                            \
  static void name(void **state __attribute__((unused)))

#endif

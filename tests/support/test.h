/* SPDX-License-Identifier: Apache-2.0
 *
 * For every test program, C or C++: cmocka, after the headers that it wants
 * included before it, and a list of the file's tests that needs no upkeep:
 *
 *   TEST(sums_commute) { .. }
 *   int main(void) { return test_all("sums", setup, teardown); }
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

enum { TEST_MOST = 64 }; /* of a file */

/* The file's tests by their lines. */
static struct CMUnitTest test_list[TEST_MOST];
static int test_line[TEST_MOST], test_count;

/* Constructors call this before main, in an order that the compiler chooses. */
static inline void test_add(int line, const char *name, CMUnitTestFunction f) {
  int i = test_count++;
  if (i == TEST_MOST) abort();
  for (; i > 0 && test_line[i - 1] > line; i--) {
    test_line[i] = test_line[i - 1];
    test_list[i] = test_list[i - 1];
  }
  test_line[i] = line;
  test_list[i].name = name;
  test_list[i].test_func = f;
}

/* Begins a test that uses no state of its group, and puts it on the list. */
#define TEST(name)                                                             \
  static void name(void **);                                                   \
  __attribute__((constructor)) static void name##_is_a_test(void) {            \
    test_add(__LINE__, #name, name);                                           \
  }                                                                            \
  static void name(void **no_state __attribute__((unused)))

/* Runs the tests of the file in the order of their lines; returns how many
 * failed. setup and teardown of the group may be NULL. */
static inline int test_all(const char *group, CMFixtureFunction setup,
                           CMFixtureFunction teardown) {
  return _cmocka_run_group_tests(group, test_list, (size_t)test_count, setup,
                                 teardown);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * For every test program: cmocka, after the headers that it wants included
 * before it.
 */
#ifndef KV_TESTS_TEST_H
#define KV_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Begins a test that uses no state of its group, for cmocka_unit_test(name):
 * TEST(name) { .. }. */
#define TEST(name) static void name(void **no_state __attribute__((unused)))

#endif

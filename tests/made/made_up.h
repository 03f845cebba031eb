/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of all published methods and of three made up for tests, so that a
 * test can name and compose any of them: kv_spec_parse(made_up_at, ..).
 */
#ifndef KV_TESTS_MADE_UP_H
#define KV_TESTS_MADE_UP_H

#include "ref/lane/method.h"

/* Every method of methods.mk, then mad, rest and sieve of tests/made; NULL past
 * the end. */
const kv_method *made_up_at(int i);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Methods that are in no registry beside those that are, for
 * kv_spec_parse(made_up_at, ..): a test can name any of them, and compose them.
 */
#ifndef KV_TESTS_MADE_UP_H
#define KV_TESTS_MADE_UP_H

#include "ref/lane/method.h"

/* Every method of methods.mk, then those of the tests (mad, rest, sieve); NULL
 * past the end. */
const kv_method *made_up_at(int i);

#endif

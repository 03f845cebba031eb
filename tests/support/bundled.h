/* SPDX-License-Identifier: Apache-2.0
 *
 * The bundled traces, wherever the tests are run from (top_srcdir). What goes
 * wrong fails the running test.
 */
#ifndef KV_TESTS_BUNDLED_H
#define KV_TESTS_BUNDLED_H

#include "traces/trace/trace.h"

#define BUNDLED_SMALL "retrieval_8_small.safetensors"

/* Path of a file of traces/tiny. Freed with free(). */
char *bundled_path(const char *name);
kv_trace *bundled_open(const char *name);

/* Group setup and teardown of cmocka: *state is BUNDLED_SMALL, opened. */
int bundled_setup(void **state);
int bundled_teardown(void **state);

#endif

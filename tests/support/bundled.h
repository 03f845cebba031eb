/* SPDX-License-Identifier: Apache-2.0
 *
 * The traces of traces/tiny, found below the environment variable top_srcdir,
 * or below the working folder if it is not set. Any failure fails the running
 * cmocka test.
 */
#ifndef KV_TESTS_BUNDLED_H
#define KV_TESTS_BUNDLED_H

#include "traces/trace/trace.h"

/* The smallest: a few hundred tokens. */
#define BUNDLED_SMALL "retrieval_8_small.safetensors"

/* Path of the file `name` of traces/tiny, which may not exist; for free(). */
char *bundled_path(const char *name);
/* That file, opened; for kv_trace_close. */
kv_trace *bundled_open(const char *name);

/* Setup and teardown of a cmocka group: *state is BUNDLED_SMALL, opened (a
 * kv_trace *). Return 0. */
int bundled_setup(void **state);
int bundled_teardown(void **state);

#endif

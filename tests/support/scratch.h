/* SPDX-License-Identifier: Apache-2.0
 *
 * A folder of its own for a test program: made before the first test, gone
 * after the last. The cache of identities lies in it too.
 */
#ifndef KV_TESTS_SCRATCH_H
#define KV_TESTS_SCRATCH_H

#include <stddef.h>

/* Group setup and teardown for cmocka. */
int scratch_make(void **state);
int scratch_remove(void **state);

const char *scratch_folder(void);

/* FOLDER/name; four calls until one is overwritten. */
const char *scratch_path(const char *name);

/* How many entries the folder has. */
int scratch_entries(void);

void scratch_write(const char *path, size_t n, const void *data);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A temporary folder for a test program, below /tmp: one a process, made before
 * the first test and deleted after the last.
 */
#ifndef KV_TESTS_SCRATCH_H
#define KV_TESTS_SCRATCH_H

#include <stddef.h>

/* Setup and teardown of a cmocka group; 0 on success. The first also sets
 * XDG_CACHE_HOME, so that the cache of trace identities is in the folder. */
int scratch_make(void **state);
int scratch_remove(void **state);

/* The folder's path. */
const char *scratch_folder(void);

/* FOLDER/name, in one of four static buffers taken in turn. */
const char *scratch_path(const char *name);

/* How many entries the folder has, including `.` and `..`. */
int scratch_entries(void);

/* Writes a file of n bytes; a failure fails the running test. */
void scratch_write(const char *path, size_t n, const void *data);

#endif

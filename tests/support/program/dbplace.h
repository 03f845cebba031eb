/* SPDX-License-Identifier: Apache-2.0
 *
 * An open database in a temporary folder, for tests: setup and teardown of
 * cmocka, and what such tests ask again and again. A failure fails the running
 * test unless a function returns it.
 */
#ifndef KV_TESTS_DBPLACE_H
#define KV_TESTS_DBPLACE_H

#include "sim/db/db_private.h"

typedef struct kv_dbplace {
  char folder[64], path[80]; /* the folder; the database's file in it */
  kv_db *db;                 /* open */
} kv_dbplace;

/* Setup and teardown of a test: *state is a kv_dbplace *. Return 0, or -1. */
int kv_dbplace_open(void **state);
int kv_dbplace_close(void **state);

/* The whole number in the first column of the first row. */
int64_t kv_dbplace_number(kv_db *db, const char *sql);
/* Recomputes the key of each row of the database at path, after a test has
 * changed fields that are part of it. */
void kv_dbplace_rekey(const char *path);
/* What a command that is about to compute r has of it: names, and no numbers;
 * for kv_db_find, then kv_result_free. */
kv_result kv_dbplace_names(const kv_result *r);
/* kv_db_put of r, in environment 0 of kv_rows_environment. */
kv_rc kv_dbplace_put(kv_db *db, const kv_result *r, kv_err *e);

#endif

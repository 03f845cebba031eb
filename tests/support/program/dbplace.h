/* SPDX-License-Identifier: Apache-2.0
 *
 * An open database in a temporary folder below the working one, for tests:
 * setup and teardown of cmocka, and queries that such tests share.
 */
#ifndef KV_TESTS_DBPLACE_H
#define KV_TESTS_DBPLACE_H

#include "sim/store/db_private.h"

typedef struct kv_dbplace {
  char folder[64], path[80]; /* the folder; the database's file in it */
  kv_db *db;                 /* open */
} kv_dbplace;

/* Setup and teardown of a test: *state is a kv_dbplace *, which close frees,
 * with the database and its folder. open returns -1 on failure, else 0; close
 * returns 0. */
int kv_dbplace_open(void **state);
int kv_dbplace_close(void **state);
/* Begins a test that has one (TEST_ON of tests/support/test.h). */
#define DB_TEST(name) TEST_ON(name, kv_dbplace_open, kv_dbplace_close)

/* The whole number in the first column of the first row that sql gives; -1:
 * there is no row, or sql fails. */
int64_t kv_dbplace_number(kv_db *db, const char *sql);
/* Fails the running test unless that number is n. */
void kv_dbplace_gives(const kv_dbplace *p, const char *sql, int64_t n);
/* Recomputes the key of each row with a result (status 'ok') of the database at
 * path, after a test has changed fields that are part of it. Aborts the program
 * on failure. */
void kv_dbplace_rekey(const char *path);
/* What a command knows of r before it computes it: its cell's identity, without
 * measures. For kv_db_find, then kv_result_free. */
kv_result kv_dbplace_names(const kv_result *r);
/* kv_db_put of r, as computed in the made-up environment
 * kv_rows_environment(0) of tests/support/rows.h; returns its code. */
kv_rc kv_dbplace_put(kv_db *db, const kv_result *r, kv_err *e);

#endif

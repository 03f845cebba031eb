/* SPDX-License-Identifier: Apache-2.0
 *
 * A database in a folder of its own, for tests: fixtures of cmocka and two
 * short cuts.
 */
#ifndef KV_TESTS_DBPLACE_H
#define KV_TESTS_DBPLACE_H

#include "sim/db/db_private.h"

typedef struct kv_dbplace {
  char folder[64], path[80];
  kv_db *db; /* open */
} kv_dbplace;

/* *state becomes a kv_dbplace *; 0, or -1. */
int kv_dbplace_open(void **state);
int kv_dbplace_close(void **state);

/* First column of the first row. */
int64_t kv_dbplace_number(kv_db *db, const char *sql);
/* Makes the key of each row anew from what the row says of itself, as whoever
 * changes a row with care does. */
void kv_dbplace_rekey(const char *path);
/* kv_db_put in the made-up environment 0. */
kv_rc kv_dbplace_put(kv_db *db, const kv_result *r, kv_err *e);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A database of 0.1.0 is read as a copy in memory that has the tables of today:
 * nothing is written where it lies. Memory: twice the file's size for a moment,
 * then once.
 */
#include "analysis/database/results.h"
#include "analysis/database/say.h"
#include "analysis/step_2_sql.h"

/* Every page of schema into the copy. */
static bool copy_pages(sqlite3 *db, const char *schema, sqlite3 *copy) {
  sqlite3_backup *b = sqlite3_backup_init(copy, "main", db, schema);
  bool done = b && sqlite3_backup_step(b, -1) == SQLITE_DONE;
  return !sqlite3_backup_finish(b) && done;
}

/* The copy as the bytes of a file. Bytes 18 and 19 say whether it has a log,
 * which no database in memory has. */
static bool put_in_place(sqlite3 *copy, sqlite3 *db, const char *schema) {
  sqlite3_int64 n = 0;
  unsigned char *bytes = sqlite3_serialize(copy, "main", &n, 0);
  if (!bytes) return false;
  bytes[18] = bytes[19] = 1;
  return !sqlite3_deserialize(db, schema, bytes, n, n,
                              SQLITE_DESERIALIZE_FREEONCLOSE |
                                  SQLITE_DESERIALIZE_READONLY);
}

int kv_results_forward(sqlite3 *db, const char *schema, const char *path) {
  sqlite3 *copy = NULL;
  int rc = KV_EXIT_OK;
  if (sqlite3_open(":memory:", &copy) || kv_results_guard(copy) ||
      !copy_pages(db, schema, copy) ||
      sqlite3_exec(copy, step_2_sql, NULL, NULL, NULL) ||
      sqlite3_exec(copy, "PRAGMA user_version = 2", NULL, NULL, NULL))
    rc = kv_results_fail(copy, path);
  else if (!put_in_place(copy, db, schema))
    rc = kv_results_fail(db, path);
  sqlite3_close(copy);
  return rc;
}

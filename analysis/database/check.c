/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold of a database before anything in it is shown: it is kvreplay's
 * and of a version that is known, and its values are as kvreplay writes them
 * (laws.c). SQLite holds types and some of this for who writes through it; a
 * file from elsewhere may hold anything. All readers of analysis/ rely on it.
 * Cost: one scan of each table, of two tables at a time. The numbers of the
 * version are those that kvreplay writes into the head of its databases.
 */
#include "analysis/database/laws.h"
#include "analysis/database/results.h"
#include "analysis/database/say.h"

#include <string.h>

enum { APPLICATION = 0x6b767270, VERSION_KNOWN = 2 };

static int check_rows(sqlite3 *db, const char *schema, const char *path) {
  int rc = KV_EXIT_OK;
  for (int i = 0; kv_results_tables[i] && !rc; i++)
    rc = kv_laws_check(db, schema, kv_results_tables[i], path);
  return rc;
}

static bool others_hold(sqlite3 *db) {
  int rc = KV_EXIT_OK;
  for (int i = 0; kv_results_tables[i] && !rc; i++)
    if (strcmp(kv_results_tables[i], "metric") != 0)
      rc = kv_laws_check(db, "main", kv_results_tables[i], NULL);
  return !rc;
}

/* metric is most of a database, and db reads its pages again: it is scanned by
 * db, the others meanwhile by another connection. Where not all is well, or
 * that could not be seen, db scans all in order and tells of the first. */
static int check_file(sqlite3 *db, const char *path) {
  bool metric = false, others = false;
  sqlite3 *other = NULL;
  int rc = kv_results_connect(path, &other);
  if (rc) return rc;
#pragma omp parallel sections num_threads(2)
  {
#pragma omp section
    metric = !kv_laws_check(db, "main", "metric", NULL);
#pragma omp section
    others = others_hold(other);
  }
  sqlite3_close(other);
  return metric && others ? KV_EXIT_OK : check_rows(db, "main", path);
}

/* Any number may be the answer. */
static bool pragma(sqlite3 *db, const char *schema, const char *name, int *n) {
  sqlite3_stmt *s = NULL;
  char *sql = sqlite3_mprintf("PRAGMA %s.%s", schema, name);
  bool answered = sql && !sqlite3_prepare_v2(db, sql, -1, &s, NULL) &&
                  sqlite3_step(s) == SQLITE_ROW;
  if (answered) *n = sqlite3_column_int(s, 0);
  sqlite3_finalize(s);
  sqlite3_free(sql);
  return answered;
}

int kv_results_check(sqlite3 *db, const char *schema, const char *path,
                     bool write) {
  int application = 0, version = 0;
  if (!pragma(db, schema, "application_id", &application) ||
      !pragma(db, schema, "user_version", &version))
    return kv_results_fail(db, path);
  if (application != APPLICATION)
    return kv_tell(KV_EXIT_INPUT,
                   "%s is not a kvreplay database: make one with 'kvreplay "
                   "run ... --db FILE'",
                   path);
  if (version > VERSION_KNOWN)
    return kv_tell(KV_EXIT_INPUT,
                   "%s was written by a later kvreplay (version %d, this "
                   "kvreport knows %d): update kvreport",
                   path, version, VERSION_KNOWN);
  if (version < 1)
    return kv_tell(KV_EXIT_INPUT,
                   "%s is of version %d, which no kvreplay writes: restore it "
                   "from a copy",
                   path, version);
  if (version < VERSION_KNOWN && write)
    return kv_tell(KV_EXIT_INPUT,
                   "%s was written by an earlier kvreplay (version %d): name a "
                   "new file, and this one among those to merge",
                   path, version);
  if (version == VERSION_KNOWN && !strcmp(schema, "main"))
    return check_file(db, path);
  int rc = version < VERSION_KNOWN ? kv_results_forward(db, schema, path)
                                   : KV_EXIT_OK;
  return rc ? rc : check_rows(db, schema, path);
}

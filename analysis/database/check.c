/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold of a database before anything in it is shown: it is kvreplay's
 * and of a version that is known, and its values are as kvreplay writes them
 * (laws.c). SQLite holds types and some of this for who writes through it; a
 * file from elsewhere may hold anything. All readers of analysis/ rely on it.
 * Cost: one scan of each table. The numbers of the version are those that
 * kvreplay writes into the head of its databases.
 */
#include "analysis/database/laws.h"
#include "analysis/database/results.h"
#include "analysis/database/say.h"

enum { APPLICATION = 0x6b767270, VERSION_KNOWN = 2 };

static int check_rows(sqlite3 *db, const char *schema, const char *path) {
  int rc = KV_EXIT_OK;
  for (int i = 0; kv_results_tables[i] && !rc; i++)
    rc = kv_laws_check(db, schema, kv_results_tables[i], path);
  return rc;
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
  int rc = version < VERSION_KNOWN ? kv_results_forward(db, schema, path)
                                   : KV_EXIT_OK;
  return rc ? rc : check_rows(db, schema, path);
}

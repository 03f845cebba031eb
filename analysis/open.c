/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening to read. The numbers below are those that kvreplay writes into the
 * head of its databases.
 */
#include "analysis/grid.h"
#include "analysis/say.h"
#include "analysis/views_sql.h"

#include <unistd.h>

enum { APPLICATION = 0x6b767270, VERSION_KNOWN = 5 };

int kv_results_fail(sqlite3 *db, const char *path) {
  int code = db ? sqlite3_errcode(db) & 0xff : SQLITE_NOMEM;
  if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
    return kv_say(KV_EXIT_INPUT,
                  "%s is not a kvreplay database: make one with 'kvreplay "
                  "run ... --db FILE'",
                  path);
  /* No code: a text that SQLite was to run could not be made. */
  return kv_say(KV_EXIT_RESOURCE, "cannot use %s: %s", path,
                code && db ? sqlite3_errmsg(db) : "out of memory");
}

static int pragma(sqlite3 *db, const char *schema, const char *name) {
  sqlite3_stmt *s = NULL;
  char *sql = sqlite3_mprintf("PRAGMA %s.%s", schema, name);
  int n = -1;
  if (sql && !sqlite3_prepare_v2(db, sql, -1, &s, NULL) &&
      sqlite3_step(s) == SQLITE_ROW)
    n = sqlite3_column_int(s, 0);
  sqlite3_finalize(s);
  sqlite3_free(sql);
  return n;
}

int kv_results_check(sqlite3 *db, const char *schema, const char *path) {
  int application = pragma(db, schema, "application_id");
  int version = pragma(db, schema, "user_version");
  if (application < 0 || version < 0) return kv_results_fail(db, path);
  if (application != APPLICATION)
    return kv_say(KV_EXIT_INPUT,
                  "%s is not a kvreplay database: make one with 'kvreplay "
                  "run ... --db FILE'",
                  path);
  if (version > VERSION_KNOWN)
    return kv_say(KV_EXIT_INPUT,
                  "%s was written by a later kvreplay (version %d, this "
                  "kvreport knows %d): update kvreport",
                  path, version, VERSION_KNOWN);
  if (version < VERSION_KNOWN)
    return kv_say(KV_EXIT_INPUT,
                  "%s was written by an earlier kvreplay (version %d): any "
                  "'kvreplay run ... --db %s' brings it to version %d",
                  path, version, path, VERSION_KNOWN);
  return KV_EXIT_OK;
}

int kv_results_open(const char *path, sqlite3 **db) {
  int rc;
  *db = NULL;
  if (access(path, R_OK))
    return kv_say(KV_EXIT_INPUT,
                  "there is no readable file %s: name the "
                  "database that 'kvreplay run --db' wrote",
                  path);
  if (sqlite3_open_v2(path, db, SQLITE_OPEN_READWRITE, NULL))
    rc = kv_results_fail(*db, path);
  else {
    sqlite3_busy_timeout(*db, 60000);
    rc = kv_results_check(*db, "main", path);
  }
  if (!rc && sqlite3_exec(*db, views_sql, NULL, NULL, NULL))
    rc = kv_results_fail(*db, path);
  if (rc) {
    sqlite3_close(*db);
    *db = NULL;
  }
  return rc;
}

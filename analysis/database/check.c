/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold before anything of a database is shown: it is kvreplay's, has
 * the schema of this program, and its values are as kvreplay writes them
 * (laws.c). SQLite enforces types and some of this only for writers that use
 * it; a file from elsewhere may contain anything. All readers in analysis/ rely
 * on it. Cost: one scan of each table, two at a time.
 */
#include "analysis/database/laws.h"
#include "analysis/database/results.h"
#include "analysis/database/say.h"
#include "sim/store/tables.h"

#include <omp.h>
#include <string.h>

static bool ask(sqlite3 *db, const char *question, const char *schema, int *n) {
  sqlite3_stmt *s = NULL;
  char *sql = sqlite3_mprintf(question, schema);
  bool answered = sql && !sqlite3_prepare_v2(db, sql, -1, &s, NULL) &&
                  sqlite3_step(s) == SQLITE_ROW;
  if (answered) *n = sqlite3_column_int(s, 0);
  sqlite3_finalize(s);
  sqlite3_free(sql);
  return answered;
}

int kv_results_schema(sqlite3 *db, const char *schema, const char *path) {
  int application = 0, version = 0;
  if (!ask(db, "PRAGMA %s.application_id", schema, &application) ||
      !ask(db, "PRAGMA %s.user_version", schema, &version))
    return kv_results_fail(db, path);
  if (application != KV_DB_APPLICATION)
    return kv_tell(KV_EXIT_INPUT,
                   "%s is not a kvreplay database; make one with 'kvreplay run "
                   "... --db FILE'",
                   path);
  if (version == kv_db_schema) return KV_EXIT_OK;
  return kv_tell(KV_EXIT_INPUT,
                 "%s has schema %d, but this kvreport reads only schema %d; "
                 "use the kvreport that came with its kvreplay, or run the "
                 "replays again into a new file",
                 path, version, kv_db_schema);
}

int kv_results_check(sqlite3 *db, const char *schema, const char *path) {
  int rc = KV_EXIT_OK;
  for (int i = 0; i < KV_DB_UNION && !rc; i++)
    rc = kv_laws_check(db, schema, kv_db_table_list[i], path);
  return rc;
}

/* Two connections check table after table, db after it has run sql. Prints
 * nothing; *answered: sql succeeded. */
static bool both_hold(sqlite3 *db, sqlite3 *other, const char *sql,
                      bool *answered) {
  int broken = 0;
#pragma omp parallel num_threads(2) reduction(+ : broken)
  {
#pragma omp master
    *answered = !sqlite3_exec(db, sql, NULL, NULL, NULL);
#pragma omp for schedule(dynamic, 1)
    for (int i = 0; i < KV_DB_UNION; i++) /* first metric, the largest */
      broken +=
          kv_laws_check(omp_get_thread_num() ? other : db, "main",
                        kv_db_table_list[(i + KV_DB_metric) % KV_DB_UNION],
                        NULL) != KV_EXIT_OK;
  }
  return !broken;
}

/* If anything is wrong, or could not be checked, everything is checked in
 * order, and the first problem is printed. */
int kv_results_check_while(sqlite3 *db, const char *path, const char *sql) {
  bool answered = false, file = *sqlite3_db_filename(db, "main");
  sqlite3 *other = NULL;
  int rc = file ? kv_results_connect(path, &other) : KV_EXIT_OK;
  if (rc) return rc;
  /* It only scans, so caching its pages is useless. */
  if (file) sqlite3_exec(other, "PRAGMA cache_size = -1000", NULL, NULL, NULL);
  if (!file || !both_hold(db, other, sql, &answered))
    rc = kv_results_check(db, "main", path);
  sqlite3_close(other);
  if (rc || answered) return rc;
  if (!sqlite3_get_autocommit(db))
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
  return sqlite3_exec(db, sql, NULL, NULL, NULL) ? kv_results_fail(db, path)
                                                 : KV_EXIT_OK;
}

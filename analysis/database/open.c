/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/database/results.h"
#include "analysis/database/say.h"
#include "analysis/views_sql.h"

int kv_results_connect(const char *path, sqlite3 **db) {
  char *uri = NULL;
  int rc = kv_results_there(path);
  *db = NULL;
  if (!rc) rc = kv_results_name(path, &uri);
  if (rc) return rc;
  if (sqlite3_open_v2(uri, db,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI |
                          SQLITE_OPEN_NOMUTEX,
                      NULL) ||
      kv_results_guard(*db)) {
    rc = kv_results_fail(*db, path);
    sqlite3_close(*db);
    *db = NULL;
  } else
    kv_results_wait(*db, path);
  sqlite3_free(uri);
  return rc;
}

/* A table cannot have the name of the view that fills it, and renaming a table
 * would change the views that read it. */
#define KEEP(view)                                                             \
  "CREATE TEMP TABLE kept AS SELECT * FROM " view ";"                          \
  "DROP VIEW temp." view ";"                                                   \
  "CREATE TEMP TABLE " view " AS SELECT * FROM kept;"                          \
  "DROP TABLE kept;"

static int open_while(const char *path, const char *sql, sqlite3 **db) {
  int rc = kv_results_connect(path, db);
  if (!rc) rc = kv_results_schema(*db, "main", path);
  if (!rc && (kv_results_functions(*db) ||
              sqlite3_exec(*db, views_sql, NULL, NULL, NULL)))
    rc = kv_results_fail(*db, path);
  if (!rc) rc = kv_results_check_while(*db, path, sql);
  if (rc) {
    sqlite3_close(*db);
    *db = NULL;
  }
  return rc;
}

int kv_results_open(const char *path, sqlite3 **db) {
  return open_while(path, "", db);
}

int kv_results_open_kept(const char *path, sqlite3 **db) {
  return open_while(path,
                    "BEGIN;" KEEP("trace") KEEP("aged") KEEP("counted")
                        KEEP("stored") KEEP("measured") KEEP("binned")
                            KEEP("unsure") KEEP("cell") KEEP("gap") "COMMIT",
                    db);
}

static int run(sqlite3 *db, const char *path, const char *sql) {
  return sqlite3_exec(db, sql, NULL, NULL, NULL) ? kv_results_fail(db, path)
                                                 : KV_EXIT_OK;
}

int kv_results_keep_lines(sqlite3 *db, const char *path) {
  return run(db, path, KEEP("pictured") KEEP("summary") KEEP("drifts"));
}

int kv_results_answers(sqlite3 *db, const char *path) {
  return run(db, path,
             "INSERT INTO newest_evaluation SELECT * FROM newest_evaluations;"
             "INSERT INTO item_mean SELECT * FROM item_means;"
             "INSERT INTO task_mean SELECT * FROM task_means;"
             "INSERT INTO right_interval SELECT * FROM right_intervals");
}

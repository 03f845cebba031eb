/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening to read. The numbers below are those that kvreplay writes into the
 * head of its databases.
 *
 * A database may lie where no file can be made beside it, on a read-only disk
 * or in somebody's folder. One that kvreplay closed is read there like any
 * other; one whose last writer was killed, or that was copied while it was
 * open, still says that it has a write-ahead log. Without the log it is whole,
 * and nobody writes to it: it is opened as immutable. With one that cannot be
 * replayed there, it is refused.
 */
#include "analysis/deltakv_sql.h"
#include "analysis/formats_sql.h"
#include "analysis/grid.h"
#include "analysis/means_sql.h"
#include "analysis/pictures_sql.h"
#include "analysis/residuals_sql.h"
#include "analysis/say.h"
#include "analysis/selection_sql.h"
#include "analysis/views_sql.h"

#include <ctype.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { APPLICATION = 0x6b767270, VERSION_KNOWN = 24 };

int kv_results_fail(sqlite3 *db, const char *path) {
  int code = db ? sqlite3_errcode(db) & 0xff : SQLITE_NOMEM;
  if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
    return kv_tell(KV_EXIT_INPUT,
                   "%s is not a kvreplay database: make one with 'kvreplay "
                   "run ... --db FILE'",
                   path);
  if (db && sqlite3_extended_errcode(db) == SQLITE_READONLY_ROLLBACK)
    return kv_tell(KV_EXIT_RESOURCE,
                   "%s was left in the middle of a change, and nothing can be "
                   "written where it lies: copy it and %s-journal to a folder "
                   "of yours",
                   path, path);
  if (code == SQLITE_ERROR || code == SQLITE_SCHEMA)
    return kv_tell(KV_EXIT_INPUT,
                   "%s does not have the tables of a kvreplay database (%s): "
                   "restore it from a copy",
                   path, sqlite3_errmsg(db));
  /* No code: a text that SQLite was to run could not be made. */
  return kv_tell(KV_EXIT_RESOURCE, "cannot use %s: %s", path,
                 code && db ? sqlite3_errmsg(db) : "out of memory");
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

int kv_results_check(sqlite3 *db, const char *schema, const char *path) {
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
  if (version < 0)
    return kv_tell(KV_EXIT_INPUT,
                   "%s is of version %d, which no kvreplay writes: restore it "
                   "from a copy",
                   path, version);
  if (version < VERSION_KNOWN)
    return kv_tell(KV_EXIT_INPUT,
                   "%s was written by an earlier kvreplay (version %d): any "
                   "'kvreplay run ... --db %s' brings it to version %d",
                   path, version, path, VERSION_KNOWN);
  return kv_results_check_rows(db, schema, path);
}

/* --- where it lies -------------------------------------------------------- */

static bool beside(const char *path, const char *tail, struct stat *st) {
  char *name = sqlite3_mprintf("%s%s", path, tail);
  bool there = name && !stat(name, st);
  sqlite3_free(name);
  return there;
}

/* May a file be made in the folder of path? */
static bool can_write_beside(const char *path) {
  const char *slash = strrchr(path, '/');
  char *folder = slash ? sqlite3_mprintf("%.*s", (int)(slash - path) + 1, path)
                       : sqlite3_mprintf(".");
  bool can = !folder || !access(folder, W_OK);
  sqlite3_free(folder);
  return can;
}

/* Byte 18 of a database: 2 where it is written through a log. */
static bool has_log(const char *path) {
  char head[20] = "";
  FILE *f = fopen(path, "rb");
  size_t n = f ? fread(head, 1, sizeof head, f) : 0;
  if (f) fclose(f);
  return n == sizeof head && head[18] == 2;
}

static void add_escaped(sqlite3_str *s, const char *path) {
  if (*path == '/') sqlite3_str_appendall(s, "//"); /* no name of a host */
  for (; *path; path++)
    if (isalnum((unsigned char)*path) || strchr("/._-", *path))
      sqlite3_str_appendchar(s, 1, *path);
    else
      sqlite3_str_appendf(s, "%%%02x", (unsigned)(unsigned char)*path);
}

int kv_results_name(const char *path, char **uri) {
  struct stat log, shared;
  bool still = !can_write_beside(path) && has_log(path);
  bool kept = beside(path, "-wal", &log);
  bool live = kept && beside(path, "-shm", &shared); /* open elsewhere */
  sqlite3_str *s = sqlite3_str_new(NULL);
  *uri = NULL;
  if (still && !live && kept && log.st_size) {
    sqlite3_free(sqlite3_str_finish(s));
    return kv_tell(KV_EXIT_RESOURCE,
                   "%s-wal holds results that are not in %s yet, and nothing "
                   "can be written where they lie: copy both to a folder of "
                   "yours",
                   path, path);
  }
  sqlite3_str_appendall(s, "file:");
  add_escaped(s, path);
  if (still && !live) sqlite3_str_appendall(s, "?immutable=1");
  *uri = sqlite3_str_finish(s);
  return *uri ? KV_EXIT_OK : kv_tell(KV_EXIT_RESOURCE, "not enough memory");
}

/* --- opening -------------------------------------------------------------- */

int kv_results_guard(sqlite3 *db) {
  static const int option[] = {
      SQLITE_DBCONFIG_DEFENSIVE, SQLITE_DBCONFIG_ENABLE_TRIGGER,
      SQLITE_DBCONFIG_ENABLE_VIEW, SQLITE_DBCONFIG_TRUSTED_SCHEMA};
  for (int i = 0; i < 4; i++)
    sqlite3_db_config(db, option[i], option[i] == SQLITE_DBCONFIG_DEFENSIVE,
                      NULL);
  return sqlite3_exec(db, "PRAGMA cell_size_check = ON", NULL, NULL, NULL);
}

int kv_results_there(const char *path) {
  struct stat s;
  if (!access(path, R_OK) && !stat(path, &s) && S_ISREG(s.st_mode))
    return KV_EXIT_OK;
  return kv_tell(KV_EXIT_INPUT,
                 "there is no readable file %s: name the "
                 "database that 'kvreplay run --db' wrote",
                 path);
}

/* Of SQLite, every 25 ms: a minute in all, told after a moment. */
static int wait_aloud(void *path, int asked) {
  enum { EVERY_MS = 25, TOLD = 20, MOST = 2400 };
  struct timespec a_while = {0, EVERY_MS * 1000000};
  if (asked == TOLD)
    kv_tell(KV_EXIT_OK, "waiting for %s, which another process writes",
            (const char *)path);
  nanosleep(&a_while, NULL);
  return asked < MOST;
}

void kv_results_wait(sqlite3 *db, const char *path) {
  sqlite3_busy_handler(db, wait_aloud, (void *)path);
}

int kv_results_open(const char *path, sqlite3 **db) {
  char *uri = NULL;
  int rc = kv_results_there(path);
  *db = NULL;
  if (!rc) rc = kv_results_name(path, &uri);
  if (rc) return rc;
  if (sqlite3_open_v2(uri, db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI, NULL) ||
      kv_results_guard(*db))
    rc = kv_results_fail(*db, path);
  else {
    kv_results_wait(*db, path);
    rc = kv_results_check(*db, "main", path);
  }
  sqlite3_free(uri);
  if (!rc && (kv_results_functions(*db) ||
              sqlite3_exec(*db, views_sql, NULL, NULL, NULL) ||
              sqlite3_exec(*db, means_sql, NULL, NULL, NULL) ||
              sqlite3_exec(*db, pictures_sql, NULL, NULL, NULL) ||
              sqlite3_exec(*db, formats_sql, NULL, NULL, NULL) ||
              sqlite3_exec(*db, residuals_sql, NULL, NULL, NULL) ||
              sqlite3_exec(*db, deltakv_sql, NULL, NULL, NULL) ||
              sqlite3_exec(*db, selection_sql, NULL, NULL, NULL)))
    rc = kv_results_fail(*db, path);
  if (rc) {
    sqlite3_close(*db);
    *db = NULL;
  }
  return rc;
}

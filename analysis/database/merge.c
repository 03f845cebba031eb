/* SPDX-License-Identifier: Apache-2.0
 *
 * kvreport merge OUT DB...: the union of results. It is associative,
 * commutative and idempotent, because rows are named by their contents
 * (sim/store/union.h). It refuses two values under one key, naming both: that
 * is the cross-check.
 *
 * The union is built in a temporary database. OUT is written last: a new OUT
 * appears by renaming a finished file, an existing one gets everything in one
 * transaction. A refusal leaves OUT unchanged.
 */
#include "analysis/database/results.h"
#include "analysis/database/say.h"
#include "sim/store/union.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int run(sqlite3 *db, char *sql) {
  int bad = !sql || sqlite3_exec(db, sql, NULL, NULL, NULL);
  sqlite3_free(sql);
  return bad ? kv_results_fail(db, "a database to merge") : KV_EXIT_OK;
}

static int contradicts(const char *path, const char *owner, const char *what) {
  return kv_tell(KV_EXIT_DIFFERENT,
                 "%s contradicts an earlier database: %s%s%s; nothing was "
                 "merged, so find out which is wrong",
                 path, owner, *owner ? ": " : "", what);
}

/* --- the union ------------------------------------------------------------ */

static int attach(sqlite3 *db, const char *path) {
  char *sql, *uri = NULL;
  int bad = kv_results_there(path);
  if (!bad) bad = kv_results_name(path, &uri);
  if (bad) return bad;
  sql = sqlite3_mprintf("ATTACH %Q AS source", uri);
  sqlite3_free(uri);
  bad = !sql || sqlite3_exec(db, sql, NULL, NULL, NULL);
  sqlite3_free(sql);
  if (bad) return kv_results_fail(db, path);
  bad = kv_results_schema(db, "source", path);
  return bad ? bad : kv_results_check(db, "source", path);
}

/* Makes the tables of a kvreplay database. */
static int make_tables(sqlite3 *db) {
  int rc = run(db, kv_db_schema_sql("main"));
  if (!rc) rc = run(db, sqlite3_mprintf("%s", kv_db_views));
  return rc ? rc
            : run(db, sqlite3_mprintf("PRAGMA main.application_id = %d;"
                                      "PRAGMA main.user_version = %d",
                                      KV_DB_APPLICATION, kv_db_schema));
}

/* KV_EXIT_DIFFERENT if both have other digests or numbers under one key; prints
 * the first such key, with the path of `source`. What only one of them has does
 * not contradict. */
static int compare(sqlite3 *db, const char *path) {
  kv_db_union u = {.sql = db, .to = "main", .from = "source"};
  kv_db_difference d;
  bool found;
  int bad = kv_db_differs(&u, "there", "here", &found, &d), rc = KV_EXIT_OK;
  if (bad)
    rc = kv_results_fail(db, path);
  else if (found)
    rc = contradicts(path, d.owner, d.what);
  kv_db_union_close(&u);
  return rc;
}

static int join(sqlite3 *db, const char *to, const char *from) {
  kv_db_union u = {.sql = db, .to = to, .from = from};
  int rc =
      kv_db_join(&u) ? kv_results_fail(db, "a database to merge") : KV_EXIT_OK;
  kv_db_union_close(&u);
  return rc;
}

static int add(sqlite3 *db, const char *path) {
  int rc = attach(db, path), end;
  if (!rc) rc = compare(db, path);
  if (!rc) rc = run(db, sqlite3_mprintf("BEGIN"));
  if (!rc) rc = join(db, "main", "source");
  if (!sqlite3_get_autocommit(db)) {
    end = run(db, sqlite3_mprintf(rc ? "ROLLBACK" : "COMMIT"));
    if (!rc) rc = end;
  }
  return rc ? rc : run(db, sqlite3_mprintf("DETACH source"));
}

/* --- writing OUT ---------------------------------------------------------- */

static int write_new(sqlite3 *db, const char *out) {
  /* After "./" a name that begins with "file:" is no URI. */
  char *part = sqlite3_mprintf("%s%s.%d.part", *out == '/' ? "" : "./", out,
                               (int)getpid());
  int rc, fd;
  if (!part) return kv_tell_short();
  rc = run(db, sqlite3_mprintf("VACUUM main INTO %Q", part));
  fd = rc ? -1 : open(part, O_RDWR);
  if (!rc && (fd < 0 || fsync(fd) || rename(part, out)))
    rc = kv_tell(KV_EXIT_RESOURCE, "cannot write %s: %s", out, strerror(errno));
  if (fd >= 0) close(fd);
  if (rc) unlink(part);
  sqlite3_free(part);
  return rc;
}

static int write_into(sqlite3 *db, const char *out) {
  int rc = attach(db, out), end;
  if (!rc) rc = run(db, sqlite3_mprintf("PRAGMA source.synchronous = FULL"));
  if (!rc) rc = run(db, sqlite3_mprintf("BEGIN IMMEDIATE"));
  if (!rc) rc = compare(db, out);
  if (!rc) rc = join(db, "source", "main");
  if (!sqlite3_get_autocommit(db)) {
    end = run(db, sqlite3_mprintf(rc ? "ROLLBACK" : "COMMIT"));
    if (!rc) rc = end;
  }
  return rc;
}

/* OUT keeps its contents anyway, so naming it twice is an error. */
static int not_read(const kv_list *files) {
  struct stat out, in;
  if (stat(files->item[0], &out)) return KV_EXIT_OK;
  for (int i = 1; i < files->n; i++)
    if (!stat(files->item[i], &in) && in.st_dev == out.st_dev &&
        in.st_ino == out.st_ino)
      return kv_tell(KV_EXIT_USAGE,
                     "%s would overwrite %s, which is read; OUT already keeps "
                     "its own results, so name it once",
                     files->item[0], files->item[i]);
  return KV_EXIT_OK;
}

int kv_results_merge(const kv_list *files) {
  bool there = !access(files->item[0], F_OK);
  sqlite3 *db = NULL;
  const int how = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI;
  int rc = not_read(files);
  if (rc) return rc;
  if (sqlite3_open_v2("", &db, how, NULL) || kv_results_guard(db))
    rc = kv_results_fail(db, "a temporary database");
  else
    kv_results_wait(db, files->item[0]);
  if (!rc) rc = make_tables(db);
  for (int i = 1; i < files->n && !rc; i++) rc = add(db, files->item[i]);
  if (!rc)
    rc = there ? write_into(db, files->item[0]) : write_new(db, files->item[0]);
  sqlite3_close(db);
  return rc;
}

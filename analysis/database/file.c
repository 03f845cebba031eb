/* SPDX-License-Identifier: Apache-2.0
 *
 * A database as a file, and what SQLite reports about it.
 *
 * A database may be in a folder where no file can be made: on a read-only disk,
 * or somebody else's. One that kvreplay closed is read there like any other.
 * One whose last writer was killed, or that was copied while open, still claims
 * to have a write-ahead log. Without the log it is complete and nobody writes
 * to it, so it is opened as immutable. With a log that cannot be replayed
 * there, it is refused.
 */
#include "analysis/database/results.h"
#include "analysis/database/say.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int kv_results_fail(sqlite3 *db, const char *path) {
  int code = db ? sqlite3_errcode(db) & 0xff : SQLITE_NOMEM;
  if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
    return kv_tell(KV_EXIT_INPUT,
                   "%s is not a kvreplay database; make one with 'kvreplay run "
                   "... --db FILE'",
                   path);
  if (db && sqlite3_extended_errcode(db) == SQLITE_READONLY_ROLLBACK)
    return kv_tell(KV_EXIT_RESOURCE,
                   "%s was left in the middle of a change, and its folder is "
                   "read-only; copy it and %s-journal to a folder of yours",
                   path, path);
  if (code == SQLITE_ERROR || code == SQLITE_SCHEMA)
    return kv_tell(KV_EXIT_INPUT,
                   "%s does not have the tables of a kvreplay database (%s); "
                   "restore it from a copy",
                   path, sqlite3_errmsg(db));
  /* No code: there was no memory for the SQL. */
  return kv_tell(KV_EXIT_RESOURCE, "cannot use %s: %s", path,
                 code && db ? sqlite3_errmsg(db) : "out of memory");
}

/* --- its folder ----------------------------------------------------------- */

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

/* Byte 18 of a database is 2 if it is written through a log. */
static bool has_log(const char *path) {
  char head[20] = "";
  FILE *f = fopen(path, "rb");
  size_t n = f ? fread(head, 1, sizeof head, f) : 0;
  if (f) fclose(f);
  return n == sizeof head && head[18] == 2;
}

static void add_escaped(sqlite3_str *s, const char *path) {
  if (*path == '/') sqlite3_str_appendall(s, "//"); /* no host name */
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
                   "%s-wal holds results that are not yet in %s, and their "
                   "folder is read-only; copy both to a folder of yours",
                   path, path);
  }
  sqlite3_str_appendall(s, "file:");
  add_escaped(s, path);
  if (still && !live) sqlite3_str_appendall(s, "?immutable=1");
  *uri = sqlite3_str_finish(s);
  return *uri ? KV_EXIT_OK : kv_tell_short();
}

/* --- waiting and guarding ------------------------------------------------- */

/* Temporary results stay in memory, with up to 200 MB of the database's pages,
 * most of which several views read. */
int kv_results_guard(sqlite3 *db) {
  static const int option[] = {
      SQLITE_DBCONFIG_DEFENSIVE, SQLITE_DBCONFIG_ENABLE_TRIGGER,
      SQLITE_DBCONFIG_ENABLE_VIEW, SQLITE_DBCONFIG_TRUSTED_SCHEMA};
  for (int i = 0; i < 4; i++)
    sqlite3_db_config(db, option[i], option[i] == SQLITE_DBCONFIG_DEFENSIVE,
                      NULL);
  return sqlite3_exec(db,
                      "PRAGMA cell_size_check = ON;"
                      "PRAGMA temp_store = MEMORY; PRAGMA cache_size = -200000",
                      NULL, NULL, NULL);
}

int kv_results_there(const char *path) {
  struct stat s;
  if (!access(path, R_OK) && !stat(path, &s) && S_ISREG(s.st_mode))
    return KV_EXIT_OK;
  return kv_tell(
      KV_EXIT_INPUT,
      "cannot read %s; name a database that 'kvreplay run --db' wrote", path);
}

/* SQLite calls it every 25 ms, for up to a minute; prints after half a
 * second. */
static int wait_aloud(void *path, int asked) {
  enum { EVERY_MS = 25, TOLD = 20, MOST = 2400 };
  struct timespec a_while = {0, EVERY_MS * 1000000};
  if (asked == TOLD)
    kv_tell(KV_EXIT_OK, "waiting for %s, which another process is writing",
            (const char *)path);
  nanosleep(&a_while, NULL);
  return asked < MOST;
}

void kv_results_wait(sqlite3 *db, const char *path) {
  sqlite3_busy_handler(db, wait_aloud, (void *)path);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * A database that can only be read: on a read-only disk, or owned by somebody
 * else. If it was closed properly it is read like any other. If its last writer
 * was killed, or it was copied while open, its header still says that it has a
 * log. If no log file exists, the database is complete and nobody writes to it,
 * so it is opened as immutable. If one exists, it cannot be replayed on a
 * read-only disk, so the database is refused.
 */
#include "sim/store/db_private.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool kv_db_still(const kv_db *db) { return db->still; }

static bool beside(const char *path, const char *tail, struct stat *st) {
  char name[sizeof((kv_db *)0)->path + 8];
  snprintf(name, sizeof name, "%s%s", path, tail);
  return !stat(name, st);
}

/* Can the file be written, and files created next to it? */
static bool can_write(const char *path) {
  char folder[sizeof((kv_db *)0)->path];
  char *slash;
  snprintf(folder, sizeof folder, "%s", path);
  slash = strrchr(folder, '/');
  strcpy(slash ? slash + 1 : folder, slash ? "" : ".");
  return !access(path, W_OK) && !access(folder, W_OK);
}

/* Is byte 18 of the file 2? The database is then in WAL mode. */
static bool has_log(const char *path) {
  char head[20] = "";
  FILE *f = fopen(path, "rb");
  size_t n = f ? fread(head, 1, sizeof head, f) : 0;
  if (f) fclose(f);
  return n == sizeof head && head[18] == 2;
}

/* Writes the path as SQLite needs it in a URI. */
static void name_file(const char *path, bool immutable, size_t size,
                      char *out) {
  size_t n = (size_t)snprintf(out, size, "file:%s", *path == '/' ? "//" : "");
  for (; *path && n < size; path++)
    n += (size_t)snprintf(out + n, size - n,
                          isalnum((unsigned char)*path) || strchr("/._-", *path)
                              ? "%c"
                              : "%%%02x",
                          (unsigned char)*path);
  if (n < size)
    snprintf(out + n, size - n, "%s", immutable ? "?immutable=1" : "");
}

static kv_rc check_schema(kv_db *db, kv_err *e) {
  bool empty = false;
  kv_rc rc = kv_db_recognise(db, &empty, e);
  if (rc || !empty) return rc;
  return kv_fail(
      e, KV_RESOURCE,
      "%s is empty, and its folder is read-only; copy it to a folder of yours",
      db->path);
}

static kv_rc open_still(kv_db *db, kv_err *e) {
  char uri[3 * sizeof db->path + 32];
  struct stat log, shared;
  bool logged = has_log(db->path), kept = beside(db->path, "-wal", &log);
  bool live = kept && beside(db->path, "-shm",
                             &shared); /* another process has it open */
  if (logged && !live && kept && log.st_size)
    return kv_fail(e, KV_RESOURCE,
                   "%s-wal holds results that are not yet in %s, and their "
                   "folder is read-only; copy both to a folder of yours",
                   db->path, db->path);
  name_file(db->path, logged && !live, sizeof uri, uri);
  if (sqlite3_open_v2(uri, &db->sql, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI,
                      NULL))
    return kv_db_fail(db, "open", e);
  kv_db_wait_for_others(db);
  sqlite3_exec(db->sql, "PRAGMA trusted_schema = OFF", NULL, NULL, NULL);
  kv_rc rc = check_schema(db, e);
  return rc ? rc : kv_db_attach_now(db, e);
}

kv_rc kv_db_open_found(const char *path, const kv_db_wait *wait, kv_db **out,
                       kv_err *e) {
  kv_db *db;
  kv_rc rc;
  if (can_write(path)) return kv_db_open_waiting(path, wait, out, e);
  *out = NULL;
  db = kv_zalloc(1, sizeof *db);
  if (!db) return kv_no_memory(e, "a database connection", sizeof *db);
  db->still = true;
  db->wait = *wait;
  snprintf(db->path, sizeof db->path, "%s", path);
  rc = open_still(db, e);
  if (rc)
    kv_db_close(db);
  else
    *out = db;
  return rc;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening: is it ours, is it of today, how is it made durable. The journal
 * is WAL on a local file system; WAL shares memory between processes, which
 * a network file system cannot, so there it is a rollback journal.
 */
#include "sim/db_private.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

/* Magic numbers of statfs(2): NFS, SMB, SMB2, CIFS, Lustre, GPFS, CephFS,
 * BeeGFS, 9P, FUSE, AFS. */
static const unsigned remote[] = {0x6969u,     0x517Bu,     0xFE534D42u,
                                  0xFF534D42u, 0x0BD00BD0u, 0x47504653u,
                                  0x00C36400u, 0x19830326u, 0x01021997u,
                                  0x65735546u, 0x5346414Fu};

static bool is_local(const char *path) {
  struct statfs fs;
  char folder[PATH_MAX];
  char *slash;
  if (strlen(path) >= sizeof folder) return false;
  strcpy(folder, path);
  slash = strrchr(folder, '/');
  if (slash)
    slash[1] = 0;
  else
    strcpy(folder, ".");
  if (statfs(folder, &fs)) return false;
  for (size_t i = 0; i < sizeof remote / sizeof *remote; i++)
    if ((unsigned)fs.f_type == remote[i]) return false;
  return true;
}

/* First column of a pragma that answers with a number; -1 on failure. */
static int ask(kv_db *db, const char *pragma) {
  sqlite3_stmt *s = NULL;
  int n = -1;
  if (!sqlite3_prepare_v2(db->sql, pragma, -1, &s, NULL) &&
      sqlite3_step(s) == SQLITE_ROW)
    n = sqlite3_column_int(s, 0);
  sqlite3_finalize(s);
  return n;
}

static kv_rc run(kv_db *db, const char *sql, kv_err *e) {
  if (sqlite3_exec(db->sql, sql, NULL, NULL, NULL))
    return kv_db_fail(db, "prepare", e);
  return KV_OK;
}

kv_rc kv_db_migrate(kv_db *db, int n, const char *const *step, kv_err *e) {
  for (;;) {
    char set[96];
    kv_rc rc = kv_db_begin(db, e);
    int at;
    if (rc) return rc;
    at = ask(db, "PRAGMA user_version"); /* under the lock: others migrate */
    if (at < 0) return kv_db_end(db, kv_db_fail(db, "open", e), e);
    if (at >= n) return kv_db_end(db, KV_OK, e);
    snprintf(set, sizeof set,
             "PRAGMA application_id = %d; PRAGMA user_version = %d",
             KV_DB_APPLICATION, at + 1);
    rc = run(db, step[at], e);
    if (!rc) rc = run(db, set, e);
    rc = kv_db_end(db, rc, e);
    if (rc) return rc;
  }
}

/* Ours, empty, or somebody else's? */
static kv_rc recognise(kv_db *db, kv_err *e) {
  int id = ask(db, "PRAGMA application_id");
  int version = ask(db, "PRAGMA user_version");
  int tables = ask(db, "SELECT count(*) FROM sqlite_schema");
  if (id < 0 || version < 0 || tables < 0) return kv_db_fail(db, "open", e);
  if (id != KV_DB_APPLICATION && (id || version || tables))
    return kv_fail(e, KV_INPUT,
                   "%s is a database of another program: name a new file",
                   db->path);
  if (version > kv_db_n_steps)
    return kv_fail(e, KV_INPUT,
                   "%s was written by a later kvreplay (version %d, this one "
                   "knows %d): update kvreplay or name a new file",
                   db->path, version, kv_db_n_steps);
  return KV_OK;
}

static kv_rc set_up(kv_db *db, kv_err *e) {
  kv_rc rc;
  sqlite3_busy_timeout(db->sql, 60000);
  rc = recognise(db, e);
  if (!rc)
    rc = run(db,
             is_local(db->path) ? "PRAGMA journal_mode = WAL"
                                : "PRAGMA journal_mode = DELETE",
             e);
  if (!rc)
    rc = run(db,
             "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
             "PRAGMA trusted_schema = OFF",
             e);
  if (!rc) rc = kv_db_migrate(db, kv_db_n_steps, kv_db_steps, e);
  return rc;
}

kv_rc kv_db_open(const char *path, kv_db **out, kv_err *e) {
  kv_db *db = kv_zalloc(1, sizeof *db);
  kv_rc rc;
  *out = NULL;
  if (!db) return kv_no_memory(e, "a database connection", sizeof *db);
  snprintf(db->path, sizeof db->path, "%s", path);
  if (sqlite3_open_v2(path, &db->sql,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL))
    rc = kv_db_fail(db, "open", e);
  else
    rc = set_up(db, e);
  if (rc)
    kv_db_close(db);
  else
    *out = db;
  return rc;
}

void kv_db_close(kv_db *db) {
  if (!db) return;
  for (int i = 0; i < db->n_cached; i++) sqlite3_finalize(db->cache[i].stmt);
  sqlite3_close(db->sql);
  for (int i = 0; i < db->n_words; i++) free(db->word[i]);
  free(db->word);
  free(db);
}

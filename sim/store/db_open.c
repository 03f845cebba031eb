/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening: checks that the file is a database of this program, or makes its
 * tables, and makes it durable. The journal is WAL on a local file system. WAL
 * needs memory shared between processes, which a network file system does not
 * provide; the journal is then a rollback journal.
 */
#include "sim/store/db_private.h"

#include "ref/ground/text.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/* Runs a query that returns one number. */
static kv_rc ask(kv_db *db, const char *question, int *out, kv_err *e) {
  sqlite3_stmt *s = NULL;
  bool answered = !sqlite3_prepare_v2(db->sql, question, -1, &s, NULL) &&
                  sqlite3_step(s) == SQLITE_ROW;
  if (answered) *out = sqlite3_column_int(s, 0);
  kv_rc rc = answered ? KV_OK : kv_db_fail(db, "open", e);
  sqlite3_finalize(s);
  return rc;
}

static kv_rc run(kv_db *db, const char *sql, kv_err *e) {
  if (sqlite3_exec(db->sql, sql, NULL, NULL, NULL))
    return kv_db_fail(db, "prepare", e);
  return KV_OK;
}

static kv_rc make_tables(kv_db *db, const char *database, kv_err *e) {
  char *sql = kv_db_schema_sql(database);
  kv_rc rc = sql ? run(db, sql, e) : kv_no_memory(e, "a schema", 1);
  sqlite3_free(sql);
  return rc;
}

/* If the file is read-only, only the URI opens memory that can be written. */
kv_rc kv_db_attach_now(kv_db *db, kv_err *e) {
  sqlite3_str *s = sqlite3_str_new(NULL);
  kv_rc rc = run(db,
                 db->still ? "ATTACH 'file:now?mode=memory' AS now"
                           : "ATTACH ':memory:' AS now",
                 e);
  if (!rc) rc = make_tables(db, "now", e);
  for (int i = KV_DB_N_TABLES - 1; i >= 0; i--)
    sqlite3_str_appendf(s, "DELETE FROM now.%s;", kv_db_table_list[i]->name);
  db->empty = sqlite3_str_finish(s);
  db->now = (kv_db_union){.sql = db->sql, .to = "main", .from = "now"};
  return rc || db->empty ? rc : kv_no_memory(e, "a database connection", 1);
}

/* Makes the tables of a new file, in one transaction. */
static kv_rc create(kv_db *db, kv_err *e) {
  char set[96];
  int version = 0;
  kv_rc rc = kv_db_begin(db, e);
  if (rc) return rc;
  /* Read it again under the lock: another process may have made the tables. */
  rc = ask(db, "PRAGMA user_version", &version, e);
  if (rc || version) return kv_db_end(db, rc, e);
  snprintf(set, sizeof set,
           "PRAGMA application_id = %d; PRAGMA user_version = %d",
           KV_DB_APPLICATION, kv_db_schema);
  rc = make_tables(db, "main", e);
  if (!rc) rc = run(db, kv_db_views, e);
  if (!rc) rc = run(db, set, e);
  return kv_db_end(db, rc, e);
}

kv_rc kv_db_recognise(kv_db *db, bool *empty, kv_err *e) {
  int id = 0, version = 0, tables = 0;
  kv_rc rc = ask(db, "PRAGMA application_id", &id, e);
  if (!rc) rc = ask(db, "PRAGMA user_version", &version, e);
  if (!rc) rc = ask(db, "SELECT count(*) FROM sqlite_schema", &tables, e);
  if (rc) return rc;
  *empty = !id && !version && !tables;
  if (!*empty && id != KV_DB_APPLICATION)
    return kv_fail(e, KV_INPUT,
                   "%s is a database of another program; name a new file",
                   db->path);
  if (!*empty && version != kv_db_schema)
    return kv_fail(
        e, KV_INPUT,
        "%s has schema %d, but this kvreplay reads only schema %d; use the "
        "kvreplay that wrote it, or run the replays again into a new file",
        db->path, version, kv_db_schema);
  return KV_OK;
}

/* Sets the journal mode. Fails while another process writes. */
static kv_rc begin_log(kv_db *db, kv_err *e) {
  int asked = 0;
  const char *sql = is_local(db->path) ? "PRAGMA journal_mode = WAL"
                                       : "PRAGMA journal_mode = DELETE";
  while (sqlite3_exec(db->sql, sql, NULL, NULL, NULL))
    if (sqlite3_errcode(db->sql) != SQLITE_BUSY || !kv_db_wait_on(db, asked++))
      return kv_db_fail(db, "prepare", e);
  return KV_OK;
}

static kv_rc set_up(kv_db *db, kv_err *e) {
  kv_rc rc;
  int pages = 0;
  bool empty = false;
  kv_db_wait_for_others(db);
  rc = kv_db_recognise(db, &empty, e);
  if (!rc) rc = ask(db, "PRAGMA page_count", &pages, e);
  /* For a new file: parts of unfinished cells are large, and later deleted. */
  if (!rc && pages == 0) rc = run(db, "PRAGMA auto_vacuum = INCREMENTAL", e);
  if (!rc) rc = begin_log(db, e);
  if (!rc)
    rc = run(db,
             "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
             "PRAGMA trusted_schema = OFF",
             e);
  if (!rc && empty) rc = create(db, e);
  return rc ? rc : kv_db_attach_now(db, e);
}

/* Refuses all but regular files: SQLite would open devices and pipes, and
 * ":memory:" stores nothing. */
static kv_rc is_file(const char *path, kv_err *e) {
  struct stat s;
  char show[KV_SHOW];
  if (*path == ':')
    return kv_fail(e, KV_USAGE,
                   "%s is not a file; for a file of that name, write ./%s",
                   kv_show(path, show), show);
  if (stat(path, &s) || S_ISREG(s.st_mode)) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "%s is not a regular file; name a database, or a new file",
                 kv_show(path, show));
}

/* Opens the file as a path. If SQLite was built to read URIs, a name that
 * begins with "file:" would be one, which can say that nothing is stored; a
 * name that begins with "./" is always a path. */
static int open_file(kv_db *db, const char *path) {
  char name[PATH_MAX + 3];
  snprintf(name, sizeof name, "%s%s", *path == '/' ? "" : "./", path);
  return sqlite3_open_v2(name, &db->sql,
                         SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
}

kv_rc kv_db_open(const char *path, kv_db **out, kv_err *e) {
  return kv_db_open_waiting(path, &(kv_db_wait){0}, out, e);
}

kv_rc kv_db_open_waiting(const char *path, const kv_db_wait *wait, kv_db **out,
                         kv_err *e) {
  *out = NULL;
  kv_rc rc = is_file(path, e);
  if (rc) return rc;
  kv_db *db = kv_zalloc(1, sizeof *db);
  if (!db) return kv_no_memory(e, "a database connection", sizeof *db);
  db->wait = *wait;
  snprintf(db->path, sizeof db->path, "%s", path);
  if (open_file(db, path))
    rc = kv_db_fail(db, "open", e);
  else
    rc = set_up(db, e);
  db->logged = !rc;
  if (rc)
    kv_db_close(db);
  else
    *out = db;
  return rc;
}

/* Leaves WAL mode before closing, because reading a WAL database needs a
 * writable folder. Without waiting: fails, and leaves the file as it is, if
 * another program has it open. */
static void leave_log(kv_db *db) {
  if (!db->logged) return; /* not opened for writing, or not ours */
  sqlite3_busy_timeout(db->sql, 0);
  sqlite3_exec(db->sql, "PRAGMA main.journal_mode = DELETE", NULL, NULL, NULL);
}

void kv_db_close(kv_db *db) {
  if (!db) return;
  for (int i = 0; i < db->n_cached; i++) sqlite3_finalize(db->cache[i].stmt);
  for (int i = 0; i < 2 * KV_DB_N_TABLES; i++)
    sqlite3_finalize(db->insert[i / 2][i % 2]);
  kv_db_union_close(&db->now);
  sqlite3_free(db->empty);
  leave_log(db);
  sqlite3_close(db->sql);
  for (int i = 0; i < db->n_words; i++) free(db->word[i]);
  free(db->word);
  free(db);
}

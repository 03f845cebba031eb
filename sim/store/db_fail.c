/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns SQLite's errors into our sentences: what happened, to which file, what
 * to do, and the exit code.
 */
#include "sim/store/db_private.h"

#include <stdio.h>
#include <string.h>

static const char no_ours[] = "is not a kvreplay database";
static const char no_tables[] =
    "does not have the tables of a kvreplay database";
static const char restore[] = "restore it from a copy, or name another file";
static const char later[] = "another program has been writing to it for a "
                            "minute; repeat the command later";
static const char no_rights[] =
    "access is denied; allow it (chmod u+rw), or name another file";
static const char keeps[] =
    "free space and repeat the command; everything finished is kept";
static const char bug[] = "this is a bug in kvreplay";

/* `is`: what is wrong with the file itself; without it, an action failed. */
static const struct words {
  int code;
  kv_rc rc;
  const char *is, *advice;
} table[] = {
    {SQLITE_NOTADB, KV_INPUT, no_ours, "name another file"},
    {SQLITE_FORMAT, KV_INPUT, no_ours, "name another file"},
    {SQLITE_CORRUPT, KV_INPUT, "is a damaged database", restore},
    {SQLITE_ERROR, KV_INPUT, no_tables, restore},
    {SQLITE_SCHEMA, KV_INPUT, no_tables, restore},
    {SQLITE_CONSTRAINT, KV_INPUT, no_tables, restore},
    {SQLITE_MISMATCH, KV_INPUT, no_tables, restore},
    {SQLITE_BUSY, KV_RESOURCE, NULL, later},
    {SQLITE_LOCKED, KV_RESOURCE, NULL, later},
    {SQLITE_PROTOCOL, KV_RESOURCE, NULL,
     "too many programs open it at once; repeat the command later"},
    {SQLITE_FULL, KV_RESOURCE, NULL, keeps},
    {SQLITE_IOERR, KV_RESOURCE, NULL,
     "its disk or file system failed; everything finished is kept"},
    {SQLITE_READONLY, KV_RESOURCE, NULL,
     "it or its folder is read-only; change that (chmod u+w), or name another "
     "file"},
    {SQLITE_PERM, KV_RESOURCE, NULL, no_rights},
    {SQLITE_AUTH, KV_RESOURCE, NULL, no_rights},
    {SQLITE_CANTOPEN, KV_RESOURCE, NULL,
     "its folder must exist, and both must be readable and writable"},
    {SQLITE_NOMEM, KV_RESOURCE, NULL,
     "use fewer --jobs, or replay less at once"},
    {SQLITE_TOOBIG, KV_RESOURCE, NULL, "a text is too long for a database"},
    {SQLITE_MISUSE, KV_INTERNAL, NULL, bug},
    {SQLITE_RANGE, KV_INTERNAL, NULL, bug},
    {SQLITE_INTERNAL, KV_INTERNAL, NULL, "this is a bug in SQLite"},
};

static const struct words *words_for(int code) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (table[i].code == code) return &table[i];
  return NULL;
}

/* Did a write fail for lack of space, whatever the system calls it: a full
 * disk, a quota, a limit on file size? (SQLITE_FULL covers ENOSPC only.) */
static bool lacks_room(kv_db *db) {
  static const int code[] = {SQLITE_IOERR_WRITE, SQLITE_IOERR_TRUNCATE,
                             SQLITE_IOERR_FSYNC, SQLITE_IOERR_DIR_FSYNC,
                             SQLITE_IOERR_SHMSIZE};
  int got = sqlite3_extended_errcode(db->sql);
  for (size_t i = 0; i < sizeof code / sizeof *code; i++)
    if (got == code[i]) return true;
  return false;
}

kv_rc kv_db_fail(kv_db *db, const char *doing, kv_err *e) {
  int code = db->sql ? sqlite3_errcode(db->sql) & 0xff : SQLITE_NOMEM;
  if (!code) code = SQLITE_NOMEM; /* the statement was not even prepared */
  /* All SQL is ours: if it does not parse, memory ran out while it was read. */
  if (code == SQLITE_ERROR && strstr(sqlite3_errmsg(db->sql), "syntax error"))
    code = SQLITE_NOMEM;
  const char *why =
      code == SQLITE_NOMEM ? "out of memory" : sqlite3_errmsg(db->sql);
  if (code == SQLITE_IOERR && lacks_room(db)) code = SQLITE_FULL;
  const struct words *w = words_for(code);
  if (!w)
    return kv_fail(e, KV_RESOURCE, "cannot %s %s: %s", doing, db->path, why);
  if (w->is)
    return kv_fail(e, w->rc, "%s %s (%s); %s", db->path, w->is, why, w->advice);
  return kv_fail(e, w->rc, "cannot %s %s (%s); %s", doing, db->path, why,
                 w->advice);
}

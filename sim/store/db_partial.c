/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers of unfinished cells: written while a trace is replayed, read when the
 * command is repeated, deleted when the cell's row is put (kv_db_put). Each has
 * a digest over its bytes and everything that identifies it, so that damaged or
 * misplaced bytes are never used.
 */
#include "sim/store/db_private.h"

#include <stdio.h>
#include <string.h>

/* Age at which unused kept layers are deleted. */
#define DAYS "30"

static void add(kv_sha256 *h, const char *text) {
  kv_sha256_add(h, text, strlen(text) + 1);
}

static kv_digest digest_of(const kv_db_whose *w, const kv_db_partial *p) {
  kv_sha256 h;
  char layer[16];
  snprintf(layer, sizeof layer, "%d", p->layer);
  kv_sha256_init(&h);
  add(&h, w->key);
  add(&h, w->backend);
  add(&h, w->isa);
  add(&h, layer);
  add(&h, p->build);
  kv_sha256_add(&h, p->data, p->size);
  return kv_sha256_end(&h);
}

/* Best effort: a run should not wait long to store what it may never need. */
kv_rc kv_db_keep_begin(kv_db *db, kv_err *e) {
  sqlite3_busy_timeout(db->sql, 2000);
  kv_rc rc = kv_db_begin(db, e);
  kv_db_wait_for_others(db);
  return rc;
}

kv_rc kv_db_keep(kv_db *db, const kv_db_whose *w, const kv_db_partial *p,
                 kv_err *e) {
  kv_digest digest = digest_of(w, p);
  return kv_db_do(db, e,
                  "INSERT OR REPLACE INTO partial (key, backend, isa, layer,"
                  " build, kept, digest, content) VALUES"
                  " (?,?,?,?,?,date('now'),?,?)",
                  "sssishb", w->key, w->backend, w->isa, (int64_t)p->layer,
                  p->build, &digest,
                  &(kv_db_blob){.size = p->size, .data = p->data});
}

kv_rc kv_db_keep_end(kv_db *db, kv_rc rc, kv_err *e) {
  return kv_db_end(db, rc, e);
}

/* Does the stored part match its digest? */
static bool whole(sqlite3_stmt *s, const kv_db_whose *w, kv_db_partial *p) {
  kv_digest said, is;
  const char *build = (const char *)sqlite3_column_text(s, 1);
  p->layer = sqlite3_column_int(s, 0);
  p->build = build ? build : "";
  p->data = sqlite3_column_blob(s, 3);
  p->size = (size_t)sqlite3_column_bytes(s, 3);
  if (!p->data ||
      !kv_digest_read((const char *)sqlite3_column_text(s, 2), &said))
    return false;
  is = digest_of(w, p);
  return memcmp(&said, &is, sizeof is) == 0;
}

static kv_rc drop(kv_db *db, const kv_db_whose *w, int layer, kv_err *e) {
  return kv_db_do(db, e,
                  "DELETE FROM partial WHERE key = ? AND backend = ? AND"
                  " isa = ? AND layer = ?",
                  "sssi", w->key, w->backend, w->isa, (int64_t)layer);
}

/* Sets *layer to the next kept layer after it; -1: none. */
static kv_rc next(kv_db *db, const kv_db_whose *w, int *layer, kv_err *e) {
  int64_t next = -1;
  kv_rc rc = kv_db_one(db, &next, e,
                       "SELECT min(layer) FROM partial WHERE key = ? AND"
                       " backend = ? AND isa = ? AND layer > ?",
                       "sssi", w->key, w->backend, w->isa, (int64_t)*layer);
  *layer = (int)next;
  return rc;
}

static kv_rc take_layer(kv_db *db, const kv_db_whose *w, int layer,
                        const kv_db_taker *t, bool *used, kv_err *e) {
  sqlite3_stmt *s;
  kv_db_partial p = {0};
  kv_rc rc = kv_db_bind(db, &s, e,
                        "SELECT layer, build, digest, content FROM partial"
                        " WHERE key = ? AND backend = ? AND isa = ? AND"
                        " layer = ?",
                        "sssi", w->key, w->backend, w->isa, (int64_t)layer);
  *used = true; /* deleted meanwhile: nothing left to delete */
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  *used = whole(s, w, &p);
  if (!*used && sqlite3_errcode(db->sql) == SQLITE_NOMEM)
    rc = kv_db_fail(db, "read", e);
  *used = *used && t->take(t->self, &p);
  return kv_db_done(db, s, rc, e);
}

kv_rc kv_db_kept(kv_db *db, const kv_db_whose *w, const kv_db_taker *t,
                 int *dropped, kv_err *e) {
  int layer = -1;
  kv_rc rc = next(db, w, &layer, e);
  while (!rc && layer >= 0) {
    bool used;
    rc = take_layer(db, w, layer, t, &used, e);
    if (!rc && !used) {
      ++*dropped;
      rc = drop(db, w, layer, e);
    }
    if (!rc) rc = next(db, w, &layer, e);
  }
  return rc;
}

kv_rc kv_db_unkeep(kv_db *db, const char *key, const char *backend, kv_err *e) {
  return kv_db_do(db, e, "DELETE FROM partial WHERE key = ? AND backend = ?",
                  "ss", key, backend);
}

kv_rc kv_db_forget_old(kv_db *db, kv_err *e) {
  return kv_db_do(
      db, e, "DELETE FROM partial WHERE kept < date('now', '-" DAYS " days')",
      "");
}

void kv_db_shrink(kv_db *db) {
  sqlite3_busy_timeout(db->sql, 0);
  sqlite3_exec(db->sql, "PRAGMA incremental_vacuum", NULL, NULL, NULL);
  kv_db_wait_for_others(db);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Caches on the device belong to a run: a row each, stored by the first run
 * that was asked for it (kvreplay run --cache). They follow from the run's
 * journal, so that other numbers are a conflict.
 */
#include "sim/db/db_private.h"

#include <stdio.h>
#include <string.h>

/* Columns of the table, in the schema's order. */
#define COLUMN(member) KV_DB_OF('i', kv_device_cache, member, 0)
static const kv_db_column columns[] = {COLUMN(looked),    COLUMN(hits),
                                       COLUMN(fetched),   COLUMN(fetched_peak),
                                       COLUMN(held_peak), {0}};

kv_rc kv_db_put_device_caches(kv_db *db, int64_t run, const kv_result *r,
                              kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; i < r->n_device_caches && !rc; i++)
    rc = kv_db_do(
        db, e, "INSERT OR IGNORE INTO device_cache VALUES (?,?,?,?,?,?,?)",
        "ist", run, r->device_cache[i].name, columns, &r->device_cache[i]);
  return rc;
}

static kv_rc compare(kv_db *db, int64_t run, const kv_device_cache *now,
                     char where[KV_DB_WHERE], kv_err *e) {
  sqlite3_stmt *s;
  kv_device_cache was = {0};
  char what[KV_DB_WHAT] = "";
  kv_rc rc = kv_db_bind(
      db, &s, e, "SELECT * FROM device_cache WHERE run_id = ? AND cache = ?",
      "is", run, now->name);
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  kv_db_take(db, s, 2, columns, &was);
  kv_db_tell(s, 2, columns, &was, now, what);
  if (*what)
    snprintf(where, KV_DB_WHERE, "digests agree, but of cache %s %s", now->name,
             what);
  return kv_db_done(db, s, kv_db_sound(db, "device_cache", run, e), e);
}

kv_rc kv_db_compare_device_caches(kv_db *db, int64_t run, const kv_result *r,
                                  char where[KV_DB_WHERE], kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; i < r->n_device_caches && !rc && !*where; i++)
    rc = compare(db, run, &r->device_cache[i], where, e);
  return rc;
}

kv_rc kv_db_device_caches_of(kv_db *db, const char *key, kv_cache_list *out,
                             kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc = kv_db_bind(db, &s, e,
                        "SELECT cache FROM device_cache JOIN run USING (run_id)"
                        " WHERE key = ? ORDER BY cache",
                        "s", key);
  while (!rc && kv_db_row(db, s, &rc, e))
    kv_cache_parse(kv_db_text(db, s, 0), out, NULL);
  return rc;
}

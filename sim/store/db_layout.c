/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run has besides its measures, stored by the first run that computed
 * it: memory layouts, caches on the device, and the fate of every token (two
 * blobs of little-endian 32-bit integers, one for each token of the trace). All
 * follow from the run's journal, so equal runs have equal ones; a difference is
 * a conflict like any other.
 */
#include "sim/store/db_private.h"

#include <stdlib.h>
#include <string.h>

static kv_rc put_layout(kv_db *db, int64_t run, const kv_layout_result *r,
                        kv_err *e) {
  kv_layout_result l = *r; /* with -1, null, for what it lacks */
  if (!l.tables.there) memset(&l.tables, -1, sizeof l.tables);
  if (!l.regular.there) memset(&l.regular, -1, sizeof l.regular);
  kv_rc rc = kv_db_insert(db, e, KV_DB_layout, &l, "is", run, l.name);
  for (int i = 0; i < l.n_steps && !rc; i++)
    rc = kv_db_insert(db, e, KV_DB_layout_step, &l.step[i], "is", run, l.name);
  return rc;
}

static kv_rc put_survival(kv_db *db, int64_t run, int tokens,
                          const kv_survival *s, kv_err *e) {
  size_t size = 4 * (size_t)tokens;
  unsigned char *bytes = kv_zalloc(2, size);
  if (!bytes) return kv_no_memory(e, "tokens", 2 * size);
  kv_db_bytes(tokens, s->gone, bytes);
  kv_db_bytes(tokens, s->shown, bytes + size);
  kv_db_blob gone = {size, bytes}, shown = {size, bytes + size};
  kv_rc rc = kv_db_insert(db, e, KV_DB_survival, NULL, "iiibb", run,
                          (int64_t)s->layer, (int64_t)s->lane, &gone, &shown);
  free(bytes);
  return rc;
}

kv_rc kv_db_put_layouts(kv_db *db, int64_t run, const kv_result *r, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; i < r->n_layouts && !rc && kv_result_ran(r); i++)
    rc = put_layout(db, run, &r->layout[i], e);
  for (int i = 0; i < r->n_device_caches && !rc; i++)
    rc = kv_db_insert(db, e, KV_DB_device_cache, &r->device_cache[i], "is", run,
                      r->device_cache[i].name);
  for (int i = 0; i < r->n_survivals && !rc; i++)
    rc = put_survival(db, run, r->n_tokens, &r->survival[i], e);
  return rc;
}

/* Reads a layout, except its steps. *found: is it stored? */
static kv_rc load(kv_db *db, int64_t run, kv_layout_result *l, bool *found,
                  kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc = kv_db_bind(db, &s, e,
                        "SELECT * FROM layout WHERE run_id = ? AND layout = ?",
                        "is", run, l->name);
  *found = false;
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  *found = true;
  kv_db_take(db, s, KV_DB_layout, l);
  l->tables.there = l->tables.unused_end >= 0;
  if (!l->tables.there) l->tables = (kv_layout_table_result){0};
  l->regular.there = l->regular.lanes >= 0;
  if (!l->regular.there) l->regular = (kv_layout_regular_result){0};
  return kv_db_done(db, s, kv_db_sound(db, "layout", run, e), e);
}

kv_rc kv_db_find_layouts(kv_db *db, kv_result *r, bool *all, kv_err *e) {
  char key[65];
  int64_t run = 0;
  *all = r->n_layouts == 0;
  if (*all) return KV_OK;
  kv_db_key(r, key);
  kv_rc rc = kv_db_run_of(db, key, &run, e);
  if (rc || !run) return rc;
  *all = true;
  for (int i = 0; i < r->n_layouts && !rc && *all; i++)
    rc = load(db, run, &r->layout[i], all, e);
  return rc;
}

kv_rc kv_db_names_of(kv_db *db, kv_db_named of, const char *key,
                     kv_db_take_name *take, void *self, kv_err *e) {
  static const char *const sql[] = {
      "SELECT layout FROM layout JOIN run USING (run_id)"
      " WHERE key = ? ORDER BY layout",
      "SELECT cache FROM device_cache JOIN run USING (run_id)"
      " WHERE key = ? ORDER BY cache"};
  sqlite3_stmt *s;
  kv_rc rc = kv_db_bind(db, &s, e, sql[of], "s", key);
  while (!rc && kv_db_row(db, s, &rc, e)) {
    kv_err why = {0};
    if (take(kv_db_text(db, s, 0), self, &why) != KV_RESOURCE) continue;
    sqlite3_reset(s);
    return kv_fail(e, KV_RESOURCE, "%s", why.text);
  }
  return rc;
}

kv_rc kv_db_has_survivals(kv_db *db, const kv_result *r, bool *has, kv_err *e) {
  char key[65];
  int64_t n = 0;
  kv_db_key(r, key);
  kv_rc rc = kv_db_one(db, &n, e,
                       "SELECT 1 FROM survival JOIN run USING (run_id) WHERE"
                       " key = ? LIMIT 1",
                       "s", key);
  *has = n;
  return rc;
}

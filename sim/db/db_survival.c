/* SPDX-License-Identifier: Apache-2.0
 *
 * What became of every token of a run: a row a layer and lane, stored by the
 * first run that was asked for it, and compared to the bit with every later
 * one. Two blobs of as many 32-bit integers, little-endian, as the trace has
 * tokens (kv_survival).
 */
#include "sim/db/db_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* gone, then shown; NULL without memory. */
static unsigned char *bytes_of(const kv_result *r, const kv_survival *s,
                               kv_db_blob out[2], kv_err *e) {
  size_t size = 4 * (size_t)r->n_tokens;
  unsigned char *bytes = kv_zalloc(2, size);
  if (!bytes) {
    kv_no_memory(e, "tokens", 2 * size);
    return NULL;
  }
  kv_db_bytes(r->n_tokens, s->gone, bytes);
  kv_db_bytes(r->n_tokens, s->shown, bytes + size);
  out[0] = (kv_db_blob){.size = size, .data = bytes};
  out[1] = (kv_db_blob){.size = size, .data = bytes + size};
  return bytes;
}

kv_rc kv_db_put_survivals(kv_db *db, int64_t run, const kv_result *r,
                          kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; i < r->n_survivals && !rc; i++) {
    const kv_survival *s = &r->survival[i];
    kv_db_blob blob[2];
    unsigned char *bytes = bytes_of(r, s, blob, e);
    if (!bytes) return KV_RESOURCE;
    rc = kv_db_do(db, e, "INSERT OR IGNORE INTO survival VALUES (?,?,?,?,?)",
                  "iiibb", run, (int64_t)s->layer, (int64_t)s->lane, &blob[0],
                  &blob[1]);
    free(bytes);
  }
  return rc;
}

static kv_rc compare(kv_db *db, int64_t run, const kv_result *r,
                     const kv_survival *now, char where[KV_DB_WHERE],
                     kv_err *e) {
  sqlite3_stmt *s;
  kv_db_blob blob[2];
  unsigned char *bytes = bytes_of(r, now, blob, e);
  if (!bytes) return KV_RESOURCE;
  kv_rc rc = kv_db_bind(db, &s, e,
                        "SELECT gone = ?4, shown = ?5 FROM survival WHERE"
                        " run_id = ?1 AND layer = ?2 AND lane = ?3",
                        "iiibb", run, (int64_t)now->layer, (int64_t)now->lane,
                        &blob[0], &blob[1]);
  if (!rc && kv_db_row(db, s, &rc, e)) {
    bool gone = !sqlite3_column_int(s, 0), shown = !sqlite3_column_int(s, 1);
    if (gone || shown)
      snprintf(where, KV_DB_WHERE,
               "digests agree, but when tokens of lane %d of layer %d %s is "
               "another before than now",
               now->lane, now->layer, gone ? "left it" : "were shown");
    rc = kv_db_done(db, s, rc, e);
  }
  free(bytes);
  return rc;
}

kv_rc kv_db_compare_survivals(kv_db *db, int64_t run, const kv_result *r,
                              char where[KV_DB_WHERE], kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; i < r->n_survivals && !rc && !*where; i++)
    rc = compare(db, run, r, &r->survival[i], where, e);
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

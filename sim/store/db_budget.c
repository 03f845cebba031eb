/* SPDX-License-Identifier: Apache-2.0
 *
 * Stored searches for a byte budget: their results, and the probes of searches
 * that have none yet.
 */
#include "sim/store/db_private.h"

/* The key of a refused row, which includes basis and target. */
void kv_db_budget_key(const kv_result *r, char out[65]) {
  kv_result asked = *r;
  asked.status = KV_CELL_REFUSED;
  kv_db_key(&asked, out);
}

kv_rc kv_db_find_budget(kv_db *db, const kv_result *r, bool *found, int *B,
                        kv_err *e) {
  sqlite3_stmt *s;
  char key[65];
  kv_rc rc;
  kv_db_budget_key(r, key);
  *found = false;
  rc = kv_db_bind(db, &s, e, "SELECT budget FROM budget WHERE key = ?", "s",
                  key);
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  *B = sqlite3_column_type(s, 0) == SQLITE_NULL ? -1 : kv_db_int(db, s, 0, 0);
  *found = true;
  return kv_db_done(db, s, kv_db_sound(db, "budget", 0, e), e);
}

kv_rc kv_db_put_budget(kv_db *db, const kv_result *r, int B, kv_err *e) {
  char key[65];
  bool found;
  kv_rc rc = kv_db_begin(db, e);
  if (rc) return rc;
  kv_db_budget_key(r, key);
  rc = kv_db_gather(db, e);
  if (!rc)
    rc = kv_db_trace_row(db, r->trace, &r->identity, NULL, NULL, r->n_tokens,
                         NULL, e);
  if (!rc)
    rc = kv_db_insert(db, e, KV_DB_budget, NULL, "shsssn", key, &r->identity,
                      r->method, kv_basis_names[r->basis], r->target, B);
  if (!rc) rc = kv_db_settle(db, &found, NULL, e);
  if (!rc) rc = kv_db_do(db, e, "DELETE FROM probe WHERE search = ?", "s", key);
  return kv_db_end(db, rc, e);
}

kv_rc kv_db_find_probe(kv_db *db, const kv_result *r, kv_db_probe *p,
                       bool *found, kv_err *e) {
  sqlite3_stmt *s;
  char key[65];
  kv_db_budget_key(r, key);
  *found = false;
  kv_rc rc = kv_db_bind(db, &s, e,
                        "SELECT bytes, dense FROM probe WHERE search = ? AND"
                        " entries = ?",
                        "si", key, (int64_t)p->entries);
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  p->bytes = kv_db_whole(db, s, 0, 0, INT64_MAX);
  p->dense = kv_db_whole(db, s, 1, 0, INT64_MAX);
  *found = true;
  return kv_db_done(db, s, kv_db_sound(db, "probe", 0, e), e);
}

kv_rc kv_db_put_probe(kv_db *db, const kv_result *r, const kv_db_probe *p,
                      kv_err *e) {
  char key[65];
  kv_db_budget_key(r, key);
  return kv_db_insert(db, e, KV_DB_probe, NULL, "siii", key,
                      (int64_t)p->entries, p->bytes, p->dense);
}

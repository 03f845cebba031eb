/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding: a row by what it would be computed from, the answer of a budget
 * search, all rows in turn, the files of a trace.
 */
#include "sim/db_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

kv_rc kv_db_run_of(kv_db *db, const char *key, int64_t *run, kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc =
      kv_db_bind(db, &s, e, "SELECT run_id FROM run WHERE key = ?", "s", key);
  *run = 0;
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  *run = sqlite3_column_int64(s, 0);
  sqlite3_reset(s);
  return KV_OK;
}

/* What was asked of the row, if it was asked this way before. */
static kv_rc load_ask(kv_db *db, int64_t run, kv_result *r, kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc = kv_db_bind(db, &s, e,
                        "SELECT status, achieved_bits FROM ask WHERE"
                        " run_id = ? AND basis = ? AND target = ?",
                        "iss", run, kv_basis_names[r->basis], r->target);
  r->achieved = NAN;
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  const char *status = (const char *)sqlite3_column_text(s, 0);
  for (int i = 0; i < 4 && status; i++)
    if (!strcmp(status, kv_status_names[i])) r->status = (kv_status)i;
  r->achieved = kv_db_real(sqlite3_column_int64(s, 1));
  return kv_db_done(db, s, e);
}

/* Has the backend that r names, if any, been there? */
static kv_rc look_for(kv_db *db, int64_t run, const kv_result *r, bool *yes,
                      kv_err *e) {
  sqlite3_stmt *s;
  *yes = !r->backend;
  if (*yes) return KV_OK;
  kv_rc rc = kv_db_bind(db, &s, e,
                        "SELECT 1 FROM confirmation WHERE run_id = ? AND"
                        " backend = ? LIMIT 1",
                        "is", run, r->backend);
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  *yes = true;
  return kv_db_done(db, s, e);
}

kv_rc kv_db_find(kv_db *db, kv_result *r, bool *found, kv_err *e) {
  static const kv_status as[2] = {KV_CELL_OK, KV_CELL_REFUSED};
  kv_status asked = r->status;
  int64_t run = 0;
  kv_rc rc = KV_OK;
  for (int i = 0; i < 2 && !rc && !run; i++) {
    char key[65];
    r->status = as[i];
    kv_db_key(r, key);
    rc = kv_db_run_of(db, key, &run, e);
  }
  r->status = asked;
  *found = false;
  if (!rc && run) rc = look_for(db, run, r, found, e);
  if (!*found) return rc;
  rc = kv_db_load(db, run, r, e);
  return rc ? rc : load_ask(db, run, r, e);
}

kv_rc kv_db_ask(kv_db *db, const kv_result *r, kv_err *e) {
  char key[65];
  int64_t run;
  kv_rc rc = kv_db_begin(db, e);
  if (rc) return rc;
  kv_db_key(r, key);
  rc = kv_db_run_of(db, key, &run, e);
  if (!rc && run) rc = kv_db_ask_row(db, run, r, e);
  return kv_db_end(db, rc, e);
}

kv_rc kv_db_confirmed(kv_db *db, const kv_result *r, const char *isa, bool *yes,
                      kv_err *e) {
  sqlite3_stmt *s;
  char key[65];
  kv_db_key(r, key);
  *yes = false;
  kv_rc rc = kv_db_bind(db, &s, e,
                        "SELECT 1 FROM confirmation JOIN run USING (run_id)"
                        " WHERE key = ? AND isa = ? LIMIT 1",
                        "ss", key, isa);
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  *yes = true;
  return kv_db_done(db, s, e);
}

/* --- budgets ------------------------------------------------------------ */

/* A refused row's key is the one that knows basis and target. */
static void budget_key(const kv_result *r, char out[65]) {
  kv_result asked = *r;
  asked.status = KV_CELL_REFUSED;
  kv_db_key(&asked, out);
}

kv_rc kv_db_find_budget(kv_db *db, const kv_result *r, bool *found, int *B,
                        kv_err *e) {
  sqlite3_stmt *s;
  char key[65];
  kv_rc rc;
  budget_key(r, key);
  *found = false;
  rc = kv_db_bind(db, &s, e, "SELECT budget FROM budget WHERE key = ?", "s",
                  key);
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  *B = sqlite3_column_type(s, 0) == SQLITE_NULL ? -1 : sqlite3_column_int(s, 0);
  *found = true;
  sqlite3_reset(s);
  return KV_OK;
}

kv_rc kv_db_put_budget(kv_db *db, const kv_result *r, int B, kv_err *e) {
  char key[65];
  kv_rc rc = kv_db_begin(db, e);
  if (rc) return rc;
  budget_key(r, key);
  rc = kv_db_trace_row(db, r->trace, &r->identity, r->n_tokens, NULL, e);
  if (!rc)
    rc = kv_db_do(db, e, "INSERT OR IGNORE INTO budget VALUES (?,?,?,?,?,?)",
                  "shsssn", key, &r->identity, r->method,
                  kv_basis_names[r->basis], r->target, B);
  return kv_db_end(db, rc, e);
}

/* --- all rows ------------------------------------------------------------ */

static const char *text(sqlite3_stmt *s, int at) {
  const char *t = (const char *)sqlite3_column_text(s, at);
  return t ? t : "";
}

static kv_rc read_names(kv_db *db, sqlite3_stmt *s, kv_result *r, kv_err *e) {
  const char *code = text(s, 6), *identity = text(s, 3);
  snprintf(r->trace, sizeof r->trace, "%s", text(s, 2));
  r->has_identity = kv_digest_read(identity, &r->identity);
  r->prompt_len = sqlite3_column_int(s, 4);
  r->n_tokens = sqlite3_column_int(s, 10);
  r->method = kv_db_word(db, text(s, 5));
  r->revision = sqlite3_column_int(s, 11);
  bool plugin = strncmp(code, "revision ", 9) != 0;
  r->code = plugin ? strdup(code) : NULL;
  r->params = strdup(text(s, 7));
  r->spec = strdup(text(s, 8));
  r->arithmetic = sqlite3_column_int(s, 9);
  snprintf(r->target, sizeof r->target, "%s", text(s, 13));
  for (int i = 0; i < 7; i++)
    if (!strcmp(text(s, 12), kv_basis_names[i])) r->basis = (kv_basis)i;
  if (!r->method || !r->params || !r->spec || (plugin && !r->code))
    return kv_no_memory(e, "a row of results", sizeof *r);
  return KV_OK;
}

kv_rc kv_db_next(kv_db *db, char key[65], kv_result *r, bool *more, kv_err *e) {
  sqlite3_stmt *s;
  int64_t run;
  kv_rc rc = kv_db_bind(
      db, &s, e,
      "SELECT run_id, key, t.name, identity, prompt_len, method, code,"
      " params, spec, arithmetic, t.n_tokens, revision,"
      " (SELECT min(basis) FROM ask a WHERE a.run_id = r.run_id),"
      " (SELECT target FROM ask a WHERE a.run_id = r.run_id"
      "  ORDER BY basis, target LIMIT 1)"
      " FROM run r JOIN trace t USING (identity) WHERE key > ?"
      " ORDER BY key LIMIT 1",
      "s", key);
  memset(r, 0, sizeof *r);
  *more = false;
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  run = sqlite3_column_int64(s, 0);
  snprintf(key, 65, "%s", text(s, 1));
  rc = read_names(db, s, r, e);
  kv_rc done = kv_db_done(db, s, rc ? NULL : e);
  if (!rc) rc = done;
  if (!rc) rc = kv_db_load(db, run, r, e);
  if (!rc) rc = load_ask(db, run, r, e);
  if (rc)
    kv_result_free(r);
  else
    *more = true;
  return rc;
}

kv_rc kv_db_path(kv_db *db, const kv_digest *identity, int n, size_t size,
                 char *path, kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc = kv_db_bind(db, &s, e,
                        "SELECT path FROM artefact WHERE identity = ? AND"
                        " kind = 'trace' ORDER BY path LIMIT 1 OFFSET ?",
                        "hi", identity, (int64_t)n);
  *path = 0;
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  snprintf(path, size, "%s", text(s, 0));
  return kv_db_done(db, s, e);
}

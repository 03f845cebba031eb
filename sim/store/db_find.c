/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding rows: one by its key, or all in turn; and the files of a trace.
 */
#include "sim/store/db_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

kv_rc kv_db_run_of(kv_db *db, const char *key, int64_t *run, kv_err *e) {
  *run = 0;
  return kv_db_one(db, run, e, "SELECT run_id FROM run WHERE key = ?", "s",
                   key);
}

/* Reads r->achieved, if the row has this basis and target. */
static kv_rc load_ask(kv_db *db, int64_t run, kv_result *r, kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc = kv_db_bind(db, &s, e,
                        "SELECT status, achieved_bits FROM ask WHERE"
                        " run_id = ? AND basis = ? AND target = ?",
                        "iss", run, kv_basis_names[r->basis], r->target);
  r->achieved = NAN;
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  r->status = (kv_status)kv_db_name(db, s, 0, 4, kv_status_names);
  r->achieved = kv_db_double(db, s, 1);
  return kv_db_done(db, s, kv_db_sound(db, "ask", run, e), e);
}

/* *yes: has the backend that r names (if any) confirmed the run? */
static kv_rc look_for(kv_db *db, int64_t run, const kv_result *r, bool *yes,
                      kv_err *e) {
  int64_t n = !r->backend;
  kv_rc rc = KV_OK;
  if (r->backend)
    rc = kv_db_one(db, &n, e,
                   "SELECT 1 FROM confirmation WHERE run_id = ? AND"
                   " backend = ? LIMIT 1",
                   "is", run, r->backend);
  *yes = n;
  return rc;
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
  char key[65];
  int64_t n = 0;
  kv_db_key(r, key);
  kv_rc rc = kv_db_one(db, &n, e,
                       "SELECT 1 FROM confirmation JOIN run USING (run_id)"
                       " WHERE key = ? AND isa = ? LIMIT 1",
                       "ss", key, isa);
  *yes = n;
  return rc;
}

static kv_rc read_names(kv_db *db, sqlite3_stmt *s, kv_result *r, kv_err *e) {
  const char *code = kv_db_text(db, s, 6);
  snprintf(r->trace, sizeof r->trace, "%s", kv_db_text(db, s, 2));
  r->has_identity = true;
  kv_db_digest(db, s, 3, &r->identity);
  r->prompt_len = kv_db_int(db, s, 4, 0);
  r->n_tokens = kv_db_int(db, s, 10, 0);
  r->observe = (kv_observe)kv_db_name(db, s, 14, KV_OBSERVES, kv_observe_names);
  r->method = kv_db_word(db, kv_db_text(db, s, 5));
  r->revision = kv_db_int(db, s, 11, 0);
  bool plugin = strncmp(code, "revision ", 9) != 0;
  r->code = plugin ? strdup(code) : NULL;
  r->params = strdup(kv_db_object(db, s, 7));
  r->spec = strdup(kv_db_text(db, s, 8));
  r->arithmetic = kv_db_int(db, s, 9, 0);
  snprintf(r->target, sizeof r->target, "%s", kv_db_text(db, s, 13));
  r->basis = (kv_basis)kv_db_name(db, s, 12, KV_BASES, kv_basis_names);
  if (!r->method || !r->params || !r->spec || (plugin && !r->code))
    return kv_no_memory(e, "a row of results", sizeof *r);
  return KV_OK;
}

/* Checks that a row's key is the hash of the row's own contents. */
static kv_rc check_key(const kv_db *db, const char *key, int64_t run,
                       const kv_result *r, kv_err *e) {
  char made[65];
  if (!kv_result_ran(r))
    return KV_OK; /* a refused row's key also hashes basis and target */
  kv_db_key(r, made);
  if (!strcmp(made, key)) return KV_OK;
  return kv_fail(e, KV_INPUT,
                 "%s is damaged: table run, run_id %lld: its key does not "
                 "match its trace, prompt_len, observe, method, params, code "
                 "and arithmetic; restore it from a copy",
                 db->path, (long long)run);
}

kv_rc kv_db_next(kv_db *db, char key[65], kv_result *r, bool *more, kv_err *e) {
  sqlite3_stmt *s;
  kv_digest name;
  int64_t run;
  kv_rc rc = kv_db_bind(
      db, &s, e,
      "SELECT run_id, key, t.name, identity, prompt_len, method, code,"
      " params, spec, arithmetic, t.n_tokens, revision,"
      " (SELECT min(basis) FROM ask a WHERE a.run_id = r.run_id) AS basis,"
      " (SELECT target FROM ask a WHERE a.run_id = r.run_id"
      "  ORDER BY basis, target LIMIT 1) AS target, observe"
      " FROM run r JOIN trace t USING (identity) WHERE key > ?"
      " ORDER BY key LIMIT 1",
      "s", key);
  memset(r, 0, sizeof *r);
  *more = false;
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  run = sqlite3_column_int64(s, 0);
  *db->wrong = 0;
  kv_db_digest(db, s, 1, &name); /* else the same row would come again */
  kv_digest_hex(&name, key);
  rc = read_names(db, s, r, e);
  if (!rc) rc = kv_db_sound(db, "run, trace or ask", run, e);
  rc = kv_db_done(db, s, rc, e);
  if (!rc) rc = kv_db_load(db, run, r, e);
  if (!rc) rc = load_ask(db, run, r, e);
  if (!rc) rc = check_key(db, key, run, r, e);
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
  *db->wrong = 0;
  snprintf(path, size, "%s", kv_db_text(db, s, 0));
  return kv_db_done(db, s, kv_db_sound(db, "artefact", 0, e), e);
}

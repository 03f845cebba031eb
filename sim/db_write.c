/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing a cell. kv_db_put is one transaction: either the whole row with
 * all its parts is there afterwards, or nothing of it. A key that is there
 * is compared: the same result confirms, another one goes to `diff`.
 */
#include "sim/db_private.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static kv_rc put_stats(kv_db *db, int64_t run, int part, const kv_stat *s,
                       kv_err *e) {
  kv_rc rc = KV_OK;
  for (int m = 0; m < KV_MEASURES && !rc; m++) {
    if (!s[m].count) continue;
    rc = kv_db_do(
        db, e, "INSERT INTO metric VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        "iisiddddd", run, (int64_t)part, kv_measure_table[m].name, s[m].count,
        s[m].mean, s[m].p50, s[m].p95, s[m].p99, s[m].max);
  }
  return rc;
}

static kv_rc put_part(kv_db *db, int64_t run, int part, const kv_part *p,
                      kv_err *e) {
  kv_rc rc = kv_db_do(db, e, "INSERT INTO part VALUES (?,?,?,?,?,?,?,?,?)",
                      "iiiiiiid", run, (int64_t)part, (int64_t)p->layer,
                      (int64_t)p->head, (int64_t)p->bin, (int64_t)p->first_step,
                      (int64_t)p->last_step, p->kept);
  return rc ? rc : put_stats(db, run, part, p->stat, e);
}

/* Part 0 is the run itself. */
static kv_rc put_parts(kv_db *db, int64_t run, const kv_result *r, kv_err *e) {
  kv_part whole = {.layer = -1,
                   .head = -1,
                   .bin = -1,
                   .first_step = r->prompt_len,
                   .last_step = r->n_tokens,
                   .kept = r->totals.kept};
  kv_rc rc;
  memcpy(whole.stat, r->stat, sizeof whole.stat);
  rc = put_part(db, run, 0, &whole, e);
  for (int i = 0; i < r->n_parts && !rc; i++)
    rc = put_part(db, run, i + 1, r->part + i, e);
  return rc;
}

static kv_rc put_layers_and_steps(kv_db *db, int64_t run, const kv_result *r,
                                  kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; i < r->n_layers && !rc; i++)
    rc =
        kv_db_do(db, e, "INSERT INTO journal_digest VALUES (?,?,?,?,?)",
                 "iihhh", run, (int64_t)r->layer[i].layer, &r->layer[i].journal,
                 &r->layer[i].state, &r->layer[i].output);
  for (int i = 0; i < r->n_steps && !rc; i++)
    rc = kv_db_do(db, e, "INSERT INTO step_cost VALUES (?,?,?,?,?)", "iiiii",
                  run, (int64_t)r->step[i].step, r->step[i].bytes,
                  r->step[i].codes, r->step[i].read);
  return rc;
}

static kv_rc put_totals(kv_db *db, int64_t run, const kv_totals *t, kv_err *e) {
  kv_rc rc = kv_db_do(
      db, e,
      "UPDATE run SET payload=?2, metadata=?3, columns=?4, side=?5, slack=?6,"
      " codes_end=?7, peak=?8, codes_peak=?9, mti=?10, moved=?11, verbs=?12,"
      " kept_min=?13, kept_max=?14 WHERE run_id=?1",
      "iiiiiiiiiiiiii", run, t->end.payload, t->end.metadata, t->end.columns,
      t->end.side, t->end.slack, t->codes_end, t->peak, t->codes_peak, t->mti,
      t->moved, t->verbs, (int64_t)t->kept_min, (int64_t)t->kept_max);
  if (rc) return rc;
  return kv_db_do(
      db, e,
      "UPDATE run SET mean=?2, mean_bits=?3, codes_mean=?4,"
      " codes_mean_bits=?5, read=?6, read_bits=?7, kr=?8, kr_bits=?9, cr=?10,"
      " cr_bits=?11, kept=?12, kept_bits=?13, attended=?14,"
      " attended_bits=?15 WHERE run_id=?1",
      "iddddddd", run, t->mean, t->codes_mean, t->read, t->kr, t->cr, t->kept,
      t->attended);
}

static const char *run_status(const kv_result *r) {
  return kv_status_names[r->status == KV_CELL_FIXED ? KV_CELL_OK : r->status];
}

static kv_rc put_run(kv_db *db, const char *key, const kv_result *r,
                     int64_t *run, kv_err *e) {
  bool ran = kv_result_ran(r);
  char subject[65], value[65], code[80];
  kv_rc rc;
  kv_db_subject(r, subject);
  kv_db_value(r, value);
  rc = kv_db_do(
      db, e,
      "INSERT INTO run (key, subject, identity, prompt_len, method, revision,"
      " code, params, spec, arithmetic, budget, status, reason, journal,"
      " state, output, value, measures) VALUES"
      " (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
      "sshisisssinsshhhsi", key, subject, &r->identity, (int64_t)r->prompt_len,
      r->method, (int64_t)r->revision, kv_db_code(r, code), r->params,
      r->spec ? r->spec : r->method, (int64_t)r->arithmetic, r->budget,
      run_status(r), r->reason, ran ? &r->journal : NULL,
      ran ? &r->state : NULL, ran ? &r->output : NULL, ran ? value : NULL,
      (int64_t)KV_MEASURES);
  if (rc) return rc;
  *run = sqlite3_last_insert_rowid(db->sql);
  if (!ran) return KV_OK;
  rc = put_totals(db, *run, &r->totals, e);
  if (!rc) rc = put_parts(db, *run, r, e);
  if (!rc) rc = put_layers_and_steps(db, *run, r, e);
  return rc;
}

kv_rc kv_db_ask_row(kv_db *db, int64_t run, const kv_result *r, kv_err *e) {
  return kv_db_do(db, e, "INSERT OR IGNORE INTO ask VALUES (?,?,?,?,?,?)",
                  "isssd", run, kv_basis_names[r->basis], r->target,
                  kv_status_names[r->status],
                  kv_result_ran(r) ? r->achieved : NAN);
}

static kv_rc put_confirmation(kv_db *db, int64_t run, int64_t env,
                              const kv_result *r, kv_err *e) {
  bool ran = kv_result_ran(r);
  return kv_db_do(db, e,
                  "INSERT OR IGNORE INTO confirmation VALUES"
                  " (?,?,?,?,?,?,?,?,?)",
                  "iissirhhh", run, env, r->backend, r->isa,
                  (int64_t)r->threads, r->seconds, ran ? &r->journal : NULL,
                  ran ? &r->state : NULL, ran ? &r->output : NULL);
}

static kv_rc put_diff(kv_db *db, int64_t run, int64_t env, int layer,
                      const char *where, const kv_result *r, kv_err *e) {
  bool ran = kv_result_ran(r);
  char value[65];
  kv_db_value(r, value);
  return kv_db_do(db, e,
                  "INSERT OR IGNORE INTO diff VALUES"
                  " (?,?,?,?,?,?,?,?,?,?,?,?)",
                  "iissinsshhhs", run, env, r->backend, r->isa,
                  (int64_t)r->threads, layer, where, run_status(r),
                  ran ? &r->journal : NULL, ran ? &r->state : NULL,
                  ran ? &r->output : NULL, ran ? value : NULL);
}

/* A row of a version with other measures is compared by its digests only. */
static kv_rc has_all_measures(kv_db *db, int64_t run, bool *all, kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc = kv_db_bind(db, &s, e, "SELECT measures FROM run WHERE run_id = ?",
                        "i", run);
  *all = false;
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  *all = sqlite3_column_int(s, 0) == KV_MEASURES;
  sqlite3_reset(s);
  return KV_OK;
}

static void tell(const kv_db *db, const kv_result *r, const char *where,
                 kv_err *conflict) {
  kv_fail(conflict, KV_DIFFERENT,
          "%.120s on %.60s (%s, %s, threads: %d) contradicts %.80s: %s; one "
          "of the two is wrong",
          r->spec ? r->spec : r->method, r->trace, r->backend, r->isa,
          r->threads, db->path, where);
}

/* The row is there: the same, or a conflict that is stored and told. */
static kv_rc check(kv_db *db, int64_t run, int64_t env, const kv_result *r,
                   kv_err *conflict, kv_err *e) {
  kv_result before = {.n_tokens = r->n_tokens, .prompt_len = r->prompt_len};
  char where[KV_DB_WHERE];
  bool values;
  int layer;
  kv_rc rc = has_all_measures(db, run, &values, e);
  if (!rc) rc = kv_db_load(db, run, &before, e);
  if (rc) goto out;
  kv_db_compare(&before, r, values, &layer, where);
  if (!*where) {
    rc = put_confirmation(db, run, env, r, e);
    if (!rc) rc = kv_db_ask_row(db, run, r, e);
  } else {
    tell(db, r, where, conflict);
    rc = put_diff(db, run, env, layer, where, r, e);
  }
out:
  kv_result_free(&before);
  return rc;
}

static kv_rc put_new(kv_db *db, const char *key, int64_t env,
                     const kv_result *r, kv_err *e) {
  int64_t run = 0;
  kv_rc rc = kv_db_trace_row(db, r->trace, &r->identity, r->n_tokens, NULL, e);
  if (!rc) rc = put_run(db, key, r, &run, e);
  if (!rc) rc = kv_db_ask_row(db, run, r, e);
  return rc ? rc : put_confirmation(db, run, env, r, e);
}

kv_rc kv_db_put(kv_db *db, const kv_result *r, const kv_environment *env,
                kv_err *e) {
  char key[65];
  int64_t run = 0, where = 0;
  kv_err conflict = {0};
  kv_rc rc;
  kv_db_key(r, key);
  rc = kv_db_begin(db, e);
  if (rc) return rc;
  rc = kv_db_environment_row(db, env, &where, e);
  if (!rc) rc = kv_db_run_of(db, key, &run, e);
  if (!rc)
    rc = run ? check(db, run, where, r, &conflict, e)
             : put_new(db, key, where, r, e);
  rc = kv_db_end(db, rc, e);
  if (!rc && conflict.rc) return kv_fail(e, conflict.rc, "%s", conflict.text);
  return rc;
}

kv_rc kv_db_put_theirs(kv_db *db, const kv_result *r, const kv_environment *env,
                       const char *who, int layer, const char *what,
                       kv_err *e) {
  const char *insert = "INSERT OR IGNORE INTO diff VALUES"
                       " (?,?,'theirs',?,1,?,?,'ok',NULL,NULL,NULL,NULL)";
  char key[65];
  int64_t run = 0, where = 0;
  kv_db_key(r, key);
  kv_rc rc = kv_db_begin(db, e);
  if (rc) return rc;
  rc = kv_db_environment_row(db, env, &where, e);
  if (!rc) rc = kv_db_run_of(db, key, &run, e);
  assert((rc || run) && "the row was put first");
  if (!rc && what)
    rc =
        kv_db_do(db, e, insert, "iisis", run, where, who, (int64_t)layer, what);
  if (!rc && !what) /* graded anew: the earlier grading is replaced */
    rc = kv_db_do(db, e,
                  "DELETE FROM diff WHERE run_id = ? AND backend = 'theirs'"
                  " AND isa = ?",
                  "is", run, who);
  return kv_db_end(db, rc, e);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing a cell. kv_db_put is one transaction: it stores the whole row with
 * all its parts, or nothing. The row is collected in memory as a separate
 * database ("now"), which is joined to the file (union.h); contradictions go to
 * `diff`.
 */
#include "sim/store/db_private.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static kv_rc put_stats(kv_db *db, int64_t run, int part, const kv_stat *s,
                       kv_err *e) {
  kv_rc rc = KV_OK;
  for (int m = 0; m < KV_MEASURES && !rc; m++) {
    if (!s[m].count) continue;
    rc = kv_db_insert(db, e, KV_DB_metric, &s[m], "iis", run, (int64_t)part,
                      kv_measure_table[m].name);
  }
  return rc;
}

static kv_rc put_part(kv_db *db, int64_t run, int part, const kv_part *p,
                      kv_err *e) {
  kv_rc rc = kv_db_insert(db, e, KV_DB_part, p, "ii", run, (int64_t)part);
  return rc ? rc : put_stats(db, run, part, p->stat, e);
}

/* Part 0 is the run itself. */
static kv_rc put_parts(kv_db *db, int64_t run, const kv_result *r, kv_err *e) {
  kv_part whole = {.layer = -1,
                   .head = -1,
                   .bin = -1,
                   .first_step = r->prompt_len,
                   .last_step = r->n_tokens,
                   .kept = r->totals.kept,
                   .drift = r->drift};
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
    rc = kv_db_insert(db, e, KV_DB_journal_digest, NULL, "iihhhh", run,
                      (int64_t)r->layer[i].layer, &r->layer[i].journal,
                      &r->layer[i].state, &r->layer[i].output,
                      r->has_scores ? &r->layer[i].scores : NULL);
  for (int i = 0; i < r->n_steps && !rc; i++)
    rc = kv_db_insert(db, e, KV_DB_step_cost, &r->step[i], "i", run);
  return rc;
}

static kv_rc put_held(kv_db *db, int64_t run, const kv_bytes *b, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; i < KV_N_BYTE_KINDS && !rc; i++) {
    const kv_byte_kind *kind = kv_byte_kind_at(i);
    if (!kv_bytes_has(b, i)) continue;
    rc = kv_db_insert(db, e, KV_DB_held, NULL, "isii", run, kind->name,
                      (int64_t)kind->counts, kv_bytes_get(b, i));
  }
  return rc;
}

static kv_rc put_totals(kv_db *db, int64_t run, const kv_totals *t, kv_err *e) {
  kv_rc rc = put_held(db, run, &t->end, e);
  for (int i = 0; i < kv_n_scalars && !rc; i++) {
    const kv_scalar *s = &kv_scalars[i];
    double x = kv_scalar_get(t, s);
    if (isnan(x)) continue;
    rc = s->type == KV_SCALAR_REAL
             ? kv_db_insert(db, e, KV_DB_scalar, NULL, "isr", run, s->name, x)
             : kv_db_insert(db, e, KV_DB_scalar, NULL, "isi", run, s->name,
                            kv_scalar_bits(t, s));
  }
  return rc;
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
  rc = kv_db_insert(
      db, e, KV_DB_run, NULL,
      "sshisisssinsss"
      "hhhhsi",
      key, subject, &r->identity, (int64_t)r->prompt_len, r->method,
      (int64_t)r->revision, kv_db_code(r, code), r->params,
      r->spec ? r->spec : r->method, (int64_t)r->arithmetic, r->budget,
      kv_observe_names[r->observe], run_status(r), r->reason,
      ran ? &r->journal : NULL, ran ? &r->state : NULL, ran ? &r->output : NULL,
      ran && r->has_scores ? &r->scores : NULL, ran ? value : NULL,
      (int64_t)kv_db_measures());
  if (rc) return rc;
  *run = sqlite3_last_insert_rowid(db->sql);
  if (!ran) return KV_OK;
  rc = put_totals(db, *run, &r->totals, e);
  if (!rc) rc = put_parts(db, *run, r, e);
  if (!rc) rc = put_layers_and_steps(db, *run, r, e);
  if (!rc && r->step_mean) rc = kv_db_put_means(db, *run, r, e);
  return rc;
}

kv_rc kv_db_ask_row(kv_db *db, int64_t run, const kv_result *r, kv_err *e) {
  return kv_db_insert(
      db, e, KV_DB_ask, NULL, "isssd", run, kv_basis_names[r->basis], r->target,
      kv_status_names[r->status], kv_result_ran(r) ? r->achieved : NAN);
}

static kv_rc put_confirmation(kv_db *db, int64_t run, int64_t env,
                              const kv_result *r, kv_err *e) {
  bool ran = kv_result_ran(r);
  return kv_db_insert(db, e, KV_DB_confirmation, NULL, "iissirhhh", run, env,
                      r->backend, r->isa, (int64_t)r->threads, r->seconds,
                      ran ? &r->journal : NULL, ran ? &r->state : NULL,
                      ran ? &r->output : NULL);
}

static kv_rc put_diff(kv_db *db, int64_t run, int64_t env, int layer,
                      const char *where, const kv_result *r, kv_err *e) {
  bool ran = kv_result_ran(r);
  char value[65];
  kv_db_value(r, value);
  return kv_db_insert(db, e, KV_DB_diff, NULL, "iissinsshhhs", run, env,
                      r->backend, r->isa, (int64_t)r->threads, layer, where,
                      run_status(r), ran ? &r->journal : NULL,
                      ran ? &r->state : NULL, ran ? &r->output : NULL,
                      ran ? value : NULL);
}

/* Collects the row and all that belongs to it in "now". */
static kv_rc gather(kv_db *db, const char *key, const kv_result *r,
                    const kv_environment *v, kv_err *e) {
  int64_t run = 0, env = 0;
  kv_rc rc = kv_db_gather(db, e);
  if (!rc) rc = kv_db_environment_row(db, v, &env, e);
  if (!rc)
    rc = kv_db_trace_row(db, r->trace, &r->identity, NULL, NULL, r->n_tokens,
                         NULL, e);
  if (!rc) rc = put_run(db, key, r, &run, e);
  if (!rc) rc = kv_db_ask_row(db, run, r, e);
  if (!rc) rc = kv_db_put_layouts(db, run, r, e);
  return rc ? rc : put_confirmation(db, run, env, r, e);
}

/* *run: the file's row with that key; 0: none. */
static kv_rc settle(kv_db *db, const char *key, int64_t *run, bool *found,
                    kv_db_difference *d, kv_err *e) {
  kv_rc rc = kv_db_run_of(db, key, run, e);
  if (!rc && !*run && db->still)
    rc = kv_fail(e, KV_RESOURCE,
                 "nothing can be stored in %s, which is read-only", db->path);
  return rc ? rc : kv_db_settle(db, found, d, e);
}

/* Stores what contradicts the row. */
static kv_rc keep(kv_db *db, int64_t run, const kv_result *r,
                  const kv_environment *v, const kv_db_difference *d,
                  kv_err *e) {
  int64_t env = 0;
  kv_rc rc = kv_db_environment_row(db, v, &env, e);
  return rc ? rc : put_diff(db, run, env, d->layer, d->what, r, e);
}

kv_rc kv_db_put(kv_db *db, const kv_result *r, const kv_environment *env,
                kv_err *e) {
  char key[65];
  int64_t run = 0;
  bool found = false;
  kv_db_difference d;
  kv_db_key(r, key);
  kv_rc rc = db->still ? KV_OK : kv_db_begin(db, e);
  if (rc) return rc;
  rc = gather(db, key, r, env, e);
  if (!rc) rc = settle(db, key, &run, &found, &d, e);
  if (!rc && found && !db->still) rc = keep(db, run, r, env, &d, e);
  if (!rc && !db->still) rc = kv_db_unkeep(db, key, r->backend, e);
  db->gathers = false;
  if (!db->still) rc = kv_db_end(db, rc, e);
  if (rc || !found) return rc;
  return kv_fail(e, KV_DIFFERENT,
                 "%.120s on %.60s (%s, %s, threads: %d) contradicts %.80s: %s; "
                 "one of the two is wrong",
                 r->spec ? r->spec : r->method, r->trace, r->backend, r->isa,
                 r->threads, db->path, d.what);
}

kv_rc kv_db_put_theirs(kv_db *db, const kv_result *r, const kv_environment *env,
                       const char *who, int layer, const char *what,
                       kv_err *e) {
  char key[65];
  int64_t run = 0, where = 0;
  kv_db_key(r, key);
  kv_rc rc = kv_db_begin(db, e);
  if (rc) return rc;
  rc = kv_db_environment_row(db, env, &where, e);
  if (!rc) rc = kv_db_run_of(db, key, &run, e);
  assert((rc || run) && "the row was put first");
  if (!rc && what)
    rc = kv_db_insert(db, e, KV_DB_diff, NULL, "iissiisshhhs", run, where,
                      "theirs", who, (int64_t)1, (int64_t)layer, what, "ok",
                      NULL, NULL, NULL, NULL);
  if (!rc && !what) /* a new grading replaces the earlier one */
    rc = kv_db_do(db, e,
                  "DELETE FROM diff WHERE run_id = ? AND backend = 'theirs'"
                  " AND isa = ?",
                  "is", run, who);
  return kv_db_end(db, rc, e);
}

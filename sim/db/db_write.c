/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing a cell. kv_db_put is one transaction: afterwards either the whole row
 * with all its parts is there, or nothing of it. If the key exists, the two are
 * compared: an equal result confirms, a different one goes to `diff`.
 */
#include "sim/db/db_private.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static kv_rc put_stats(kv_db *db, int64_t run, int part, const kv_stat *s,
                       kv_err *e) {
  kv_rc rc = KV_OK;
  for (int m = 0; m < KV_MEASURES && !rc; m++) {
    if (!s[m].count) continue;
    rc = kv_db_do(db, e,
                  "INSERT INTO metric VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                  "iist", run, (int64_t)part, kv_measure_table[m].name,
                  kv_db_of_stat, &s[m]);
  }
  return rc;
}

static kv_rc put_part(kv_db *db, int64_t run, int part, const kv_part *p,
                      kv_err *e) {
  kv_rc rc = kv_db_do(db, e, "INSERT INTO part VALUES (?,?,?,?,?,?,?,?,?,?,?)",
                      "iit", run, (int64_t)part, kv_db_of_part, p);
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
    rc = kv_db_do(db, e, "INSERT INTO journal_digest VALUES (?,?,?,?,?,?)",
                  "iihhhh", run, (int64_t)r->layer[i].layer,
                  &r->layer[i].journal, &r->layer[i].state, &r->layer[i].output,
                  r->has_scores ? &r->layer[i].scores : NULL);
  for (int i = 0; i < r->n_steps && !rc; i++)
    rc = kv_db_do(db, e, "INSERT INTO step_cost VALUES (?,?,?,?,?,?)", "it",
                  run, kv_db_of_step, &r->step[i]);
  return rc;
}

static kv_rc put_held(kv_db *db, int64_t run, const kv_bytes *b, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; i < KV_N_BYTE_KINDS && !rc; i++) {
    const kv_byte_kind *kind = kv_byte_kind_at(i);
    if (!kv_bytes_has(b, i)) continue;
    rc = kv_db_do(db, e, "INSERT INTO held VALUES (?,?,?,?)", "isii", run,
                  kind->name, (int64_t)kind->counts, kv_bytes_get(b, i));
  }
  return rc;
}

static kv_rc put_totals(kv_db *db, int64_t run, const kv_totals *t, kv_err *e) {
  static const char insert[] = "INSERT INTO scalar VALUES (?,?,?)";
  kv_rc rc = put_held(db, run, &t->end, e);
  for (int i = 0; i < kv_n_scalars && !rc; i++) {
    const kv_scalar *s = &kv_scalars[i];
    double x = kv_scalar_get(t, s);
    if (isnan(x)) continue;
    rc = s->type == KV_SCALAR_REAL
             ? kv_db_do(db, e, insert, "isr", run, s->name, x)
             : kv_db_do(db, e, insert, "isi", run, s->name,
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
  rc = kv_db_do(
      db, e,
      "INSERT INTO run (key, subject, identity, prompt_len, method, revision,"
      " code, params, spec, arithmetic, budget, status, reason, journal,"
      " state, output, value, measures, scores, observe) VALUES"
      " (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
      "sshisisssinsshhhsihs", key, subject, &r->identity,
      (int64_t)r->prompt_len, r->method, (int64_t)r->revision,
      kv_db_code(r, code), r->params, r->spec ? r->spec : r->method,
      (int64_t)r->arithmetic, r->budget, run_status(r), r->reason,
      ran ? &r->journal : NULL, ran ? &r->state : NULL, ran ? &r->output : NULL,
      ran ? value : NULL, (int64_t)kv_db_measures(),
      ran && r->has_scores ? &r->scores : NULL, kv_observe_names[r->observe]);
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

/* Adds the digests of scores to a row that has none. */
static kv_rc put_scores(kv_db *db, int64_t run, const kv_result *r, kv_err *e) {
  kv_rc rc = kv_db_do(db, e, "UPDATE run SET scores = ?2 WHERE run_id = ?1",
                      "ih", run, &r->scores);
  for (int i = 0; i < r->n_layers && !rc; i++)
    rc = kv_db_do(db, e,
                  "UPDATE journal_digest SET scores = ?3 WHERE run_id = ?1 AND"
                  " layer = ?2",
                  "iih", run, (int64_t)r->layer[i].layer, &r->layer[i].scores);
  return rc;
}

/* *all: the run has all measures of this version; otherwise only its digests
 * are compared. */
static kv_rc has_all_measures(kv_db *db, int64_t run, bool *all, kv_err *e) {
  int64_t n = -1;
  kv_rc rc = kv_db_one(db, &n, e, "SELECT measures FROM run WHERE run_id = ?",
                       "i", run);
  *all = n == kv_db_measures();
  return rc;
}

static void tell(const kv_db *db, const kv_result *r, const char *where,
                 kv_err *conflict) {
  kv_fail(conflict, KV_DIFFERENT,
          "%.120s on %.60s (%s, %s, threads: %d) contradicts %.80s: %s; one "
          "of the two is wrong",
          r->spec ? r->spec : r->method, r->trace, r->backend, r->isa,
          r->threads, db->path, where);
}

/* The row exists: confirms it, or stores and reports a conflict. */
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
  if (!*where) rc = kv_db_compare_layouts(db, run, r, where, e);
  if (!rc && !*where) rc = kv_db_compare_device_caches(db, run, r, where, e);
  if (!rc && !*where) rc = kv_db_compare_survivals(db, run, r, where, e);
  if (rc) goto out;
  if (*where) tell(db, r, where, conflict);
  if (db->still) goto out;
  if (!*where) {
    rc = put_confirmation(db, run, env, r, e);
    if (!rc) rc = kv_db_ask_row(db, run, r, e);
    if (!rc) rc = kv_db_put_layouts(db, run, r, e);
    if (!rc) rc = kv_db_put_device_caches(db, run, r, e);
    if (!rc) rc = kv_db_put_survivals(db, run, r, e);
    if (!rc && r->has_scores && !before.has_scores)
      rc = put_scores(db, run, r, e);
  } else {
    rc = put_diff(db, run, env, layer, where, r, e);
  }
out:
  kv_result_free(&before);
  return rc;
}

static kv_rc put_new(kv_db *db, const char *key, int64_t env,
                     const kv_result *r, kv_err *e) {
  int64_t run = 0;
  kv_rc rc =
      kv_db_trace_row(db, r->trace, &r->identity, NULL, r->n_tokens, NULL, e);
  if (!rc) rc = put_run(db, key, r, &run, e);
  if (!rc) rc = kv_db_ask_row(db, run, r, e);
  if (!rc) rc = kv_db_put_layouts(db, run, r, e);
  if (!rc) rc = kv_db_put_device_caches(db, run, r, e);
  if (!rc) rc = kv_db_put_survivals(db, run, r, e);
  return rc ? rc : put_confirmation(db, run, env, r, e);
}

/* Compares with the stored row where nothing can be written. */
static kv_rc compare(kv_db *db, const char *key, const kv_result *r,
                     kv_err *conflict, kv_err *e) {
  int64_t run = 0;
  kv_rc rc = kv_db_run_of(db, key, &run, e);
  if (!rc && !run)
    rc = kv_fail(e, KV_RESOURCE, "nothing can be stored in %s", db->path);
  return rc ? rc : check(db, run, 0, r, conflict, e);
}

kv_rc kv_db_put(kv_db *db, const kv_result *r, const kv_environment *env,
                kv_err *e) {
  char key[65];
  int64_t run = 0, where = 0;
  kv_err conflict = {0};
  kv_rc rc;
  kv_db_key(r, key);
  rc = db->still ? compare(db, key, r, &conflict, e) : kv_db_begin(db, e);
  if (!rc && conflict.rc) return kv_fail(e, conflict.rc, "%s", conflict.text);
  if (rc || db->still) return rc;
  rc = kv_db_environment_row(db, env, &where, e);
  if (!rc) rc = kv_db_run_of(db, key, &run, e);
  if (!rc)
    rc = run ? check(db, run, where, r, &conflict, e)
             : put_new(db, key, where, r, e);
  if (!rc) rc = kv_db_unkeep(db, key, r->backend, e);
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
  if (!rc && !what) /* a new grading replaces the earlier one */
    rc = kv_db_do(db, e,
                  "DELETE FROM diff WHERE run_id = ? AND backend = 'theirs'"
                  " AND isa = ?",
                  "is", run, who);
  return kv_db_end(db, rc, e);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading rows back to the bit: exact columns are read from their bits. Part 0
 * is the run itself; layers, heads and bins follow in the order in which they
 * were put. Every value is read by sim/store/db_value.c.
 */
#include "sim/store/db_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int kv_db_measure(kv_db *db, sqlite3_stmt *s, int at) {
  const char *name = kv_db_text(db, s, at);
  for (int m = 0; m < KV_MEASURES; m++)
    if (!strcmp(name, kv_measure_table[m].name)) return m;
  return -1;
}

static kv_rc load_run(kv_db *db, int64_t run, kv_result *r, kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc =
      kv_db_bind(db, &s, e,
                 "SELECT status, reason, budget, journal, state, output, scores"
                 " FROM run WHERE run_id = ?",
                 "i", run);
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  r->status = (kv_status)kv_db_name(db, s, 0, 4, kv_status_names);
  snprintf(r->reason, sizeof r->reason, "%s", kv_db_text(db, s, 1));
  r->budget =
      sqlite3_column_type(s, 2) == SQLITE_NULL ? -1 : kv_db_int(db, s, 2, 0);
  if (kv_result_ran(r)) { /* a row that did not run has nulls here */
    kv_db_digest(db, s, 3, &r->journal);
    kv_db_digest(db, s, 4, &r->state);
    kv_db_digest(db, s, 5, &r->output);
  }
  r->has_scores = sqlite3_column_type(s, 6) != SQLITE_NULL;
  if (r->has_scores) kv_db_digest(db, s, 6, &r->scores);
  return kv_db_done(db, s, kv_db_sound(db, "run", run, e), e);
}

/* Bytes by kind. Skips kinds that this program lacks. Kinds that the row lacks
 * were not counted separately when it was put: 0. */
static kv_rc load_held(kv_db *db, int64_t run, kv_bytes *b, kv_err *e) {
  sqlite3_stmt *s;
  int known = 0;
  kv_rc rc = kv_db_bind(
      db, &s, e, "SELECT kind, bytes FROM held WHERE run_id = ?", "i", run);
  *b = (kv_bytes){0};
  while (!rc && kv_db_row(db, s, &rc, e)) {
    const char *name = kv_db_text(db, s, 0);
    int64_t bytes = kv_db_whole(db, s, 1, 0, INT64_MAX);
    for (int i = 0; i < KV_N_BYTE_KINDS; i++)
      if (!strcmp(name, kv_byte_kind_at(i)->name)) {
        *kv_bytes_of(b, i) = bytes;
        known += i < KV_DB_FIRST_KINDS;
      }
  }
  if (!rc) rc = kv_db_sound(db, "held", run, e);
  if (rc || known == KV_DB_FIRST_KINDS) return rc;
  return kv_fail(
      e, KV_INPUT,
      "%s is damaged: table held lacks bytes of run_id %lld; restore it from a "
      "copy, or run the cells again into a new file",
      db->path, (long long)run);
}

/* Numbers of the run. Skips those that this program lacks; those that the row
 * lacks were not measured: NaN, or -1. */
static kv_rc load_scalars(kv_db *db, int64_t run, kv_totals *t, kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc = kv_db_bind(
      db, &s, e, "SELECT name, value FROM scalar WHERE run_id = ?", "i", run);
  for (int i = 0; i < kv_n_scalars; i++)
    kv_scalar_set(t, &kv_scalars[i],
                  kv_scalars[i].type == KV_SCALAR_REAL ? kv_db_bits(NAN) : -1);
  while (!rc && kv_db_row(db, s, &rc, e)) {
    const char *name = kv_db_text(db, s, 0);
    for (int i = 0; i < kv_n_scalars; i++) {
      const kv_scalar *x = &kv_scalars[i];
      if (strcmp(name, x->name)) continue;
      kv_scalar_set(
          t, x,
          x->type == KV_SCALAR_REAL
              ? kv_db_bits(kv_db_number(db, s, 1))
              : kv_db_whole(db, s, 1, 0,
                            x->type == KV_SCALAR_INT ? INT32_MAX : INT64_MAX));
    }
  }
  return rc ? rc : kv_db_sound(db, "scalar", run, e);
}

/* Allocates n zeroed elements; NULL if n is 0. */
static kv_rc room(int n, size_t size, void *out, kv_err *e) {
  void *p = n ? kv_zalloc((size_t)n, size) : NULL;
  memcpy(out, &p, sizeof p);
  return n && !p ? kv_no_memory(e, "a row of results", (size_t)n * size)
                 : KV_OK;
}

static kv_rc take_arrays(kv_db *db, int64_t run, kv_result *r, kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc = kv_db_bind(
      db, &s, e,
      "SELECT (SELECT count(*) FROM part WHERE run_id = ?1 AND part > 0),"
      " (SELECT count(*) FROM journal_digest WHERE run_id = ?1),"
      " (SELECT count(*) FROM step_cost WHERE run_id = ?1)",
      "i", run);
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  r->n_parts = sqlite3_column_int(s, 0);
  r->n_layers = sqlite3_column_int(s, 1);
  r->n_steps = sqlite3_column_int(s, 2);
  sqlite3_reset(s);
  rc = room(r->n_parts, sizeof *r->part, &r->part, e);
  if (!rc) rc = room(r->n_layers, sizeof *r->layer, &r->layer, e);
  if (!rc) rc = room(r->n_steps, sizeof *r->step, &r->step, e);
  return rc;
}

/* There are more rows than were counted: the file contradicts itself. */
static kv_rc reset(kv_db *db, sqlite3_stmt *s, const char *table, int64_t run,
                   kv_err *e) {
  sqlite3_reset(s);
  return kv_fail(e, KV_INPUT,
                 "%s is damaged: table %s has more rows of run_id %lld than it "
                 "counts; restore it from a copy",
                 db->path, table, (long long)run);
}

static kv_rc load_parts(kv_db *db, int64_t run, kv_result *r, kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc = kv_db_bind(
      db, &s, e, "SELECT * FROM part WHERE run_id = ? ORDER BY part", "i", run);
  kv_part whole = {.drift = (double)NAN};
  for (int i = 0; !rc && kv_db_row(db, s, &rc, e); i++) {
    if (i > r->n_parts) return reset(db, s, "part", run, e);
    kv_db_take(db, s, KV_DB_part, i ? r->part + i - 1 : &whole);
  }
  r->drift = whole.drift;
  return rc ? rc : kv_db_sound(db, "part", run, e);
}

static kv_rc load_metrics(kv_db *db, int64_t run, kv_result *r, kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc =
      kv_db_bind(db, &s, e, "SELECT * FROM metric WHERE run_id = ?", "i", run);
  while (!rc && kv_db_row(db, s, &rc, e)) {
    int part = (int)kv_db_whole(db, s, 1, 0, r->n_parts);
    int m = kv_db_measure(db, s, 2);
    kv_stat *to = part ? r->part[part - 1].stat : r->stat;
    if (m >= 0) /* else a measure of a later kvreplay */
      kv_db_take(db, s, KV_DB_metric, &to[m]);
  }
  return rc ? rc : kv_db_sound(db, "metric", run, e);
}

static kv_rc load_layers(kv_db *db, int64_t run, kv_result *r, kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc = kv_db_bind(db, &s, e,
                        "SELECT layer, journal, state, output, scores"
                        " FROM journal_digest WHERE run_id = ? ORDER BY layer",
                        "i", run);
  for (int i = 0; !rc && kv_db_row(db, s, &rc, e); i++) {
    if (i == r->n_layers) return reset(db, s, "journal_digest", run, e);
    r->layer[i].layer = kv_db_int(db, s, 0, 0);
    kv_db_digest(db, s, 1, &r->layer[i].journal);
    kv_db_digest(db, s, 2, &r->layer[i].state);
    kv_db_digest(db, s, 3, &r->layer[i].output);
    if (r->has_scores) kv_db_digest(db, s, 4, &r->layer[i].scores);
  }
  return rc ? rc : kv_db_sound(db, "journal_digest", run, e);
}

static kv_rc load_steps(kv_db *db, int64_t run, kv_result *r, kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc = kv_db_bind(
      db, &s, e, "SELECT * FROM step_cost WHERE run_id = ? ORDER BY step", "i",
      run);
  for (int i = 0; !rc && kv_db_row(db, s, &rc, e); i++) {
    if (i == r->n_steps) return reset(db, s, "step_cost", run, e);
    kv_db_take(db, s, KV_DB_step_cost, &r->step[i]);
  }
  return rc ? rc : kv_db_sound(db, "step_cost", run, e);
}

/* Reads the first confirmation, by the start time of its environment; if r
 * names a backend, only that backend's. */
static kv_rc load_first(kv_db *db, int64_t run, kv_result *r, kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc = kv_db_bind(
      db, &s, e,
      "SELECT c.backend, c.isa, c.threads, c.seconds FROM confirmation c"
      " JOIN environment v USING (environment_id) WHERE c.run_id = ?"
      " ORDER BY c.backend = ? DESC, v.started, v.environment_id,"
      " c.threads DESC, c.isa LIMIT 1",
      "is", run, r->backend ? r->backend : "");
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  r->backend = kv_db_word(db, kv_db_text(db, s, 0));
  snprintf(r->isa, sizeof r->isa, "%s", kv_db_text(db, s, 1));
  r->threads = kv_db_int(db, s, 2, 0);
  r->seconds = sqlite3_column_double(s, 3);
  rc = kv_db_done(db, s, kv_db_sound(db, "confirmation", run, e), e);
  if (rc || r->backend) return rc;
  return kv_no_memory(e, "a name", 1);
}

kv_rc kv_db_load(kv_db *db, int64_t run, kv_result *r, kv_err *e) {
  kv_rc rc;
  memset(r->stat, 0, sizeof r->stat);
  *db->wrong = 0;
  r->part = NULL;
  r->layer = NULL;
  r->step = NULL;
  r->step_mean = NULL;
  r->n_parts = r->n_layers = r->n_steps = 0;
  rc = load_run(db, run, r, e);
  if (!rc && kv_result_ran(r)) rc = load_held(db, run, &r->totals.end, e);
  if (!rc && kv_result_ran(r)) rc = load_scalars(db, run, &r->totals, e);
  if (!rc) rc = take_arrays(db, run, r, e);
  if (!rc) rc = load_parts(db, run, r, e);
  if (!rc) rc = load_metrics(db, run, r, e);
  if (!rc) rc = load_layers(db, run, r, e);
  if (!rc) rc = load_steps(db, run, r, e);
  if (!rc) rc = kv_db_load_means(db, run, r, e);
  if (!rc) rc = load_first(db, run, r, e);
  return rc;
}

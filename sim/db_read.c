/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading rows back, to the bit: exact columns come from their bits. Part 0
 * is the run itself; its layers, heads and bins follow in the order put.
 */
#include "sim/db_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int nibble(int c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool kv_digest_read(const char *hex, kv_digest *d) {
  memset(d, 0, sizeof *d);
  if (!hex || strlen(hex) != 64) return false;
  for (int i = 0; i < 32; i++) {
    int high = nibble(hex[2 * i]), low = nibble(hex[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    d->byte[i] = (uint8_t)(high << 4 | low);
  }
  return true;
}

/* NULL, where nothing ran, becomes zeros. */
static void read_digest(sqlite3_stmt *s, int at, kv_digest *d) {
  kv_digest_read((const char *)sqlite3_column_text(s, at), d);
}

static double read_bits(sqlite3_stmt *s, int at) {
  return kv_db_real(sqlite3_column_int64(s, at));
}

static void read_text(sqlite3_stmt *s, int at, size_t size, char *out) {
  const char *text = (const char *)sqlite3_column_text(s, at);
  snprintf(out, size, "%s", text ? text : "");
}

static int name_index(const char *name, int n, const char *const *names) {
  for (int i = 0; i < n && name; i++)
    if (!strcmp(name, names[i])) return i;
  return 0;
}

/* A measure that this program does not know is left out. */
static int measure_of(sqlite3_stmt *s, int at) {
  const char *name = (const char *)sqlite3_column_text(s, at);
  for (int m = 0; m < KV_MEASURES && name; m++)
    if (!strcmp(name, kv_measure_table[m].name)) return m;
  return -1;
}

static void read_totals(sqlite3_stmt *s, int at, kv_totals *t) {
  int64_t *const whole[] = {&t->end.payload, &t->end.metadata, &t->end.columns,
                            &t->end.side,    &t->end.slack,    &t->codes_end,
                            &t->peak,        &t->codes_peak,   &t->mti,
                            &t->moved,       &t->verbs};
  double *const real[] = {&t->mean, &t->codes_mean, &t->read,    &t->kr,
                          &t->cr,   &t->kept,       &t->attended};
  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
    *whole[i] = sqlite3_column_int64(s, at++);
  t->kept_min = sqlite3_column_int(s, at++);
  t->kept_max = sqlite3_column_int(s, at++);
  for (size_t i = 0; i < sizeof real / sizeof *real; i++)
    *real[i] = read_bits(s, at++);
}

static kv_rc load_run(kv_db *db, int64_t run, kv_result *r, kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc = kv_db_bind(
      db, &s, e,
      "SELECT status, reason, budget, journal, state, output, payload,"
      " metadata, columns, side, slack, codes_end, peak, codes_peak, mti,"
      " moved, verbs, kept_min, kept_max, mean_bits, codes_mean_bits,"
      " read_bits, kr_bits, cr_bits, kept_bits, attended_bits"
      " FROM run WHERE run_id = ?",
      "i", run);
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  r->status = (kv_status)name_index((const char *)sqlite3_column_text(s, 0), 4,
                                    kv_status_names);
  read_text(s, 1, sizeof r->reason, r->reason);
  r->budget =
      sqlite3_column_type(s, 2) == SQLITE_NULL ? -1 : sqlite3_column_int(s, 2);
  read_digest(s, 3, &r->journal);
  read_digest(s, 4, &r->state);
  read_digest(s, 5, &r->output);
  read_totals(s, 6, &r->totals);
  return kv_db_done(db, s, e);
}

/* Zeroed room for n elements; NULL is fine for none. */
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

static kv_rc load_parts(kv_db *db, int64_t run, kv_result *r, kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc =
      kv_db_bind(db, &s, e,
                 "SELECT layer, head, bin, first_step, last_step, kept_bits"
                 " FROM part WHERE run_id = ? AND part > 0 ORDER BY part",
                 "i", run);
  for (int i = 0; !rc && kv_db_row(db, s, &rc, e); i++) {
    kv_part *p = r->part + i;
    p->layer = sqlite3_column_int(s, 0);
    p->head = sqlite3_column_int(s, 1);
    p->bin = sqlite3_column_int(s, 2);
    p->first_step = sqlite3_column_int(s, 3);
    p->last_step = sqlite3_column_int(s, 4);
    p->kept = read_bits(s, 5);
  }
  return rc;
}

static kv_rc load_metrics(kv_db *db, int64_t run, kv_result *r, kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc = kv_db_bind(db, &s, e,
                        "SELECT part, measure, count, mean_bits, p50_bits,"
                        " p95_bits, p99_bits, max_bits FROM metric"
                        " WHERE run_id = ?",
                        "i", run);
  while (!rc && kv_db_row(db, s, &rc, e)) {
    int part = sqlite3_column_int(s, 0), m = measure_of(s, 1);
    kv_stat *to = part ? r->part[part - 1].stat : r->stat;
    if (m < 0 || part < 0 || part > r->n_parts) continue;
    to[m].count = sqlite3_column_int64(s, 2);
    to[m].mean = read_bits(s, 3);
    to[m].p50 = read_bits(s, 4);
    to[m].p95 = read_bits(s, 5);
    to[m].p99 = read_bits(s, 6);
    to[m].max = read_bits(s, 7);
  }
  return rc;
}

static kv_rc load_layers(kv_db *db, int64_t run, kv_result *r, kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc = kv_db_bind(db, &s, e,
                        "SELECT layer, journal, state, output"
                        " FROM journal_digest WHERE run_id = ? ORDER BY layer",
                        "i", run);
  for (int i = 0; !rc && kv_db_row(db, s, &rc, e); i++) {
    r->layer[i].layer = sqlite3_column_int(s, 0);
    read_digest(s, 1, &r->layer[i].journal);
    read_digest(s, 2, &r->layer[i].state);
    read_digest(s, 3, &r->layer[i].output);
  }
  return rc;
}

static kv_rc load_steps(kv_db *db, int64_t run, kv_result *r, kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc = kv_db_bind(db, &s, e,
                        "SELECT step, bytes, codes, read FROM step_cost"
                        " WHERE run_id = ? ORDER BY step",
                        "i", run);
  for (int i = 0; !rc && kv_db_row(db, s, &rc, e); i++) {
    r->step[i].step = sqlite3_column_int(s, 0);
    r->step[i].bytes = sqlite3_column_int64(s, 1);
    r->step[i].codes = sqlite3_column_int64(s, 2);
    r->step[i].read = sqlite3_column_int64(s, 3);
  }
  return rc;
}

/* How the first run was made, by the time its environment says: of the backend
 * that r names, if it has been there. */
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
  const char *backend = (const char *)sqlite3_column_text(s, 0);
  r->backend = backend ? kv_db_word(db, backend) : NULL;
  read_text(s, 1, sizeof r->isa, r->isa);
  r->threads = sqlite3_column_int(s, 2);
  r->seconds = sqlite3_column_double(s, 3);
  rc = kv_db_done(db, s, e);
  if (rc || r->backend) return rc;
  return kv_no_memory(e, "a name", 1);
}

kv_rc kv_db_load(kv_db *db, int64_t run, kv_result *r, kv_err *e) {
  kv_rc rc;
  memset(r->stat, 0, sizeof r->stat);
  r->part = NULL;
  r->layer = NULL;
  r->step = NULL;
  r->n_parts = r->n_layers = r->n_steps = 0;
  rc = load_run(db, run, r, e);
  if (!rc) rc = take_arrays(db, run, r, e);
  if (!rc) rc = load_parts(db, run, r, e);
  if (!rc) rc = load_metrics(db, run, r, e);
  if (!rc) rc = load_layers(db, run, r, e);
  if (!rc) rc = load_steps(db, run, r, e);
  if (!rc) rc = load_first(db, run, r, e);
  return rc;
}

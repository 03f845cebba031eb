/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of memory layouts belong to a run: one a layout, stored by the first run
 * that asked for it. They follow from the run's journal, so equal runs have
 * equal ones; a different one is a conflict like any other.
 */
#include "sim/db/db_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static kv_rc put_steps(kv_db *db, int64_t run, const kv_layout_result *l,
                       kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; i < l->n_steps && !rc; i++) {
    const kv_layout_step *s = &l->step[i];
    rc = kv_db_do(db, e,
                  "INSERT OR IGNORE INTO layout_step VALUES (?,?,?,?,?,?,?,?)",
                  "isiiiiii", run, l->name, (int64_t)s->step, s->pages,
                  s->bytes, s->slack, s->vacated, s->freed);
  }
  return rc;
}

static kv_rc put_tables(kv_db *db, int64_t run, const kv_layout_result *l,
                        kv_err *e) {
  const kv_layout_table_result *t = &l->tables;
  if (!t->there) return KV_OK;
  return kv_db_do(db, e,
                  "UPDATE layout SET unused_end = ?3, unused_peak = ?4,"
                  " moved = ?5, table_entries = ?6, list_operations = ?7"
                  " WHERE run_id = ?1 AND layout = ?2",
                  "isiiiii", run, l->name, t->unused_end, t->unused_peak,
                  t->moved, t->entries, t->operations);
}

enum { REGULARS = 9 };
#define REGULAR_COLUMNS                                                        \
  "lanes, loads, rewrites, moves, moved_bytes, mask_end, mti, kept_steps,"     \
  " fullest_steps, rewritten, break_even"

/* In the order of the columns; behind them two that may be null. */
static void regulars(kv_layout_regular_result *g, int64_t *out[REGULARS]) {
  int64_t *const at[REGULARS] = {&g->lanes, &g->loads, &g->rewrites,
                                 &g->moves, &g->moved, &g->mask_end,
                                 &g->mti,   &g->kept,  &g->fullest};
  memcpy(out, at, sizeof at);
}

static kv_rc put_regular(kv_db *db, int64_t run, const kv_layout_result *l,
                         kv_err *e) {
  kv_layout_regular_result g = l->regular;
  int64_t *n[REGULARS];
  regulars(&g, n);
  if (!g.there) return KV_OK;
  return kv_db_do(db, e,
                  "UPDATE layout SET (" REGULAR_COLUMNS
                  ") = (?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,"
                  " iif(?12 < 0, NULL, ?12), iif(?13 < 0, NULL, ?13))"
                  " WHERE run_id = ?1 AND layout = ?2",
                  "isiiiiiiiiiii", run, l->name, *n[0], *n[1], *n[2], *n[3],
                  *n[4], *n[5], *n[6], *n[7], *n[8], g.rewritten, g.break_even);
}

kv_rc kv_db_put_layouts(kv_db *db, int64_t run, const kv_result *r, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; i < r->n_layouts && !rc && kv_result_ran(r); i++) {
    const kv_layout_result *l = &r->layout[i];
    rc = kv_db_do(db, e,
                  "INSERT OR IGNORE INTO layout(run_id, layout, pages_end,"
                  " pages_peak, pages_mean, pages_mean_bits, bytes_end,"
                  " bytes_peak, bytes_mean, bytes_mean_bits, slack_end,"
                  " slack_peak, slack_mean, slack_mean_bits, vacated, freed)"
                  " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                  "isiidiidiidii", run, l->name, l->pages_end, l->pages_peak,
                  l->pages_mean, l->end, l->peak, l->mean, l->slack_end,
                  l->slack_peak, l->slack_mean, l->vacated, l->freed);
    if (!rc) rc = put_tables(db, run, l, e);
    if (!rc) rc = put_regular(db, run, l, e);
    if (!rc) rc = put_steps(db, run, l, e);
  }
  return rc;
}

static kv_rc ask(kv_db *db, int64_t run, const char *name, sqlite3_stmt **s,
                 kv_err *e) {
  return kv_db_bind(db, s, e,
                    "SELECT pages_end, pages_peak, pages_mean_bits, bytes_end,"
                    " bytes_peak, bytes_mean_bits, slack_end, slack_peak,"
                    " slack_mean_bits, vacated, freed, unused_end, unused_peak,"
                    " moved, table_entries, list_operations, " REGULAR_COLUMNS
                    " FROM layout"
                    " WHERE run_id = ? AND layout = ?",
                    "is", run, name);
}

/* From column `at` on. */
static void load_tables(kv_db *db, sqlite3_stmt *s, int at,
                        kv_layout_table_result *t) {
  int64_t *const whole[] = {&t->unused_end, &t->unused_peak, &t->moved,
                            &t->entries, &t->operations};
  *t = (kv_layout_table_result){.there =
                                    sqlite3_column_type(s, at) != SQLITE_NULL};
  for (int i = 0; i < 5 && t->there; i++)
    *whole[i] = kv_db_whole(db, s, at + i, 0, INT64_MAX);
}

static int64_t load_or_none(kv_db *db, sqlite3_stmt *s, int at) {
  bool there = sqlite3_column_type(s, at) != SQLITE_NULL;
  return there ? kv_db_whole(db, s, at, 0, INT64_MAX) : -1;
}

static void load_regular(kv_db *db, sqlite3_stmt *s, int at,
                         kv_layout_regular_result *g) {
  int64_t *n[REGULARS];
  *g = (kv_layout_regular_result){.there = sqlite3_column_type(s, at) !=
                                           SQLITE_NULL};
  regulars(g, n);
  if (!g->there) return;
  for (int i = 0; i < REGULARS; i++)
    *n[i] = kv_db_whole(db, s, at + i, 0, INT64_MAX);
  g->rewritten = load_or_none(db, s, at + REGULARS);
  g->break_even = load_or_none(db, s, at + REGULARS + 1);
}

/* Reads a layout, except its steps. *found: it is there. */
static kv_rc load(kv_db *db, int64_t run, const char *name, kv_layout_result *l,
                  bool *found, kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc = ask(db, run, name, &s, e);
  *found = false;
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  int64_t *const whole[] = {&l->pages_end, &l->pages_peak, &l->end,
                            &l->peak,      &l->slack_end,  &l->slack_peak,
                            &l->vacated,   &l->freed};
  static const int at[] = {0, 1, 3, 4, 6, 7, 9, 10};
  *found = true;
  for (int i = 0; i < 8; i++)
    *whole[i] = kv_db_whole(db, s, at[i], INT64_MIN, INT64_MAX);
  l->pages_mean = kv_db_double(db, s, 2);
  l->mean = kv_db_double(db, s, 5);
  l->slack_mean = kv_db_double(db, s, 8);
  load_tables(db, s, 11, &l->tables);
  load_regular(db, s, 16, &l->regular);
  rc = kv_db_sound(db, "layout", run, e);
  kv_rc done = kv_db_done(db, s, rc ? NULL : e);
  return rc ? rc : done;
}

static bool same(const kv_layout_result *a, const kv_layout_result *b) {
  return a->pages_end == b->pages_end && a->pages_peak == b->pages_peak &&
         a->end == b->end && a->peak == b->peak &&
         a->slack_end == b->slack_end && a->slack_peak == b->slack_peak &&
         a->vacated == b->vacated && a->freed == b->freed &&
         !memcmp(&a->tables, &b->tables, sizeof a->tables) &&
         !memcmp(&a->regular, &b->regular, sizeof a->regular) &&
         kv_db_bits(a->pages_mean) == kv_db_bits(b->pages_mean) &&
         kv_db_bits(a->mean) == kv_db_bits(b->mean) &&
         kv_db_bits(a->slack_mean) == kv_db_bits(b->slack_mean);
}

kv_rc kv_db_compare_layouts(kv_db *db, int64_t run, const kv_result *r,
                            char where[KV_DB_WHERE], kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; i < r->n_layouts && !rc && kv_result_ran(r); i++) {
    const kv_layout_result *now = &r->layout[i];
    kv_layout_result was = {0};
    bool found;
    rc = load(db, run, now->name, &was, &found, e);
    if (rc || !found || same(&was, now)) continue;
    snprintf(where, KV_DB_WHERE,
             "layout %s held %" PRId64 " bytes at the end and %" PRId64
             " at its peak before, %" PRId64 " and %" PRId64 " now",
             now->name, was.end, was.peak, now->end, now->peak);
    return KV_OK;
  }
  return rc;
}

kv_rc kv_db_layouts_of(kv_db *db, const char *key, kv_layout_list *out,
                       kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc = kv_db_bind(db, &s, e,
                        "SELECT layout FROM layout JOIN run USING (run_id)"
                        " WHERE key = ? ORDER BY layout",
                        "s", key);
  while (!rc && kv_db_row(db, s, &rc, e)) {
    kv_err why = {0};
    kv_layouts_parse(kv_db_text(db, s, 0), out, &why);
    if (why.rc != KV_RESOURCE) continue;
    sqlite3_reset(s);
    return kv_fail(e, KV_RESOURCE, "%s", why.text);
  }
  return rc;
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
    rc = load(db, run, r->layout[i].name, &r->layout[i], all, e);
  return rc;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of memory layouts belong to a run: one a layout, stored by the first run
 * that asked for it. They follow from the run's journal, so equal runs have
 * equal ones; a different one is a conflict like any other.
 */
#include "sim/db/db_private.h"

#include <stdio.h>
#include <string.h>

/* Columns of the tables layout and layout_step, in the schema's order. */
#define ALL(type, member) KV_DB_OF(type, kv_layout_result, member, INT64_MIN)
#define TABLE(member) KV_DB_OF('i', kv_layout_table_result, member, 0)
#define INDEX(type, member) KV_DB_OF(type, kv_layout_regular_result, member, 0)
#define STEP(type, member) KV_DB_OF(type, kv_layout_step, member, 0)

static const kv_db_column of_all[] = {
    ALL('i', pages_end), ALL('i', pages_peak), ALL('d', pages_mean),
    ALL('i', end),       ALL('i', peak),       ALL('d', mean),
    ALL('i', slack_end), ALL('i', slack_peak), ALL('d', slack_mean),
    ALL('i', vacated),   ALL('i', freed),      {0}};
static const kv_db_column of_tables[] = {TABLE(unused_end), TABLE(unused_peak),
                                         TABLE(moved),      TABLE(entries),
                                         TABLE(operations), {0}};
static const kv_db_column of_regular[] = {
    INDEX('i', lanes),     INDEX('i', loads),      INDEX('i', rewrites),
    INDEX('o', rewritten), INDEX('i', moves),      INDEX('i', moved),
    INDEX('i', mask_end),  INDEX('i', mti),        INDEX('i', kept),
    INDEX('i', fullest),   INDEX('o', break_even), {0}};
static const kv_db_column of_map[] = {
    ALL('o', map_end), ALL('o', map_peak), {0}};
static const kv_db_column of_step[] = {STEP('n', step),
                                       STEP('i', pages),
                                       STEP('i', bytes),
                                       STEP('i', slack),
                                       STEP('i', vacated),
                                       STEP('i', freed),
                                       {0}};

kv_rc kv_db_put_layouts(kv_db *db, int64_t run, const kv_result *r, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; i < r->n_layouts && !rc && kv_result_ran(r); i++) {
    const kv_layout_result *l = &r->layout[i];
    rc = kv_db_do(db, e,
                  "INSERT INTO layout VALUES (?,?,?,?,?,?,?,?,?,?,?,"
                  "?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
                  " ON CONFLICT DO NOTHING",
                  "istttt", run, l->name, of_all, l, of_tables,
                  l->tables.there ? &l->tables : NULL, of_regular,
                  l->regular.there ? &l->regular : NULL, of_map, l);
    for (int j = 0; j < l->n_steps && !rc; j++)
      rc = kv_db_do(
          db, e, "INSERT OR IGNORE INTO layout_step VALUES (?,?,?,?,?,?,?,?)",
          "ist", run, l->name, of_step, &l->step[j]);
  }
  return rc;
}

/* What differs from `now` in the current row, which was read as `was`. */
static void tell(sqlite3_stmt *s, const kv_layout_result *was,
                 const kv_layout_result *now, char what[KV_DB_WHAT]) {
  int at = kv_db_tell(s, 2, of_all, was, now, what);
  at = kv_db_tell(s, at, of_tables, &was->tables, &now->tables, what);
  at = kv_db_tell(s, at, of_regular, &was->regular, &now->regular, what);
  kv_db_tell(s, at, of_map, was, now, what);
  bool same = was->tables.there == now->tables.there &&
              was->regular.there == now->regular.there;
  if (!*what && !same)
    snprintf(what, KV_DB_WHAT, "page tables or indices are missing before");
}

/* Reads a layout, except its steps. *found: it is there; what: in which number,
 * if any, it differs from `now`, if that is not NULL. */
static kv_rc load(kv_db *db, int64_t run, const char *name,
                  const kv_layout_result *now, kv_layout_result *l, bool *found,
                  char what[KV_DB_WHAT], kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc = kv_db_bind(db, &s, e,
                        "SELECT * FROM layout WHERE run_id = ? AND layout = ?",
                        "is", run, name);
  *found = false;
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  *found = true;
  int at = kv_db_take(db, s, 2, of_all, l);
  l->tables = (kv_layout_table_result){.there = sqlite3_column_type(s, at) !=
                                                SQLITE_NULL};
  if (l->tables.there) kv_db_take(db, s, at, of_tables, &l->tables);
  at += (int)(sizeof of_tables / sizeof *of_tables) - 1;
  l->regular = (kv_layout_regular_result){.there = sqlite3_column_type(s, at) !=
                                                   SQLITE_NULL};
  if (l->regular.there) kv_db_take(db, s, at, of_regular, &l->regular);
  at += (int)(sizeof of_regular / sizeof *of_regular) - 1;
  kv_db_take(db, s, at, of_map, l);
  if (now) tell(s, l, now, what);
  return kv_db_done(db, s, kv_db_sound(db, "layout", run, e), e);
}

kv_rc kv_db_compare_layouts(kv_db *db, int64_t run, const kv_result *r,
                            char where[KV_DB_WHERE], kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; i < r->n_layouts && !rc && kv_result_ran(r); i++) {
    const kv_layout_result *now = &r->layout[i];
    kv_layout_result was = {0};
    char what[KV_DB_WHAT] = "";
    bool found;
    rc = load(db, run, now->name, now, &was, &found, what, e);
    if (rc || !*what) continue;
    snprintf(where, KV_DB_WHERE, "digests agree, but of layout %s %s",
             now->name, what);
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
    rc = load(db, run, r->layout[i].name, NULL, &r->layout[i], all, NULL, e);
  return rc;
}

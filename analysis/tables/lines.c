/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/tables/lines.h"
#include "analysis/database/results.h"
#include "analysis/database/say.h"

static int put_line(sqlite3 *db, sqlite3_stmt *s, const kv_grid *all, int row,
                    const char *label) {
  static const char *const name[] = {"key", "basis", "asked"};
  for (int i = 0; i < 3; i++)
    sqlite3_bind_text(s, i + 1, kv_grid_text(all, row, name[i]), -1,
                      SQLITE_STATIC);
  sqlite3_bind_text(s, 4, label, -1, SQLITE_STATIC);
  int step = sqlite3_step(s), end = sqlite3_reset(s);
  return step != SQLITE_DONE || end ? kv_results_fail(db, "the database")
                                    : KV_EXIT_OK;
}

int kv_lines_put(sqlite3 *db, const kv_grid *cells, const kv_variants *v) {
  sqlite3_stmt *s = NULL;
  int rc = KV_EXIT_OK;
  if (sqlite3_prepare_v2(db, "INSERT OR REPLACE INTO line VALUES (?,?,?,?)", -1,
                         &s, NULL))
    rc = kv_results_fail(db, "the database");
  for (int r = 0; r < cells->rows && !rc; r++)
    rc = put_line(db, s, cells, r, v->label[v->of[r]]);
  sqlite3_finalize(s);
  return rc;
}

int kv_lines_fill(sqlite3 *db) {
  kv_variants v = {0};
  kv_grid all;
  int rc = kv_grid_ask(db, "SELECT " KV_LINES_ASK " FROM cell", 0, NULL, &all);
  if (rc) return rc;
  if (kv_variants_find(&all, &v))
    rc = kv_lines_put(db, &all, &v);
  else
    rc = kv_tell_short();
  kv_variants_free(&v);
  kv_grid_free(&all);
  return rc;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * whole_db FILE: is every row of the database there with all its parts? One
 * line "METHOD TRACE JOURNAL" a row, sorted, on standard output, so that two
 * databases can be compared. Exit 0 if it is whole, 3 and one line if not,
 * 4 if it cannot be opened. A database that does not exist is whole.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Each must answer nothing. */
static const char *const law[] = {
    "SELECT 'foreign key: ' || \"table\" FROM pragma_foreign_key_check",
    "SELECT 'no digest of every layer: ' || spec FROM run r JOIN trace t"
    " USING (identity) WHERE status = 'ok' AND t.n_layers IS NOT (SELECT"
    " count(*) FROM journal_digest d WHERE d.run_id = r.run_id)",
    "SELECT 'no cost of every step: ' || spec FROM run r JOIN trace t"
    " USING (identity) WHERE status = 'ok' AND t.n_tokens - r.prompt_len + 1"
    " IS NOT (SELECT count(*) FROM step_cost c WHERE c.run_id = r.run_id)",
    "SELECT 'no part 0: ' || spec FROM run r WHERE status = 'ok' AND NOT"
    " EXISTS (SELECT 1 FROM part p WHERE p.run_id = r.run_id AND part = 0)",
    "SELECT 'no measure: ' || spec FROM run r JOIN trace t USING (identity)"
    " WHERE status = 'ok' AND t.n_tokens > r.prompt_len AND NOT EXISTS"
    " (SELECT 1 FROM metric m WHERE m.run_id = r.run_id)",
    "SELECT 'nobody confirmed: ' || spec FROM run r WHERE NOT EXISTS (SELECT"
    " 1 FROM confirmation c WHERE c.run_id = r.run_id)",
    "SELECT 'nobody asked: ' || spec FROM run r WHERE NOT EXISTS (SELECT 1"
    " FROM ask a WHERE a.run_id = r.run_id)",
    "SELECT 'contradicted: ' || spec FROM diff JOIN run USING (run_id)",
    "SELECT 'integrity: ' || integrity_check FROM pragma_integrity_check"
    " WHERE integrity_check != 'ok'"};

static int complain(sqlite3 *db, const char *why, int code) {
  fprintf(stderr, "whole_db: %s\n", why ? why : sqlite3_errmsg(db));
  return code;
}

/* The first column of every row to f. */
static int list(sqlite3 *db, const char *sql, FILE *f, int *rows) {
  sqlite3_stmt *s = NULL;
  int step = sqlite3_prepare_v2(db, sql, -1, &s, NULL);
  *rows = 0;
  if (step) return 4;
  while ((step = sqlite3_step(s)) == SQLITE_ROW) {
    if (f) fprintf(f, "%s\n", sqlite3_column_text(s, 0));
    ++*rows;
  }
  sqlite3_finalize(s);
  return step == SQLITE_DONE ? 0 : 4;
}

static int look(sqlite3 *db) {
  int rows;
  if (list(db, "SELECT 1 FROM sqlite_schema WHERE name = 'diff'", NULL, &rows))
    return complain(db, NULL, 4);
  if (rows == 0) return 0; /* killed before the tables were made */
  for (size_t i = 0; i < sizeof law / sizeof *law; i++) {
    if (list(db, law[i], stderr, &rows)) return complain(db, NULL, 4);
    if (rows) return complain(db, "rows lack something, see above", 3);
  }
  if (list(db,
           "SELECT method || ' ' || t.name || ' ' || coalesce(budget, '-') ||"
           " ' ' || coalesce(journal, status) FROM run JOIN trace t"
           " USING (identity) ORDER BY 1",
           stdout, &rows))
    return complain(db, NULL, 4);
  return 0;
}

int main(int argc, char **argv) {
  sqlite3 *db = NULL;
  int rc;
  if (argc != 2) return 2;
  if (access(argv[1], F_OK)) return 0;
  if (sqlite3_open_v2(argv[1], &db, SQLITE_OPEN_READWRITE, NULL))
    rc = complain(db, NULL, 4);
  else
    rc = look(db);
  sqlite3_close(db);
  return rc;
}

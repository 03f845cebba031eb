/* SPDX-License-Identifier: Apache-2.0
 *
 * kvreport table and history: views as text, for people with what they need
 * to know below; and cells to standard output, for export.
 */
#include "analysis/commands.h"
#include "analysis/lines.h"
#include "analysis/say.h"
#include "analysis/where.h"

#include <stdlib.h>
#include <string.h>

/* What is asked for: for programs all columns of the view, for people these,
 * and a note below the table. */
typedef struct sheet {
  const char *view, *columns, *note;
} sheet;

/* --- names of lines ------------------------------------------------------- */

#define NAMED "trace, prompt_len, observe, method, params, budget"

/* columns: NAMED, and what else is wanted of the rows. */
static int find_variants(sqlite3 *db, const char *view, const char *columns,
                         const kv_where *w, kv_grid *all, kv_variants *v) {
  int rc = kv_where_ask(db, view, columns, w, all);
  if (rc) return rc;
  if (kv_variants_find(all, v)) return KV_EXIT_OK;
  kv_variants_free(v);
  kv_grid_free(all);
  return kv_tell(KV_EXIT_RESOURCE, "not enough memory");
}

/* For people a method is named with what tells its variants apart. */
static int name_variants(sqlite3 *db, const char *view, const kv_where *w,
                         kv_grid *g) {
  int c = kv_grid_column(g, "method");
  kv_variants v = {0};
  kv_grid all;
  int rc = find_variants(db, view, NAMED, w, &all, &v);
  if (rc) return rc;
  for (int r = 0; r < g->rows; r++) {
    kv_value *to = g->value + (size_t)r * (size_t)g->columns + c;
    char *name = strdup(v.label[v.of[r]]);
    if (!name) {
      kv_tell_short();
      break;
    }
    free(to->text);
    to->text = name;
  }
  kv_variants_free(&v);
  kv_grid_free(&all);
  return rc;
}

static int fill_lines(sqlite3 *db, const kv_where *w) {
  kv_variants v = {0};
  kv_grid all;
  int rc = find_variants(db, "cell", KV_LINES_ASK, w, &all, &v);
  if (rc) return rc;
  rc = kv_lines_put(db, &all, &v);
  kv_variants_free(&v);
  kv_grid_free(&all);
  return rc;
}

/* --- writing -------------------------------------------------------------- */

/* How many rows of superseded code the conditions leave out. */
static int count_older(sqlite3 *db, const kv_where *w, double *n) {
  kv_grid g;
  int rc = kv_where_ask(db, "every_cell", "coalesce(sum(age > 1), 0) AS older",
                        w, &g);
  if (rc) return rc;
  *n = kv_grid_number(&g, 0, "older");
  kv_grid_free(&g);
  return rc;
}

static int put(const kv_args *a, const sheet *s, const kv_grid *g,
               double older) {
  FILE *f = kv_output_open(a->output);
  if (!f) return KV_EXIT_RESOURCE;
  kv_grid_write(g, (kv_grid_format)a->format, f);
  if (a->format == KV_TABLE) fputs(s->note, f);
  if (a->format == KV_TABLE && older > 0)
    fprintf(f, "Not shown: %.0f by superseded code (--history).\n", older);
  return kv_output_close(f, a->output);
}

static int answer(sqlite3 *db, const kv_args *a, const sheet *s,
                  const kv_where *w) {
  bool people = a->format == KV_TABLE, cells = !strcmp(s->view, "cell");
  const kv_where all = {.n = 0};
  double older = 0;
  kv_grid g = {0};
  int rc = kv_where_check(db, a->mean ? "cell" : s->view, w);
  if (!rc && a->mean) rc = fill_lines(db, w);
  if (!rc)
    rc = kv_where_ask(db, s->view, people ? s->columns : "*",
                      a->mean ? &all : w, &g);
  if (!rc && people && !a->mean) rc = name_variants(db, s->view, w, &g);
  if (!rc && !g.rows)
    rc = kv_where_say_empty(db, a->mean ? "cell" : s->view, w);
  if (!rc && people && (cells || a->mean)) rc = count_older(db, w, &older);
  if (!rc) rc = put(a, s, &g, older);
  kv_grid_free(&g);
  return rc;
}

static int write(const kv_args *a, const sheet *s) {
  kv_where w;
  sqlite3 *db = NULL;
  int rc = kv_where_cut(a->where, &w);
  if (!rc) rc = kv_results_open(a->files.item[0], &db);
  if (!rc) rc = answer(db, a, s, &w);
  sqlite3_close(db);
  return rc;
}

/* --- the commands
 * --------------------------------------------------------------
 */

#define SHARES                                                                 \
  " CAST(round(100 * share_end) AS INTEGER) || '%' AS 'end',"                  \
  " CAST(round(100 * kr) AS INTEGER) || '%' AS 'mean',"                        \
  " CAST(round(100 * share_read) AS INTEGER) || '%' AS 'read',"                \
  " CAST(round(100 * share_scanned) AS INTEGER) || '%' AS scan,"               \
  " output_error AS error, output_error_p95 AS 'error p95', mass,"             \
  " recall_16 AS 'top-16', needle_share AS needle,"
#define PLACE "trace || iif(observe = 'recorded', '', ', ' || observe) AS trace"
#define CELLS                                                                  \
  PLACE ", method, asked, budget, status, kept, bytes_end AS 'end B'," SHARES  \
        " CASE WHEN conflicts THEN 'CONFLICT' WHEN status IN ('refused',"      \
        " 'failed') THEN reason WHEN confirmed THEN 'confirmed'"               \
        " ELSE 'one run' END AS checked"
#define NOTE                                                                   \
  "\nend, mean, read: bytes as shares of the dense cache. scan: bytes looked " \
  "at"                                                                         \
  " in order\nto choose what is read, as a share of what dense reads; empty:"  \
  " not recorded, by an\nearlier kvreplay. needle: mass on the"                \
  " needles, dense is 1.\nOpen loop: the recorded queries do not feel the"     \
  " approximation.\n"

int kv_report_table(const kv_args *a) {
  static const sheet cells = {"cell", CELLS, NOTE};
  static const sheet every = {
      "every_cell",
      CELLS ", iif(length(code) = 64, substr(code, 1, 12), code) AS code,"
            " iif(age = 1, 'newest', 'superseded') AS 'of the code'",
      NOTE};
  static const sheet mean = {
      "summary",
      "method, asked, iif(traces = traces_all, traces, traces || ' of ' ||"
      " traces_all) AS traces, kept," SHARES
      " CASE WHEN conflicts THEN 'CONFLICT' WHEN confirmed THEN 'confirmed'"
      " ELSE 'one run' END AS checked",
      NOTE};
  if (a->mean && a->history)
    return kv_tell(KV_EXIT_USAGE, "--mean is of the newest code: name it or "
                                  "--history, not both");
  return write(a, a->mean ? &mean : a->history ? &every : &cells);
}

int kv_report_history(const kv_args *a) {
  static const sheet history = {
      "history",
      PLACE ", method, budget, state, code, arithmetic, status, first_seen,"
            " confirmations, conflicts, output_error AS error,"
            " substr(key, 1, 12) AS key",
      ""};
  return write(a, &history);
}

int kv_report_cells(const kv_args *a) {
  static const sheet cells = {"cell", "*", ""};
  return write(a, &cells);
}

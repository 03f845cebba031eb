/* SPDX-License-Identifier: Apache-2.0
 *
 * kvreport table and history: views as text, for people with explanations
 * below; and cells to standard output, for export.
 */
#include "analysis/commands.h"
#include "analysis/database/results.h"
#include "analysis/database/say.h"
#include "analysis/tables/grid_write.h"
#include "analysis/tables/lines.h"
#include "analysis/tables/output.h"
#include "analysis/tables/sheets.h"
#include "analysis/tables/text.h"
#include "analysis/tables/where.h"
#include "traces/option/help.h"

#include <stdlib.h>
#include <string.h>

#define PROMPTS                                                                \
  "p error, p mass: of prompt rows after the first chunk (prefill=N): the "    \
  "error of their output, and the exact mass of what they attend to. Empty: "  \
  "the prompt was read whole, and no row loses any."
/* Methods that lack an answer, sorted by reason. */
#define LACKING                                                                \
  "(SELECT * FROM answers WHERE reason IS NOT NULL ORDER BY reason, method,"   \
  " asked, place)"

/* --- names of lines ------------------------------------------------------- */

#define NAMED "trace, prompt_len, observe, method, params, budget"

/* columns: NAMED, and perhaps more. */
static int find_variants(sqlite3 *db, const char *view, const char *columns,
                         const kv_where *w, kv_grid *all, kv_variants *v) {
  int rc = kv_where_ask(db, view, columns, w, all);
  if (rc) return rc;
  if (kv_variants_find(all, v)) return KV_EXIT_OK;
  kv_variants_free(v);
  kv_grid_free(all);
  return kv_tell_short();
}

/* For people, names methods with what distinguishes their variants. */
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

/* Counts rows of superseded code, which the table omits. */
static int count_older(sqlite3 *db, const kv_where *w, double *n) {
  kv_grid g;
  int rc = kv_where_ask(db, "every_cell", "coalesce(sum(age > 1), 0) AS older",
                        w, &g);
  if (rc) return rc;
  *n = kv_grid_number(&g, 0, "older");
  kv_grid_free(&g);
  return rc;
}

/* Prints why the means of some lines are not of all traces, or why tasks do not
 * count: the column `said` of sql. */
static int put_reasons(sqlite3 *db, const char *sql, FILE *f) {
  kv_grid g;
  int rc = kv_grid_ask(db, sql, 0, NULL, &g);
  if (rc) return rc;
  for (int r = 0; r < g.rows; r++) {
    fputs(r ? "" : "\n", f);
    kv_text_write(kv_grid_text(&g, r, "said"), f);
    fputs("\n", f);
  }
  kv_grid_free(&g);
  return rc;
}

/* Prints why questions have no answer: each reason once, after its methods. If
 * a method has several reasons, one is shown. */
static int put_lacking(sqlite3 *db, const kv_where *w, FILE *f) {
  kv_grid g;
  int rc = kv_where_ask(db, LACKING, "method, asked, reason", w, &g);
  if (rc) return rc;
  for (int r = 0; r < g.rows; r++) {
    bool first = r == 0 || !kv_grid_alike(&g, r - 1, r, "reason");
    bool last = kv_grid_end(&g, r, "reason") == r + 1;
    const char *asked = kv_grid_text(&g, r, "asked");
    if (first || !kv_grid_alike(&g, r - 1, r, "method asked")) {
      fputs(!first ? ", " : r ? "" : "\n", f);
      kv_text_write(kv_grid_text(&g, r, "method"), f);
      fputs(*asked ? " at " : "", f);
      kv_text_write(asked, f);
    }
    if (!last) continue;
    fputs(": ", f);
    kv_text_write(kv_grid_text(&g, r, "reason"), f);
    fputs("\n", f);
  }
  kv_grid_free(&g);
  return rc;
}

static int put(sqlite3 *db, const kv_args *a, const kv_sheet *s,
               const kv_grid *g, const kv_where *w, double older) {
  FILE *f = kv_output_open(a->output);
  int rc = KV_EXIT_OK, end;
  if (!f) return KV_EXIT_RESOURCE;
  kv_grid_write(g, (kv_grid_format)a->format, f);
  if (a->format == KV_TABLE && a->mean)
    rc = put_reasons(
        db, "SELECT said FROM reasons UNION ALL SELECT said FROM repeated", f);
  if (a->format == KV_TABLE && s->answers)
    rc = put_reasons(
        db, "SELECT place || ' is ' || why AS said FROM unmeasured", f);
  if (!rc && a->format == KV_TABLE && s->answers) rc = put_lacking(db, w, f);
  if (a->format == KV_TABLE && s->words) {
    fputs("\n", f);
    kv_help_wrap(f, 0, 0, s->words);
    if (kv_grid_column(g, KV_SHEET_P_ERROR) >= 0)
      kv_help_wrap(f, 0, 0, PROMPTS);
    if (s->more) kv_help_wrap(f, 0, 0, s->more);
    if (!s->answers && !s->bytes) kv_help_wrap(f, 0, 0, KV_SAY_RANK);
    if (!s->answers && !s->bytes)
      kv_help_wrap(f, 0, 0,
                   "Open loop: the recorded queries do not feel the "
                   "approximation.");
  }
  if (a->format == KV_TABLE && older > 0)
    fprintf(f, "Not shown: %.0f of superseded code (--history).\n", older);
  end = kv_output_close(f, a->output);
  return rc ? rc : end;
}

static int answer(sqlite3 *db, const kv_args *a, const kv_sheet *s,
                  const kv_where *w) {
  bool people = a->format == KV_TABLE || a->format == KV_LATEX;
  bool cells = !strcmp(s->view, "cell");
  const kv_where all = {.n = 0};
  double older = 0;
  kv_grid g = {0};
  char sorted[320];
  int rc = kv_where_check(db, a->mean ? "cell" : s->view, w);
  snprintf(sorted, sizeof sorted, "%s%s", s->view,
           people && s->order ? s->order : "");
  if (!rc && a->mean) rc = fill_lines(db, w);
  if (!rc)
    rc = kv_where_ask(db, sorted, people ? s->columns : "*", a->mean ? &all : w,
                      &g);
  g.headed = s->headed;
  for (int i = 0; people && kv_sheet_optional[i]; i++)
    kv_grid_drop_empty(&g, kv_sheet_optional[i]);
  if (!rc && people && !a->mean && !s->answers &&
      kv_grid_column(&g, "method") >= 0)
    rc = name_variants(db, s->view, w, &g);
  if (!rc && !g.rows)
    rc = kv_where_say_empty(db, a->mean ? "cell" : s->view, w);
  if (!rc && people && (cells || a->mean)) rc = count_older(db, w, &older);
  if (!rc) rc = put(db, a, s, &g, w, older);
  kv_grid_free(&g);
  return rc;
}

/* For a database with only evaluations, shows these. */
static int find_sheet(sqlite3 *db, const kv_sheet **s) {
  kv_grid g;
  int rc = kv_grid_ask(db,
                       "SELECT 1 FROM evaluation WHERE NOT EXISTS (SELECT 1"
                       " FROM run) LIMIT 1",
                       0, NULL, &g);
  if (rc) return rc;
  if (g.rows) *s = &kv_sheet_answers;
  kv_grid_free(&g);
  return rc;
}

static int write(const kv_args *a, const kv_sheet *s) {
  kv_where w;
  sqlite3 *db = NULL;
  bool cells = !strcmp(s->view, "cell") && a->format == KV_TABLE;
  int rc = kv_where_cut(a->where, &w);
  if (!rc) rc = kv_results_open(a->files.item[0], &db);
  if (!rc && cells) rc = find_sheet(db, &s);
  if (!rc && s->answers) rc = kv_results_answers(db, a->files.item[0]);
  if (!rc) rc = answer(db, a, s, &w);
  sqlite3_close(db);
  return rc;
}

int kv_report_table(const kv_args *a) {
  if (a->mean && a->history)
    return kv_tell(
        KV_EXIT_USAGE,
        "--mean only covers the newest code; give it or --history, not both");
  if (a->answers && (a->mean || a->history))
    return kv_tell(KV_EXIT_USAGE, "--answers are means of the newest code; "
                                  "give it without --mean or --history");
  if (a->gap && (a->answers || a->mean || a->history))
    return kv_tell(
        KV_EXIT_USAGE,
        "--gap covers single cells of the newest code; give it alone");
  bool others = a->gap || a->answers || a->mean || a->history;
  if (a->pools && (others || a->layouts))
    return kv_tell(KV_EXIT_USAGE, "--pools lists requests; give it alone");
  if (a->layouts && (others || a->caches))
    return kv_tell(KV_EXIT_USAGE, "--layouts lists memory; give it alone");
  if (a->caches && (others || a->pools))
    return kv_tell(KV_EXIT_USAGE,
                   "--caches lists rows of its own; give it alone");
  return write(a, a->pools     ? &kv_sheet_pools
                  : a->layouts ? &kv_sheet_layouts
                  : a->caches  ? &kv_sheet_caches
                  : a->answers ? &kv_sheet_answers
                  : a->gap     ? &kv_sheet_gaps
                  : a->mean    ? &kv_sheet_mean
                  : a->history ? &kv_sheet_every
                               : &kv_sheet_cells);
}

int kv_report_history(const kv_args *a) {
  static const kv_sheet history = {
      .view = "history",
      .columns = KV_SHEET_PLACE
      ", method, budget, state, code, arithmetic, status, first_seen,"
      " confirmations, conflicts, output_error AS error,"
      " substr(key, 1, 12) AS key"};
  return write(a, &history);
}

int kv_report_cells(const kv_args *a) {
  static const kv_sheet cells = {.view = "cell", .columns = "*"};
  return write(a, &cells);
}

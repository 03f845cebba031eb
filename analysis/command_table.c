/* SPDX-License-Identifier: Apache-2.0
 *
 * kvreport table and history: views as text, for people with explanations
 * below; and cells to standard output, for export.
 */
#include "analysis/commands.h"
#include "analysis/database/results.h"
#include "analysis/database/say.h"
#include "analysis/ranked_txt.h"
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
#define BY_USER                                                                \
  KV_SHEET_BY_USER                                                             \
  ": the model itself does not give the marked answer (answer_by is user). "   \
  "There needle says little about what the model would answer."
#define AT_BUDGET "method || iif(asked = '', '', ' at ' || asked)"
/* Methods that lack an answer, by reason. */
#define LACKING                                                                \
  "(SELECT *, " AT_BUDGET " AS cell FROM answers WHERE reason IS NOT NULL"     \
  " ORDER BY reason, method, asked)"
#define LACKED                                                                 \
  "replace(group_concat(DISTINCT cell), ',', ', ') || ': ' || reason AS said"

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

/* Prints sentences: the column `said` of columns, in a view. */
static int put_said(sqlite3 *db, const char *view, const char *columns,
                    const kv_where *w, const char *rest, FILE *f) {
  kv_grid g;
  int rc = kv_where_group(db, view, columns, w, rest, &g);
  if (rc) return rc;
  for (int r = 0; r < g.rows; r++) {
    fputs(r ? "" : "\n", f);
    kv_text_write(kv_grid_text(&g, r, "said"), f);
    fputs("\n", f);
  }
  kv_grid_free(&g);
  return rc;
}

/* Prints why means are not of all traces; why tasks do not count, which presses
 * ran, and why questions have no answer: each reason once, after its methods
 * (if a method has several reasons, one is shown). */
static int put_notes(sqlite3 *db, const kv_args *a, const kv_sheet *s,
                     const kv_where *w, FILE *f) {
  static const kv_where all;
  int rc = KV_EXIT_OK;
  if (a->mean)
    rc = put_said(db,
                  "(SELECT said FROM reasons UNION ALL SELECT said FROM"
                  " repeated)",
                  "said", &all, "", f);
  if (s != &kv_sheet_answers) return rc;
  rc =
      put_said(db, "unmeasured", "place || ' is ' || why AS said", &all, "", f);
  if (!rc)
    rc = put_said(db, "(SELECT * FROM answers WHERE press NOT NULL)",
                  AT_BUDGET " || ' ran, for example, ' || min(press) AS said",
                  w, "GROUP BY method, asked", f);
  return rc ? rc : put_said(db, LACKING, LACKED, w, "GROUP BY reason", f);
}

static bool has_text(const kv_grid *g, const char *text) {
  for (int i = 0; i < g->rows * g->columns; i++)
    if (g->value[i].text && strstr(g->value[i].text, text)) return true;
  return false;
}

static void put_words(const kv_sheet *s, const kv_grid *g, FILE *f) {
  if (!s->words) return;
  fputs("\n", f);
  kv_help_wrap(f, 0, 0, s->words);
  if (kv_grid_column(g, KV_SHEET_P_ERROR) >= 0) kv_help_wrap(f, 0, 0, PROMPTS);
  if (s->more) kv_help_wrap(f, 0, 0, s->more);
  if (s->answers || s->bytes) return;
  if (has_text(g, KV_SHEET_BY_USER)) kv_help_wrap(f, 0, 0, BY_USER);
  kv_help_wrap(f, 0, 0, ranked_txt);
  kv_help_wrap(
      f, 0, 0,
      "Open loop: the recorded queries do not feel the approximation.");
}

static int put(sqlite3 *db, const kv_args *a, const kv_sheet *s,
               const kv_where *w, FILE *f) {
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
  if (!rc) kv_grid_write(&g, (kv_grid_format)a->format, f);
  if (!rc && a->format == KV_TABLE) {
    rc = put_notes(db, a, s, w, f);
    if (!rc) put_words(s, &g, f);
    if (older > 0)
      fprintf(f, "Not shown: %.0f of superseded code (--history).\n", older);
  }
  kv_grid_free(&g);
  return rc;
}

/* Of a database with evaluations: without runs shows these alone, else before
 * the cells if *both. */
static int find_sheet(sqlite3 *db, const kv_sheet **s, bool *both) {
  kv_grid g;
  int rc = kv_grid_ask(db,
                       "SELECT EXISTS(SELECT 1 FROM run) AS run FROM"
                       " evaluation LIMIT 1",
                       0, NULL, &g);
  if (rc) return rc;
  *both = *both && g.rows && kv_grid_number(&g, 0, "run") > 0;
  if (g.rows && kv_grid_number(&g, 0, "run") < 1) *s = &kv_sheet_answers;
  kv_grid_free(&g);
  return rc;
}

static int write(const kv_args *a, const kv_sheet *s) {
  kv_where w;
  sqlite3 *db = NULL;
  FILE *f = NULL;
  bool cells = s == &kv_sheet_cells;
  bool both = cells && !a->where && a->format == KV_TABLE;
  int rc = kv_where_cut(a->where, &w), end = KV_EXIT_OK;
  if (!rc) rc = kv_results_open(a->files.item[0], &db);
  if (!rc && cells) rc = find_sheet(db, &s, &both);
  if (!rc && (s->answers || both))
    rc = kv_results_answers(db, a->files.item[0]);
  if (!rc && !(f = kv_output_open(a->output))) rc = KV_EXIT_RESOURCE;
  if (!rc && both) {
    rc = put(db, a, &kv_sheet_answers, &w, f);
    putc('\n', f);
  }
  if (!rc) rc = put(db, a, s, &w, f);
  if (f) end = kv_output_close(f, a->output);
  sqlite3_close(db);
  return rc ? rc : end;
}

int kv_report_table(const kv_args *a) {
  bool answers = a->answers || a->texts;
  if (a->mean + a->history + answers + a->gap + a->pools + a->layouts +
          a->caches >
      1)
    return kv_tell(KV_EXIT_USAGE,
                   "--mean, --history, --answers, --gap, --pools, --layouts "
                   "and --caches are different tables; give one of them");
  return write(a, a->pools     ? &kv_sheet_pools
                  : a->layouts ? &kv_sheet_layouts
                  : a->caches  ? &kv_sheet_caches
                  : a->texts   ? &kv_sheet_texts
                  : answers    ? &kv_sheet_answers
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

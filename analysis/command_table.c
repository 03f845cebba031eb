/* SPDX-License-Identifier: Apache-2.0
 *
 * kvreport table and history: views as text, for people with what they need
 * to know below; and cells to standard output, for export.
 */
#include "analysis/commands.h"
#include "analysis/database/results.h"
#include "analysis/database/say.h"
#include "analysis/tables/grid_write.h"
#include "analysis/tables/lines.h"
#include "analysis/tables/output.h"
#include "analysis/tables/text.h"
#include "analysis/tables/where.h"
#include "traces/option/help.h"

#include <stdlib.h>
#include <string.h>

/* What is asked for: for programs all columns of the view, for people these,
 * in this order, with words about them below the table. */
typedef struct sheet {
  const char *view, *columns, *order, *words, *more;
  bool answers; /* of evaluations, which are in closed loop, and not of cells */
  bool pools;   /* of requests that shared a pool: of bytes, not of attention */
} sheet;

/* SQL of columns for people. */
#define PLACE "trace || iif(observe = 'recorded', '', ', ' || observe) AS trace"
#define PERCENT(x, name)                                                       \
  ", CAST(round(100 * " x ") AS INTEGER) || '%' AS '" name "'"
#define CHECKED " WHEN confirmed THEN 'confirmed' ELSE 'one run' END AS checked"
/* Of a prompt's rows, and dropped where no prompt was read in chunks. */
#define P_ERROR "p error"
#define P_MASS "p mass"
/* What ranks answers stands before output error: KV_SAY_RANK. */
#define BYTES                                                                  \
  PERCENT("share_end", "end")                                                  \
  PERCENT("kr", "mean")                                                        \
  PERCENT("share_read", "read") PERCENT("share_scanned", "scan")
#define CELLS                                                                  \
  PLACE                                                                        \
  ", method, asked, budget, status, kept, bytes_end AS 'end B'" BYTES          \
  ", needle_share AS needle, lse_error AS lse, kl, output_error AS error,"     \
  " output_error_p95 AS 'error p95', mass, recall_16 AS 'top-16',"             \
  " prompt_error AS '" P_ERROR "', prompt_mass AS '" P_MASS "',"               \
  " CASE WHEN conflicts THEN 'CONFLICT'"                                       \
  " WHEN status IN ('refused', 'failed') THEN reason" CHECKED
#define MEANS                                                                  \
  "method, asked, traces || iif(traces = traces_all, '', ' of ' ||"            \
  " traces_all || iif(traces, ' *', '')) AS traces, about(kept, kept_se)"      \
  " AS kept, share(share_end, share_end_se) AS 'end', share(kr, kr_se) AS"     \
  " 'mean', share(share_read, share_read_se) AS 'read', share(share_scanned,"  \
  " share_scanned_se) AS scan, about(needle_share, needle_share_se) AS"        \
  " needle, about(lse_error, lse_error_se) AS lse, about(kl, kl_se) AS kl,"    \
  " about(output_error, output_error_se) AS error, about(output_error_p95,"    \
  " output_error_p95_se) AS 'error p95', about(mass, mass_se) AS mass,"        \
  " about(recall_16, recall_16_se) AS 'top-16',"                               \
  " about(prompt_error, prompt_error_se) AS '" P_ERROR "',"                    \
  " about(prompt_mass, prompt_mass_se) AS '" P_MASS "',"                       \
  " CASE WHEN conflicts THEN 'CONFLICT'"                                       \
  " WHEN traces = 0 THEN 'no answer'" CHECKED
#define WORDS                                                                  \
  "end, mean, read: bytes as shares of the dense cache. scan: bytes looked at" \
  " in order to choose what is read, as a share of what dense reads. needle:"  \
  " mass on the needles, dense is 1; empty: the trace has no answers. lse: "   \
  "by how much the log-sum-exp"                                                \
  " of what is stored is off. kl: divergence of the attention. error: of its"  \
  " output."
#define PROMPTS                                                                \
  "p error, p mass: of a prompt's rows that is read in chunks (prefill=N),"    \
  " behind the first chunk: the error of their output, and the exact mass of"  \
  " what they attend to. Empty: it was read whole, and no row loses any."
#define SPREAD                                                                 \
  "\u00b1: two standard errors of the mean over traces. *: the mean of those"  \
  " traces alone that have an answer; compare it with the mean of the same"    \
  " traces (--where trace=NAME), not with its column."
#define HELD PERCENT("share_mean", "mean") PERCENT("share_end", "end")
#define ANSWERS                                                                \
  "place AS task, method, asked, questions || iif(questions = questions_all,"  \
  " '', ' of ' || questions_all || ' *') AS questions" HELD                    \
  ", share(exact, exact_se) AS right, about(loglik, loglik_se) AS loglik,"     \
  " about(kl, kl_se) AS kl, about(agree, agree_se) AS agree, ppl, CASE"        \
  " WHEN conflicts THEN 'CONFLICT' WHEN questions = 0 THEN 'no answer'"        \
  " WHEN measurable = 0 THEN 'not measurable' END AS note"
/* Who has no ruler, or stands beside none, says so. */
#define GAPS                                                                   \
  PLACE                                                                        \
  ", method, asked, equal_budget AS entries, ruler,"                           \
  " reference_budget AS at, output_error AS error, random, oracle AS ruled,"   \
  " round(gap, 3) AS gap, mass, random_mass AS 'random mass',"                 \
  " oracle_mass AS 'ruled mass', round(mass_gap, 3) AS 'mass gap', CASE"       \
  " WHEN ruler IS NULL THEN 'chooses nothing' WHEN random IS NULL"             \
  " THEN 'not run: random and ' || ruler" CHECKED
/* Times of requests are steps. */
#define POOLS                                                                  \
  "spec, layout, bytes AS 'pool B', iif(arrive = 'file', arrive, arrive ||"    \
  " ' ' || every) AS arrive, CASE wait WHEN 0 THEN 'leaves' WHEN 1 THEN "      \
  "'waits' ELSE 'can stay' END AS full,"                                       \
  " requests || iif(refused, ', ' || refused || ' refused', '') AS requests,"  \
  " steps" PERCENT("utilisation", "in use") PERCENT(                           \
      "unused",                                                                \
      "unused") ", round(batch, 2) AS batch, round(queue, 2) AS queue,"        \
                " round(to_first, 1) AS 'to first', to_first_p95 AS 'p95',"    \
                " round(to_end, 1) AS 'to end', to_end_p95 AS 'end p95', "     \
                "put_back AS"                                                  \
                " 'put back', map_peak AS 'tables B'"
/* Whoever lacks an answer, and why, those of one reason after each other. */
#define LACKING                                                                \
  "(SELECT * FROM answers WHERE reason IS NOT NULL ORDER BY reason, method,"   \
  " asked, place)"

static const sheet of_gaps = {
    .view = "gap",
    .columns = GAPS,
    .words = "gap: of the way from random to the ruler in mean output error "
             "(error, random, ruled); mass gap: the same of the attention's "
             "mass that is kept. 0: no better than chance, 1: as the ruler. "
             "entries: a query head's, mean of the steps; random and ruler ran "
             "at as many, or one fewer (at). ruler: oracle-evict of cells that "
             "dropped or merged tokens, oracle-topk of those that read some of "
             "what is stored, oracle-topp of those that read a share of the "
             "probability. All three rule by mass, so that error may pass 1; "
             "and a budget that lanes share may pass it in mass."};

static const sheet of_answers = {
    .view = "answers",
    .columns = ANSWERS,
    .words = "Closed loop: the model went on from what the method had left. "
             "Means over the items of a task, \u00b1: two standard errors. "
             "mean, end: bytes as shares of dense's for the same questions. "
             "right: greedy answers that hold the reference. loglik: of the "
             "reference answer, nats. kl: of the next token from dense's, "
             "nats. agree: tokens until greedy decoding leaves dense's. ppl: "
             "perplexity less dense's. *: of those questions alone that have "
             "an answer.",
    .answers = true};

static const sheet of_pools = {
    .view = "pools",
    .columns = POOLS,
    .words = "Steps: a block of the prompt, or a token, of every request that "
             "runs. in use: of the pool, on average over steps; unused: of "
             "that, bytes in which no token lies. batch, queue: requests that "
             "took a step, that took none, on average. to first, to end: steps "
             "from arrival to the first token and to the last, means and 95th "
             "percentiles of those that were not refused. put back: how often "
             "one had to give up its pages and wait. tables: bytes that say "
             "where rows lie, at most; they are not in the pool.",
    .pools = true};

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

/* Why the means of some lines are not of all traces, or why tasks do not count:
 * sentences that sql gives as `said`. */
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

/* Why questions have no answer, each reason whole and once, behind the methods
 * that it was said of; one of several that a method has is shown. */
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

static int put(sqlite3 *db, const kv_args *a, const sheet *s, const kv_grid *g,
               const kv_where *w, double older) {
  FILE *f = kv_output_open(a->output);
  int rc = KV_EXIT_OK, end;
  if (!f) return KV_EXIT_RESOURCE;
  kv_grid_write(g, (kv_grid_format)a->format, f);
  if (a->format == KV_TABLE && a->mean)
    rc = put_reasons(db, "SELECT said FROM reasons", f);
  if (a->format == KV_TABLE && s->answers)
    rc = put_reasons(
        db, "SELECT place || ' is ' || why AS said FROM unmeasured", f);
  if (!rc && a->format == KV_TABLE && s->answers) rc = put_lacking(db, w, f);
  if (a->format == KV_TABLE && s->words) {
    fputs("\n", f);
    kv_help_wrap(f, 0, 0, s->words);
    if (kv_grid_column(g, P_ERROR) >= 0) kv_help_wrap(f, 0, 0, PROMPTS);
    if (s->more) kv_help_wrap(f, 0, 0, s->more);
    if (!s->answers && !s->pools) kv_help_wrap(f, 0, 0, KV_SAY_RANK);
    if (!s->answers && !s->pools)
      kv_help_wrap(f, 0, 0,
                   "Open loop: the recorded queries do not feel the "
                   "approximation.");
  }
  if (a->format == KV_TABLE && older > 0)
    fprintf(f, "Not shown: %.0f by superseded code (--history).\n", older);
  end = kv_output_close(f, a->output);
  return rc ? rc : end;
}

static int answer(sqlite3 *db, const kv_args *a, const sheet *s,
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
  kv_grid_drop_empty(&g, P_ERROR);
  kv_grid_drop_empty(&g, P_MASS);
  if (!rc && people && !a->mean && !s->answers && !s->pools)
    rc = name_variants(db, s->view, w, &g);
  if (!rc && !g.rows)
    rc = kv_where_say_empty(db, a->mean ? "cell" : s->view, w);
  if (!rc && people && (cells || a->mean)) rc = count_older(db, w, &older);
  if (!rc) rc = put(db, a, s, &g, w, older);
  kv_grid_free(&g);
  return rc;
}

/* A database of evaluations alone: what is there is shown. */
static int find_sheet(sqlite3 *db, const sheet **s) {
  kv_grid g;
  int rc = kv_grid_ask(db,
                       "SELECT 1 FROM evaluation WHERE NOT EXISTS (SELECT 1"
                       " FROM run) LIMIT 1",
                       0, NULL, &g);
  if (rc) return rc;
  if (g.rows) *s = &of_answers;
  kv_grid_free(&g);
  return rc;
}

static int write(const kv_args *a, const sheet *s) {
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

/* --- the commands --------------------------------------------------------- */

int kv_report_table(const kv_args *a) {
  static const sheet cells = {.view = "cell", .columns = CELLS, .words = WORDS};
  static const sheet every = {
      .view = "every_cell",
      .columns =
          CELLS ", iif(length(code) = 64, substr(code, 1, 12), code) AS code,"
                " iif(age = 1, 'newest', 'superseded') AS 'of the code'",
      .words = WORDS};
  static const sheet mean = {.view = "summary",
                             .columns = MEANS,
                             .order = KV_RANKED,
                             .words = WORDS,
                             .more = SPREAD};
  if (a->mean && a->history)
    return kv_tell(KV_EXIT_USAGE, "--mean is of the newest code: name it or "
                                  "--history, not both");
  if (a->answers && (a->mean || a->history))
    return kv_tell(KV_EXIT_USAGE, "--answers are means of the newest code: "
                                  "name it alone, or --mean or --history");
  if (a->gap && (a->answers || a->mean || a->history))
    return kv_tell(KV_EXIT_USAGE, "--gap is of single cells of the newest "
                                  "code: name it alone");
  if (a->pools && (a->gap || a->answers || a->mean || a->history))
    return kv_tell(KV_EXIT_USAGE, "--pools are of requests: name it alone");
  return write(a, a->pools     ? &of_pools
                  : a->answers ? &of_answers
                  : a->gap     ? &of_gaps
                  : a->mean    ? &mean
                  : a->history ? &every
                               : &cells);
}

int kv_report_history(const kv_args *a) {
  static const sheet history = {
      .view = "history",
      .columns =
          PLACE ", method, budget, state, code, arithmetic, status, first_seen,"
                " confirmations, conflicts, output_error AS error,"
                " substr(key, 1, 12) AS key"};
  return write(a, &history);
}

int kv_report_cells(const kv_args *a) {
  static const sheet cells = {.view = "cell", .columns = "*"};
  return write(a, &cells);
}

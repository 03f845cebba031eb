/* SPDX-License-Identifier: Apache-2.0
 *
 * kvreport rank: which open-loop measure ranks methods as their answers do? A
 * line per measure and a sentence per model; or the pairs of methods that a
 * measure has in the wrong order.
 */
#include "analysis/commands.h"
#include "analysis/compare/measures.h"
#include "analysis/compare/paired.h"
#include "analysis/compare/ranked.h"
#include "analysis/database/results.h"
#include "analysis/database/say.h"
#include "analysis/tables/grid_write.h"
#include "analysis/tables/output.h"
#include "analysis/tables/text.h"
#include "analysis/tables/where.h"
#include "traces/option/help.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SENTENCE = 700 };

typedef struct asked {
  sqlite3 *db;
  const kv_args *a;
  const char *by;
  bool pairs; /* to be listed */
  FILE *f;
} asked;

/* Writes a sentence, which may contain names from the database. */
static void wrap(const asked *x, int indent, const char *said) {
  char safe[4 * SENTENCE + 1];
  kv_text_fit(said, SENTENCE, safe);
  fprintf(x->f, "%*s", indent, "");
  kv_help_wrap(x->f, 2 * indent, indent, safe);
}

/* --- the answer ----------------------------------------------------------- */

static double number(const kv_grid *g, int r, const char *name) {
  return kv_grid_number(g, r, name);
}

static bool whole(const kv_grid *g, int r) {
  return number(g, r, "pairs") == number(g, r, "pairs_all");
}

/* Among measures with as many pairs as the best one: the best, the next, and
 * the first that needs no marked answer; -1: none. Rows are sorted by tau. */
static void find_first(const kv_grid *g, int *best, int *next, int *open) {
  *best = *next = *open = -1;
  for (int r = 0; r < g->rows; r++)
    if (!strcmp(kv_grid_text(g, r, "measure"), kv_grid_text(g, r, "best")))
      *best = r;
  for (int r = 0; r < g->rows && *best >= 0; r++) {
    if (isnan(number(g, r, "tau")) ||
        number(g, r, "pairs") < number(g, *best, "pairs"))
      continue;
    if (*next < 0 && r != *best) *next = r;
    if (*open < 0 && number(g, r, "marked") == 0) *open = r;
  }
}

/* Is the interval of a difference on one side of 0? */
static bool apart(const kv_grid *g, int r) {
  return number(g, r, "difference_low") > 0 ||
         number(g, r, "difference_high") < 0;
}

/* The interval from column `low` to `high`, or why there is none. */
static int say_interval(const kv_grid *g, int r, const char *low,
                        const char *high, char *out, int size) {
  if (isnan(number(g, r, low)))
    return snprintf(out, (size_t)size,
                    ", no interval with fewer than %d prompts",
                    KV_INTERVAL_LEAST);
  return snprintf(out, (size_t)size, " [%.2f, %.2f]", number(g, r, low),
                  number(g, r, high));
}

static int say_gap(const kv_grid *g, int r, char *out, int size) {
  int n = snprintf(out, (size_t)size, "%s (difference %.2f",
                   number(g, r, "prompts") < KV_PAIRS_LEAST
                       ? "too few prompts to tell"
                   : apart(g, r) ? "a real difference"
                                 : "not distinguishable",
                   number(g, r, "difference"));
  n += say_interval(g, r, "difference_low", "difference_high", out + n,
                    size - n);
  return n + snprintf(out + n, (size_t)(size - n), ")");
}

static int say_row(const kv_grid *g, int r, const char *what, char *out,
                   int size) {
  int n = snprintf(out, (size_t)size, " %s: %s, %.2f, ", what,
                   kv_grid_text(g, r, "measure"), number(g, r, "tau"));
  n += say_gap(g, r, out + n, size - n);
  return n + snprintf(out + n, (size_t)(size - n), ".");
}

static void say_best(const asked *x, const kv_grid *g) {
  char said[SENTENCE] = "No measure orders any two methods.";
  int best, next, open, n = 0;
  find_first(g, &best, &next, &open);
  if (!g->rows)
    snprintf(said, sizeof said, "No two methods have %s on the same prompts.%s",
             x->by,
             strcmp(x->by, "loglik")
                 ? ""
                 : " Rows of earlier versions have no loglik a token until "
                   "`kvreplay evaluate --again`.");
  if (best >= 0) {
    n = snprintf(said, sizeof said, "Best with %s: %s, tau-b %.2f", x->by,
                 kv_grid_text(g, best, "measure"), number(g, best, "tau"));
    n += say_interval(g, best, "low", "high", said + n, (int)sizeof said - n);
    n += snprintf(said + n, sizeof said - (size_t)n,
                  " on %s group%s of up to %s methods and %s prompts.",
                  kv_grid_text(g, best, "groups"),
                  number(g, best, "groups") == 1 ? "" : "s",
                  kv_grid_text(g, best, "methods"),
                  kv_grid_text(g, best, "prompts"));
  }
  if (next >= 0) n += say_row(g, next, "Next", said + n, (int)sizeof said - n);
  if (open >= 0 && open != best && open != next)
    say_row(g, open, "The best measure without marked answers", said + n,
            (int)sizeof said - n);
  wrap(x, 0, said);
}

/* A measure that some groups lack is compared on the pairs that have it:
 * needle, and measures better there than the best one. */
static void say_partial(const asked *x, const kv_grid *g) {
  for (int r = 0; r < g->rows; r++) {
    char said[SENTENCE];
    int n;
    if (whole(g, r) || isnan(number(g, r, "difference"))) continue;
    if (number(g, r, "difference") >= 0 &&
        strcmp(kv_grid_text(g, r, "measure"), "needle"))
      continue;
    n = snprintf(
        said, sizeof said,
        "%s, for the %s of %s pairs that have it: %.2f, where %s has %.2f: ",
        kv_grid_text(g, r, "measure"), kv_grid_text(g, r, "pairs"),
        kv_grid_text(g, r, "pairs_all"), number(g, r, "tau"),
        kv_grid_text(g, r, "best"), number(g, r, "best_tau"));
    n += say_gap(g, r, said + n, (int)sizeof said - n);
    snprintf(said + n, sizeof said - (size_t)n, ".");
    wrap(x, 0, said);
  }
}

static int say_left(const asked *x, const char *model) {
  kv_grid g;
  int rc = kv_grid_ask(x->db, "SELECT * FROM unranked WHERE model = ?1", 1,
                       &model, &g);
  if (!rc && g.rows) fputs("\nLeft out:\n", x->f);
  for (int r = 0; r < g.rows && !rc; r++) {
    char said[SENTENCE];
    snprintf(said, sizeof said, "%.80s (%.300s): %.280s",
             kv_grid_text(&g, r, "what"), kv_grid_text(&g, r, "at"),
             kv_grid_text(&g, r, "why"));
    wrap(x, 2, said);
  }
  kv_grid_free(&g);
  return rc;
}

/* --- tables --------------------------------------------------------------- */

#define LINES                                                                  \
  "SELECT measure, printf('%.2f', tau) || iif(low IS NULL, '',"                \
  " printf(' [%.2f, %.2f]', low, high)) AS 'tau-b',"                           \
  " iif(least IS NULL, '', printf('%.2f %s', least, least_without))"           \
  " AS 'least, without',"                                                      \
  " iif(most IS NULL, '', printf('%.2f %s', most, most_without))"              \
  " AS 'most, without',"                                                       \
  " pairs || iif(pairs < pairs_all, ' of ' || pairs_all, '') AS pairs,"        \
  " iif(difference IS NULL, '', printf('%.2f', difference)) ||"                \
  " iif(difference_low IS NULL, '', printf(' [%.2f, %.2f]', difference_low,"   \
  " difference_high)) AS 'best less it'"
/* The tau for another measure of answers. */
#define OTHER                                                                  \
  ", (SELECT printf('%%.2f', o.tau) FROM ranked o WHERE o.tau IS NOT NULL"     \
  " AND (o.model, o.measure, o.answer) = (r.model, r.measure, '%s')) AS %s"
#define OF                                                                     \
  " r WHERE tau IS NOT NULL AND model = ?1 AND answer = ?2 ORDER BY r.tau"     \
  " DESC, measure"
#define PAIRS                                                                  \
  "SELECT preferred, better, wrong || ' of ' || groups AS 'wrong in groups'"   \
  " FROM misranked m WHERE model = ?1 AND answer = ?2 ORDER BY m.wrong DESC,"  \
  " m.groups, preferred, better LIMIT 20"
#define METHODS                                                                \
  "SELECT method, sum(high) AS 'too high', sum(low) AS 'too low' FROM"         \
  " (SELECT model, answer, preferred AS method, wrong AS high, 0 AS low FROM"  \
  " misranked UNION ALL SELECT model, answer, better, 0, wrong FROM"           \
  " misranked) WHERE model = ?1 AND answer = ?2 GROUP BY method ORDER BY"      \
  " abs(sum(high) - sum(low)) DESC, method LIMIT 20"

static int table(const asked *x, const char *sql, const char *model) {
  kv_grid g;
  int rc = kv_grid_ask(x->db, sql, 2, (const char *const[]){model, x->by}, &g);
  if (!rc) kv_grid_write(&g, (kv_grid_format)x->a->format, x->f);
  kv_grid_free(&g);
  return rc;
}

/* Writes the lines of a model. */
static int lines(const asked *x, const char *model) {
  char sql[2048] = LINES;
  for (const kv_compared *o = kv_compared_all; o->answered; o++) {
    size_t n = strlen(sql);
    if (strcmp(o->name, x->by))
      snprintf(sql + n, sizeof sql - n, OTHER, o->name, o->name);
  }
  size_t n = strlen(sql);
  snprintf(sql + n, sizeof sql - n, " FROM %s%s",
           x->a->tails ? "ranked" : "ranked_shown", OF);
  return table(x, sql, model);
}

static int pairs(const asked *x, const char *model) {
  kv_grid g;
  int rc = kv_grid_ask(x->db,
                       "SELECT DISTINCT measure FROM misranked WHERE model = ?1"
                       " AND answer = ?2",
                       2, (const char *const[]){model, x->by}, &g);
  bool any = !rc && g.rows, people = x->a->format == KV_TABLE;
  if (people && any)
    fprintf(x->f, "\n%s prefers the first, %s the second:\n\n",
            kv_grid_text(&g, 0, "measure"), x->by);
  else if (people && !rc)
    fputs("\nNo pair of methods is in the wrong order.\n", x->f);
  kv_grid_free(&g);
  if (any) rc = table(x, PAIRS, model);
  if (rc || !any || !people) return rc;
  fputs("\nHow often a method is ranked too high or too low in these pairs\n\n",
        x->f);
  return table(x, METHODS, model);
}

static int write_model(const asked *x, const char *model, bool first) {
  kv_grid g;
  if (x->a->format == KV_LATEX)
    return x->pairs ? pairs(x, model) : lines(x, model);
  int rc = kv_grid_ask(x->db,
                       "SELECT * FROM ranked_shown WHERE model = ?1 AND answer"
                       " = ?2 ORDER BY tau DESC, measure",
                       2, (const char *const[]){model, x->by}, &g);
  if (rc) return rc;
  fputs(first ? "" : "\n", x->f);
  kv_text_write(model, x->f);
  fprintf(x->f, ", with %s\n\n", x->by);
  rc = lines(x, model);
  if (!rc) fputs("\n", x->f);
  if (!rc) say_best(x, &g);
  if (!rc) say_partial(x, &g);
  if (!rc) rc = say_left(x, model);
  if (!rc && x->pairs) rc = pairs(x, model);
  kv_grid_free(&g);
  return rc;
}

static int write_people(const asked *x, const kv_grid *models) {
  int rc = KV_EXIT_OK;
  for (int r = 0; r < models->rows && !rc; r++)
    rc = write_model(x, kv_grid_text(models, r, "model"), r == 0);
  return rc;
}

static int write_rows(const asked *x) {
  kv_grid g;
  const char *all[] = {
      "SELECT * FROM ranked ORDER BY model, answer <> ?1, answer, tau IS NULL,"
      " tau DESC, measure",
      "SELECT * FROM misranked ORDER BY model, answer <> ?1, answer, wrong"
      " DESC, groups, preferred, better"};
  int rc = kv_grid_ask(x->db, all[x->pairs], 1, &x->by, &g);
  if (!rc) kv_grid_write(&g, (kv_grid_format)x->a->format, x->f);
  kv_grid_free(&g);
  return rc;
}

static int write(asked *x) {
  kv_grid models;
  int rc = kv_grid_ask(x->db,
                       "SELECT DISTINCT model, (SELECT count(*) FROM ranked)"
                       " AS n FROM rank_cell ORDER BY model",
                       0, NULL, &models);
  if (!rc && !(models.rows && kv_grid_number(&models, 0, "n") > 0))
    rc = kv_tell(KV_EXIT_USAGE,
                 "nothing to rank; it needs two methods at one budget of a "
                 "task with equal bytes (kvreplay evaluate -b mean:25%%)");
  if (!rc && !(x->f = kv_output_open(x->a->output))) rc = KV_EXIT_RESOURCE;
  if (!rc) {
    bool people = x->a->format == KV_TABLE || x->a->format == KV_LATEX;
    rc = people ? write_people(x, &models) : write_rows(x);
    int end = kv_output_close(x->f, x->a->output);
    rc = rc ? rc : end;
  }
  kv_grid_free(&models);
  return rc;
}

/* --where: drops the other evaluations. task_mean keeps all, so dense's answers
 * and bytes remain. */
static int narrow(sqlite3 *db, const char *path, const char *given) {
  kv_where w;
  kv_grid g = {0};
  sqlite3_stmt *s = NULL;
  int rc = kv_where_cut(given, &w);
  if (!rc) rc = kv_where_check(db, "evaluations", &w);
  if (!rc && w.n) rc = kv_where_ask(db, "evaluations", "key", &w, &g);
  if (!rc && w.n &&
      (sqlite3_exec(db, "CREATE TEMP TABLE wanted(key TEXT PRIMARY KEY)", NULL,
                    NULL, NULL) ||
       sqlite3_prepare_v2(db, "INSERT INTO wanted VALUES (?)", -1, &s, NULL)))
    rc = kv_results_fail(db, path);
  for (int r = 0; r < g.rows && !rc; r++) {
    sqlite3_bind_text(s, 1, kv_grid_text(&g, r, "key"), -1, SQLITE_STATIC);
    int step = sqlite3_step(s), end = sqlite3_reset(s);
    if (step != SQLITE_DONE || end) rc = kv_results_fail(db, path);
  }
  sqlite3_finalize(s);
  kv_grid_free(&g);
  if (!rc && w.n &&
      sqlite3_exec(db,
                   "DELETE FROM newest_evaluation WHERE key NOT IN"
                   " (SELECT key FROM wanted)",
                   NULL, NULL, NULL))
    rc = kv_results_fail(db, path);
  return rc;
}

int kv_report_rank(const kv_args *a) {
  const char *path = a->files.item[0];
  asked x = {.a = a,
             .by = kv_compared_all[a->measure].name,
             .pairs = a->pairs || a->method};
  const kv_ranked_how how = {a->draws ? a->draws : KV_RANKED_DRAWS, a->method};
  int rc = kv_results_open(path, &x.db);
  if (!rc) rc = kv_results_answers(x.db, path);
  if (!rc) rc = narrow(x.db, path, a->where);
  if (!rc) rc = kv_ranked_fill(x.db, path, &how);
  if (!rc) rc = write(&x);
  sqlite3_close(x.db);
  return rc;
}

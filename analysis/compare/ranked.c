/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/compare/ranked.h"
#include "analysis/compare/measures.h"
#include "analysis/compare/rank.h"
#include "analysis/database/grid.h"
#include "analysis/database/results.h"
#include "analysis/database/say.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KV_RANKED_MOST = 256, KV_RANKED_NAME = 40 };

/* The request. */
typedef struct ask {
  sqlite3 *db;
  const char *path;         /* of db, for messages */
  const kv_ranked_how *how; /* the caller's */
  int measures, answers;    /* answers come first */
  struct {
    char name[KV_RANKED_NAME]; /* "kl.p95" */
    const kv_compared *of;
    const char *statistic;   /* in name: ".p95"; "" of the mean or a total */
  } measure[KV_RANKED_MOST]; /* [measures] in the numbers of rank_measure */
} ask;

/* --- the evaluations that are ranked ------------------------------------- */

/* Limits the number of pairs. */
enum { CELLS_MOST = 20000 };

/* Numbers of questions of an item. */
typedef struct sums {
  int *asked; /* [cells][width] questions */
  int *found; /* [measures][cells][width] of these, with a value */
} sums;

static size_t place_of(const kv_ranks *x, int m, int cell, int item) {
  return ((size_t)m * (size_t)x->cells + (size_t)cell) * (size_t)x->width +
         (size_t)item;
}

static bool reserve(const kv_grid *cells, const kv_grid *items, kv_ranks *x,
                    sums *s) {
  size_t all;
  for (int r = 0; r < items->rows; r++) {
    int n = (int)kv_grid_number(items, r, "items");
    x->width = n > x->width ? n : x->width;
  }
  x->cells = cells->rows;
  x->places = items->rows;
  all = (size_t)x->cells * (size_t)x->width + 1;
  x->method = calloc((size_t)x->cells + 1, sizeof *x->method);
  x->group = calloc((size_t)x->cells + 1, sizeof *x->group);
  x->items = calloc((size_t)x->places + 1, sizeof *x->items);
  x->counts = calloc(all, sizeof *x->counts);
  x->value = calloc((size_t)x->measures * all, sizeof *x->value);
  s->asked = calloc(all, sizeof *s->asked);
  s->found = calloc((size_t)x->measures * all, sizeof *s->found);
  for (int r = 0; x->items && r < items->rows; r++)
    x->items[r] = (int)kv_grid_number(items, r, "items");
  return x->method && x->group && x->items && x->counts && x->value &&
         s->asked && s->found;
}

static void find_groups(const kv_grid *cells, kv_ranks *x) {
  for (int c = 0; c < x->cells; c++) {
    int g = (int)kv_grid_number(cells, c, "in_group");
    int method = (int)kv_grid_number(cells, c, "of_method");
    if (g == x->groups)
      x->group[x->groups++] =
          (kv_rank_group){c, c, (int)kv_grid_number(cells, c, "place")};
    x->group[g].end = c + 1;
    x->method[c] = method;
    x->methods = method >= x->methods ? method + 1 : x->methods;
  }
}

/* Questions ascending, so that sums have one order. */
#define NUMBERS                                                                \
  "SELECT a.cell, a.item, m.number, iif(m.size, abs(v.value), v.value),"       \
  " a.rowid FROM rank_answer a CROSS JOIN evaluated v USING (evaluation_id)"   \
  " CROSS JOIN rank_measure m USING (name) WHERE a.of_model = ?1"              \
  " AND v.value IS NOT NULL ORDER BY a.rowid"

static int read_numbers(const ask *a, int model, kv_ranks *x, sums *s) {
  sqlite3_stmt *q = NULL;
  sqlite3_int64 row = -1;
  int rc = KV_EXIT_OK, step = SQLITE_DONE;
  if (sqlite3_prepare_v2(a->db, NUMBERS, -1, &q, NULL))
    return kv_results_fail(a->db, a->path);
  sqlite3_bind_int(q, 1, model);
  while ((step = sqlite3_step(q)) == SQLITE_ROW) {
    int cell = sqlite3_column_int(q, 0), item = sqlite3_column_int(q, 1);
    size_t at = place_of(x, sqlite3_column_int(q, 2), cell, item);
    if (sqlite3_column_int64(q, 4) != row)
      s->asked[place_of(x, 0, cell, item)]++;
    row = sqlite3_column_int64(q, 4);
    s->found[at]++;
    x->value[at] += sqlite3_column_double(q, 3);
  }
  if (step != SQLITE_DONE) rc = kv_results_fail(a->db, a->path);
  sqlite3_finalize(q);
  return rc;
}

/* Turns sums into means with more being better; NaN without a value. */
static void settle(const ask *a, const kv_grid *cells, kv_ranks *x,
                   const sums *s) {
  for (int m = 0; m < x->measures; m++)
    for (int c = 0; c < x->cells; c++)
      for (int i = 0; i < x->width; i++) {
        size_t at = place_of(x, m, c, i);
        int asked = s->asked[place_of(x, 0, c, i)];
        bool none = !strcmp(a->measure[m].of->value, "exact") &&
                    !(kv_grid_number(cells, c, "measurable") > 0);
        x->value[at] = none || !asked || s->found[at] < asked
                           ? NAN
                           : a->measure[m].of->better * x->value[at] / asked;
      }
  for (int g = 0; g < x->groups; g++)
    for (int i = 0; i < x->width; i++)
      x->counts[g * x->width + i] =
          s->asked[place_of(x, 0, x->group[g].first, i)] > 0;
}

/* Fills *x from the evaluations of a model, "0", "1", .. in rank_cell. cells:
 * all rows of it that count, by cell. Returns an exit code; free *x with
 * kv_ranks_free, also after a failure. */
static int read_ranks(const ask *a, const char *model, const kv_grid *cells,
                      kv_ranks *x) {
  sums s = {NULL, NULL};
  kv_grid items;
  int rc = kv_grid_ask(
      a->db,
      "SELECT place, coalesce(max(item) + 1, 0) AS items FROM rank_cell c"
      " LEFT JOIN rank_answer USING (of_model, cell) WHERE of_model = CAST(?1 "
      "AS INTEGER) AND"
      " why IS NULL GROUP BY place ORDER BY place",
      1, &model, &items);
  if (!rc && cells->rows > CELLS_MOST)
    rc = kv_tell(
        KV_EXIT_RESOURCE,
        "more than %d methods and budgets to rank; select fewer with --where",
        CELLS_MOST);
  *x = (kv_ranks){.measures = a->measures, .answers = a->answers};
  if (!rc && !reserve(cells, &items, x, &s)) rc = kv_tell_short();
  if (!rc) {
    find_groups(cells, x);
    rc = read_numbers(a, atoi(model), x, &s);
  }
  if (!rc) settle(a, cells, x, &s);
  free(s.asked);
  free(s.found);
  kv_grid_free(&items);
  return rc;
}

static int step_once(const ask *a, sqlite3_stmt *s) {
  int step = sqlite3_step(s), end = sqlite3_reset(s);
  sqlite3_clear_bindings(s);
  return step != SQLITE_DONE || end ? kv_results_fail(a->db, a->path)
                                    : KV_EXIT_OK;
}

/* --- measures ------------------------------------------------------------- */

static int put_measure(ask *a, sqlite3_stmt *s, const char *value,
                       const kv_compared *of, const char *statistic) {
  size_t n = strlen(of->name);
  if (a->measures == KV_RANKED_MOST) return KV_EXIT_OK;
  char *name = a->measure[a->measures].name;
  snprintf(name, KV_RANKED_NAME, "%s%s", of->name, statistic);
  a->measure[a->measures].of = of;
  a->measure[a->measures].statistic = name + n;
  sqlite3_bind_text(s, 1, value, -1, SQLITE_TRANSIENT);
  sqlite3_bind_int(s, 2, a->measures++);
  sqlite3_bind_int(s, 3, of->size);
  return step_once(a, s);
}

/* The statistic in a name, with `of` kl: ".p95" for open.kl.p95, "" for its
 * mean; NULL: another measure's, or a count. */
static const char *statistic(const char *value, const kv_compared *of) {
  static const char *const tails[] = {".p50", ".p95", ".p99", ".max"};
  size_t n = strlen(of->value);
  if (strncmp(value, "open.", 5) || strncmp(value + 5, of->value, n))
    return NULL;
  const char *rest = value + 5 + n;
  for (size_t i = 0; i < sizeof tails / sizeof *tails; i++)
    if (!strcmp(rest, tails[i])) return rest;
  return !*rest || !strcmp(rest, ".mean") ? "" : NULL;
}

/* All measures in the database, in the order of kv_compared_all. */
static int find_measures(ask *a) {
  sqlite3_stmt *s = NULL;
  kv_grid g = {0};
  int rc = kv_grid_ask(a->db, "SELECT name FROM quantity ORDER BY name", 0,
                       NULL, &g);
  if (!rc && sqlite3_prepare_v2(a->db, "INSERT INTO rank_measure VALUES(?,?,?)",
                                -1, &s, NULL))
    rc = kv_results_fail(a->db, a->path);
  const kv_compared *of = kv_compared_all;
  for (; of->answered && !rc; of++) rc = put_measure(a, s, of->value, of, "");
  a->answers = a->measures;
  for (; of->name; of++)
    for (int r = 0; r < g.rows && of->ranked && !rc; r++) {
      const char *value = kv_grid_text(&g, r, "name");
      const char *which = statistic(value, of);
      if (which) rc = put_measure(a, s, value, of, which);
    }
  sqlite3_finalize(s);
  kv_grid_free(&g);
  return rc;
}

static int find_wanted(const ask *a, int *wanted) {
  *wanted = -1;
  for (int m = a->answers; m < a->measures && a->how->measure; m++)
    if (!strcmp(a->measure[m].name, a->how->measure)) *wanted = m;
  return !a->how->measure || *wanted >= 0
             ? KV_EXIT_OK
             : kv_tell(KV_EXIT_USAGE,
                       "no open-loop measure %s in the database; give a name "
                       "from the table's first column",
                       a->how->measure);
}

/* --- storing results ------------------------------------------------------ */

typedef struct found {
  const ask *a;
  const kv_grid *cells;
  const kv_ranks *x;
  const kv_rank *rank; /* [answers][measures] */
  const int *best;     /* [answers] */
} found;

static const char *method_name(const found *f, int method) {
  for (int c = 0; c < f->x->cells; c++)
    if (f->x->method[c] == method) return kv_grid_text(f->cells, c, "method");
  return NULL;
}

static void bind_text(sqlite3_stmt *s, int at, const char *text) {
  if (text) sqlite3_bind_text(s, at, text, -1, SQLITE_TRANSIENT);
}

/* SQLite binds a NaN as null. */
static int put_rank(const found *f, sqlite3_stmt *s, int answer, int m) {
  const kv_rank *of = f->rank + answer * f->x->measures, *r = of + m;
  const double tau[] = {r->tau, r->low, r->high};
  const double of_best[] = {r->best_tau, r->gap, r->gap_low, r->gap_high};
  const int count[] = {r->groups, r->methods, r->items, r->pairs,
                       of[answer].pairs};
  const char *best =
      f->best[answer] < 0 ? NULL : f->a->measure[f->best[answer]].name;
  const char *text[] = {kv_grid_text(f->cells, 0, "model"),
                        f->a->measure[answer].name, f->a->measure[m].name,
                        f->a->measure[m].of->name, f->a->measure[m].statistic};
  int at = 1;
  for (int i = 0; i < 5; i++) bind_text(s, at++, text[i]);
  sqlite3_bind_int(s, at++, f->a->measure[m].of->marked);
  for (int i = 0; i < 3; i++) sqlite3_bind_double(s, at++, tau[i]);
  sqlite3_bind_double(s, at++, r->least);
  bind_text(s, at++, method_name(f, r->least_without));
  sqlite3_bind_double(s, at++, r->most);
  bind_text(s, at++, method_name(f, r->most_without));
  for (int i = 0; i < 5; i++) sqlite3_bind_int(s, at++, count[i]);
  bind_text(s, at++, best);
  for (int i = 0; i < 4; i++) sqlite3_bind_double(s, at++, of_best[i]);
  return step_once(f->a, s);
}

static int put_ranks(const found *f) {
  sqlite3_stmt *s = NULL;
  int rc = KV_EXIT_OK;
  if (sqlite3_prepare_v2(f->a->db,
                         "INSERT INTO ranked VALUES"
                         "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                         -1, &s, NULL))
    return kv_results_fail(f->a->db, f->a->path);
  for (int i = 0; i < f->x->answers; i++)
    for (int m = f->x->answers; m < f->x->measures && !rc; m++)
      if (f->rank[i * f->x->measures + m].pairs) rc = put_rank(f, s, i, m);
  sqlite3_finalize(s);
  return rc;
}

static int put_pair(const found *f, sqlite3_stmt *s, int answer, int m,
                    const int *at, const int *count) {
  bind_text(s, 1, kv_grid_text(f->cells, 0, "model"));
  bind_text(s, 2, f->a->measure[answer].name);
  bind_text(s, 3, f->a->measure[m].name);
  for (int i = 0; i < 2; i++) {
    bind_text(s, 4 + i, method_name(f, at[i]));
    sqlite3_bind_int(s, 6 + i, count[i]);
  }
  return step_once(f->a, s);
}

/* Stores the pairs that measure m has in the wrong order, by one answer. */
static int put_pairs_of(const found *f, sqlite3_stmt *s, int answer, int m) {
  int n = f->x->methods, rc = KV_EXIT_OK;
  int *wrong = calloc((size_t)n * (size_t)n * 2 + 1, sizeof *wrong);
  int *both = wrong + n * n;
  if (!wrong || !kv_rank_wrong(f->x, m, answer, wrong, both))
    rc = kv_tell_short();
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n && !rc; j++)
      if (wrong[i * n + j])
        rc = put_pair(f, s, answer, m, (const int[]){i, j},
                      (const int[]){wrong[i * n + j], both[i * n + j]});
  free(wrong);
  return rc;
}

static int put_pairs(const found *f, int wanted) {
  sqlite3_stmt *s = NULL;
  int rc = KV_EXIT_OK;
  if (sqlite3_prepare_v2(f->a->db,
                         "INSERT INTO misranked VALUES (?,?,?,?,?,?,?)", -1, &s,
                         NULL))
    return kv_results_fail(f->a->db, f->a->path);
  for (int i = 0; i < f->x->answers && !rc; i++) {
    int m = wanted < 0 ? f->best[i] : wanted;
    if (m >= 0) rc = put_pairs_of(f, s, i, m);
  }
  sqlite3_finalize(s);
  return rc;
}

static int rank_model(const ask *a, const char *model, int wanted) {
  int rc, *best = calloc((size_t)a->answers, sizeof *best);
  kv_rank *rank = calloc((size_t)(a->measures * a->answers), sizeof *rank);
  kv_ranks x = {0};
  kv_grid cells;
  rc = kv_grid_ask(a->db,
                   "SELECT * FROM rank_cell WHERE of_model = CAST(?1 AS "
                   "INTEGER) AND why IS NULL"
                   " ORDER BY cell",
                   1, &model, &cells);
  found f = {a, &cells, &x, rank, best};
  if (!rc && (!rank || !best)) rc = kv_tell_short();
  if (!rc) rc = read_ranks(a, model, &cells, &x);
  if (!rc && !kv_rank_find(&x, a->how->draws, rank, best)) rc = kv_tell_short();
  if (!rc) rc = put_ranks(&f);
  if (!rc) rc = put_pairs(&f, wanted);
  kv_ranks_free(&x);
  kv_grid_free(&cells);
  free(best);
  free(rank);
  return rc;
}

int kv_ranked_fill(sqlite3 *db, const char *path, const kv_ranked_how *how) {
  const char *fill = "CREATE TEMP TABLE rank_measure(name TEXT PRIMARY KEY,"
                     " number INTEGER, size INTEGER) WITHOUT ROWID;"
                     "INSERT INTO rank_cell SELECT * FROM rank_cells;"
                     "INSERT INTO rank_answer SELECT * FROM rank_answers";
  ask *a = calloc(1, sizeof *a);
  kv_grid models = {0};
  int wanted, rc = a ? KV_EXIT_OK : kv_tell_short();
  if (!a) return rc;
  *a = (ask){.db = db, .path = path, .how = how};
  if (sqlite3_exec(db, fill, NULL, NULL, NULL)) rc = kv_results_fail(db, path);
  if (!rc) rc = find_measures(a);
  if (!rc) rc = find_wanted(a, &wanted);
  if (!rc)
    rc = kv_grid_ask(db,
                     "SELECT DISTINCT of_model FROM rank_cell WHERE why IS NULL"
                     " ORDER BY of_model",
                     0, NULL, &models);
  for (int r = 0; r < models.rows && !rc; r++)
    rc = rank_model(a, kv_grid_text(&models, r, "of_model"), wanted);
  kv_grid_free(&models);
  free(a);
  return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/compare/ranked_read.h"
#include "analysis/database/results.h"
#include "analysis/database/say.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* So that their pairs can be counted. */
enum { CELLS_MOST = 20000 };

/* Sums over the questions of an item, before they are means. */
typedef struct sums {
  int *asked; /* [cells][width] questions */
  int *found; /* [measures][cells][width] of them with a value */
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

/* Numbers as they come, questions ascending, so that sums have one order. */
#define NUMBERS                                                                \
  "SELECT a.cell, a.item, m.number, iif(m.size, abs(v.value), v.value),"       \
  " a.rowid FROM rank_answer a CROSS JOIN evaluated v USING (evaluation_id)"   \
  " CROSS JOIN rank_measure m USING (name) WHERE a.of_model = ?1"              \
  " AND v.value IS NOT NULL ORDER BY a.rowid"

static int read_numbers(const kv_ranked_ask *a, int model, kv_ranks *x,
                        sums *s) {
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

/* Sums become means, so that more is better, and what is not there NaN. */
static void settle(const kv_ranked_ask *a, const kv_grid *cells, kv_ranks *x,
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

int kv_ranked_read(const kv_ranked_ask *a, const char *model,
                   const kv_grid *cells, kv_ranks *x) {
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
    rc = kv_tell(KV_EXIT_RESOURCE, "more than %d methods and budgets to rank",
                 CELLS_MOST);
  *x = (kv_ranks){.measures = a->measures, .answers = a->answers};
  if (!rc && !reserve(cells, &items, x, &s))
    rc = kv_tell(KV_EXIT_RESOURCE, "not enough memory to rank");
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * Recall of the exact top-k against page size and budget: a map a method, page
 * sizes down, budgets across. Nothing where no method has a page.
 */
#include "analysis/database/say.h"
#include "analysis/figures/figures.h"
#include "analysis/page/heat.h"
#include "analysis/page/panels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows first..first+n-1 of the grid are one method's; the rows of the grid at
 * which each page size, and each budget, is first seen. */
typedef struct map {
  const kv_grid *g;
  int first, n, pages, budgets;
  int *page, *budget;
} map;

static bool same(const kv_grid *g, int a, int b, const char *name) {
  return !strcmp(kv_grid_text(g, a, name), kv_grid_text(g, b, name));
}

static int page_of(const map *m, int r) {
  int i = 0;
  while (i < m->pages && !same(m->g, m->page[i], r, "page")) i++;
  return i;
}

static int budget_of(const map *m, int r) {
  int i = 0;
  while (i < m->budgets && !(same(m->g, m->budget[i], r, "basis") &&
                             same(m->g, m->budget[i], r, "asked")))
    i++;
  return i;
}

/* From the least budget up. */
static void sort_budgets(const map *m) {
  for (int i = 1; i < m->budgets; i++)
    for (int j = i; j && kv_grid_number(m->g, m->budget[j], "budget") <
                             kv_grid_number(m->g, m->budget[j - 1], "budget");
         j--) {
      int row = m->budget[j];
      m->budget[j] = m->budget[j - 1];
      m->budget[j - 1] = row;
    }
}

/* The rows of one method; they are ordered by method, then page. */
static map find_map(const kv_grid *g, int first, int *page, int *budget) {
  map m = {g, first, 0, 0, 0, page, budget};
  while (first + m.n < g->rows && same(g, first, first + m.n, "method")) {
    int r = first + m.n++, i = page_of(&m, r), j = budget_of(&m, r);
    if (i == m.pages) m.page[m.pages++] = r;
    if (j == m.budgets) m.budget[m.budgets++] = r;
  }
  sort_budgets(&m);
  return m;
}

static const char *page_name(const void *self, int i) {
  const map *m = self;
  return kv_grid_text(m->g, m->page[i], "page");
}

static const char *budget_name(const void *self, int i) {
  const map *m = self;
  return kv_grid_text(m->g, m->budget[i], "asked");
}

static void draw(const kv_page *p, const map *m) {
  size_t n = (size_t)m->pages * (size_t)m->budgets;
  double *value = calloc(n, sizeof *value);
  const char *method = kv_grid_text(m->g, m->first, "method");
  kv_heat h = {method,
               m->pages,
               m->budgets,
               value,
               "page, tokens",
               "budget asked",
               page_name,
               budget_name,
               m,
               fmin(480, 60. * m->budgets),
               fmin(300, 26. * m->pages)};
  if (!value) {
    kv_tell_short();
    return;
  }
  for (size_t i = 0; i < n; i++) value[i] = NAN;
  for (int r = m->first; r < m->first + m->n; r++)
    value[page_of(m, r) * m->budgets + budget_of(m, r)] =
        kv_grid_number(m->g, r, "recall_budget");
  kv_heat_titled(&h, method, p->f);
  free(value);
}

static void draw_all(const kv_page *p, const kv_grid *g) {
  size_t n = (size_t)g->rows;
  int *page = calloc(n, sizeof *page), *budget = calloc(n, sizeof *budget);
  if (!page || !budget) kv_tell_short();
  for (int r = 0; page && budget && r < g->rows;) {
    map m = find_map(g, r, page, budget);
    draw(p, &m);
    r += m.n;
  }
  free(page);
  free(budget);
}

int kv_page_pages(const kv_page *p) {
  static const kv_figure figure = {
      "pages",
      "Recall by page size",
      "SELECT * FROM pages",
      "Of the tokens with the largest exact scores, as many as "
      "the budget allows, the percentage that the method looks "
      "at: mean over layers, heads, decode steps and traces. "
      "Page sizes down, budgets across; the darker, the better. "
      "A sweep as -m quest:page=8,quest:page=16,quest:page=32 "
      "fills more rows.",
      .draw = draw_all,
      .group = "small"};
  return kv_figures_draw(p, 1, &figure);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What each layer and KV head keeps: a small map a method, of traces of one
 * shape, at the budget that most were asked for.
 */
#include "analysis/database/say.h"
#include "analysis/figures/figures.h"
#include "analysis/page/heat.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 1024 }; /* more than any model has */

/* Rows first..first+n-1 of the grid are one map: of one shape and method. */
typedef struct map {
  const kv_grid *g;
  int first, n, rows, columns;
} map;

static bool same(const kv_grid *g, int a, int b, const char *name) {
  return !strcmp(kv_grid_text(g, a, name), kv_grid_text(g, b, name));
}

static bool same_shape(const kv_grid *g, int a, int b) {
  return same(g, a, b, "layers") && same(g, a, b, "kv_heads");
}

/* Rows are ordered by layer, then head. */
static map find_map(const kv_grid *g, int first) {
  map m = {g, first, 1, 1, 1};
  while (first + m.n < g->rows && same_shape(g, first, first + m.n) &&
         same(g, first, first + m.n, "method") &&
         same(g, first, first + m.n, "asked")) {
    int r = first + m.n++;
    int head = kv_grid_int(g, r, "head", 0, HEADS - 1, 0);
    m.rows += !same(g, r - 1, r, "layer");
    if (head >= m.columns) m.columns = head + 1;
  }
  return m;
}

/* The i-th layer that was recorded. */
static const char *layer_name(const void *self, int i) {
  const map *m = self;
  int r = m->first;
  while (i > 0) i -= !same(m->g, r, r + 1, "layer"), r++;
  return kv_grid_text(m->g, r, "layer");
}

static const char *head_name(const void *self, int i) {
  static const char *const few[] = {"0", "1", "2", "3", "4", "5", "6", "7"};
  const map *m = self;
  for (int r = m->first; i >= 8 && r < m->first + m->n; r++)
    if (kv_grid_number(m->g, r, "head") == i)
      return kv_grid_text(m->g, r, "head");
  return i < 8 ? few[i] : "";
}

static void draw(const kv_page *p, const map *m) {
  size_t n = (size_t)m->rows * (size_t)m->columns;
  double *value = calloc(n, sizeof *value);
  const char *method = kv_grid_text(m->g, m->first, "method");
  int row = 0;
  kv_heat h = {method,     m->rows,   m->columns, value, "layer", "KV head",
               layer_name, head_name, m,          150,   0};
  if (!value) {
    kv_tell_short();
    return;
  }
  h.height = fmin(260, 20. * m->rows);
  for (size_t i = 0; i < n; i++) value[i] = NAN;
  for (int r = m->first; r < m->first + m->n; r++) {
    row += r > m->first && !same(m->g, r - 1, r, "layer");
    value[row * m->columns + kv_grid_int(m->g, r, "head", 0, HEADS - 1, 0)] =
        kv_grid_number(m->g, r, "share");
  }
  kv_heat_titled(&h, method, p->f);
  free(value);
}

/* No two of its squares show different percents. */
static bool flat(const map *m) {
  double lo = HUGE_VAL, hi = -HUGE_VAL;
  for (int r = m->first; r < m->first + m->n; r++) {
    lo = fmin(lo, kv_grid_number(m->g, r, "share"));
    hi = fmax(hi, kv_grid_number(m->g, r, "share"));
  }
  return rint(100 * lo) == rint(100 * hi);
}

/* The maps of one shape that have something to see, then the others' one
 * number each; returns the first row of the next shape. */
static int draw_shape(const kv_page *p, const kv_grid *g, int first) {
  int r = first, even = 0;
  fputs("<h3>", p->f);
  kv_page_count(p->f, (int)kv_grid_number(g, r, "traces"), "trace");
  fprintf(p->f, ", %s layers of %s KV heads recorded</h3>\n",
          kv_grid_text(g, r, "layers"), kv_grid_text(g, r, "kv_heads"));
  fputs("<div class=\"small maps\">\n", p->f);
  while (r < g->rows && same_shape(g, first, r)) {
    map m = find_map(g, r);
    if (!flat(&m)) draw(p, &m);
    r += m.n;
  }
  fputs("</div>\n<p class=\"soft\">Alike in all layers and heads, in percent:",
        p->f);
  for (int at = first; at < r;) {
    map m = find_map(g, at);
    if (flat(&m)) {
      fputs(even++ ? ", " : " ", p->f);
      kv_text_html(kv_grid_text(g, at, "method"), p->f);
      fprintf(p->f, " %.0f", 100 * kv_grid_number(g, at, "share"));
    }
    at += m.n;
  }
  fputs(even ? ".</p>\n" : " none.</p>\n", p->f);
  return r;
}

int kv_page_heads(const kv_page *p) {
  kv_grid g = {0}, at = {0};
  char text[512];
  int rc = kv_grid_ask(p->db,
                       "SELECT * FROM heads WHERE asked = '' OR (basis, asked)"
                       " = (SELECT basis, asked FROM pictured)",
                       0, NULL, &g);
  if (!rc) rc = kv_grid_ask(p->db, "SELECT * FROM pictured", 0, NULL, &at);
  if (rc) {
    kv_grid_free(&g);
    return rc;
  }
  if (!g.rows)
    fputs("<p class=\"soft\">No cell has an answer on every trace of its "
          "shape.</p>\n",
          p->f);
  else {
    snprintf(text, sizeof text,
             "Entries that each KV head holds at the end, in percent of all "
             "tokens, mean over traces; the darker, the more. Budget asked: "
             "%.*s. Methods without a budget are shown as they are; those that "
             "retrieve keep everything.",
             40, at.rows ? kv_grid_text(&at, 0, "asked") : "none");
    fputs("<figure>\n", p->f);
    for (int r = 0; r < g.rows;) r = draw_shape(p, &g, r);
    kv_page_caption(p, text, "heads", &g);
    fputs("</figure>\n", p->f);
  }
  kv_grid_free(&at);
  kv_grid_free(&g);
  return rc;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tokens survive, a map a method, and how alike what two methods store
 * is, a matrix of all. Nothing where no run has recorded it (--tokens).
 */
#include "analysis/database/say.h"
#include "analysis/figures/figures.h"
#include "analysis/page/heat.h"
#include "analysis/page/panels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Columns: the moments, an empty one, and two of what was shown. */
enum { BINS = 24, MOMENTS = 25, SHOWN = MOMENTS + 1, COLUMNS = SHOWN + 2 };

static const char *bin_name(const void *self, int i) {
  static const char *const name[] = {"0%", "25%", "50%", "75%"};
  (void)self;
  return i % (BINS / 4) ? "" : name[i / (BINS / 4)];
}

static const char *moment_name(const void *self, int i) {
  (void)self;
  return i == 0             ? "0%"
         : i == MOMENTS / 2 ? "50%"
         : i == MOMENTS - 1 ? "100%"
                            : "";
}

/* Draws the map whose rows begin at `first`; returns the row after it. */
static int draw(const kv_page *p, const kv_grid *g, int first) {
  double value[BINS * COLUMNS];
  const char *method = kv_grid_text(g, first, "method");
  kv_heat h = {method,   BINS,        COLUMNS, value, "token", "decode",
               bin_name, moment_name, NULL,    168,   120};
  int r = first;
  for (int i = 0; i < BINS * COLUMNS; i++) value[i] = NAN;
  for (; r < g->rows && !strcmp(method, kv_grid_text(g, r, "method")); r++) {
    int bin = kv_grid_int(g, r, "bin", 0, BINS - 1, 0);
    int moment = kv_grid_int(g, r, "moment", 0, MOMENTS - 1, 0);
    double *row = value + bin * COLUMNS;
    row[moment] = kv_grid_number(g, r, "stored");
    row[SHOWN] = row[SHOWN + 1] = kv_grid_number(g, r, "shown");
  }
  kv_heat_titled(&h, method, p->f);
  return r;
}

static void draw_tokens(const kv_page *p, const kv_grid *g) {
  for (int r = 0; r < g->rows;) r = draw(p, g, r);
}

int kv_page_tokens(const kv_page *p) {
  static const kv_figure figure = {
      "tokens",
      "Which tokens survive",
      "SELECT * FROM tokens",
      "Down: tokens by their place in the text, the first on "
      "top; across: decode, from the prompt's end to the last "
      "step. The shade is the share of these tokens that is "
      "still stored, alone or within a merged entry; nothing "
      "where none has entered. The strip on the right is the "
      "share of decode steps at which they were shown to a query "
      "head. Means over layers, lanes and traces, at the budget "
      "of the maps above. kvreport export writes the numbers as "
      "tokens.csv.",
      .draw = draw_tokens,
      .group = "small maps",
      .unlinked = true};
  return kv_figures_draw(p, 1, &figure);
}

/* --- overlap -------------------------------------------------------------- */

static const char *side_name(const void *self, int i) {
  const kv_grid *names = self;
  return kv_grid_text(names, i, "method");
}

static const char *side_number(const void *self, int i) {
  const kv_grid *names = self;
  return kv_grid_text(names, i, "number");
}

static int find(const kv_grid *names, const char *name) {
  int i = 0;
  while (i < names->rows && strcmp(side_name(names, i), name)) i++;
  return i;
}

static void draw_overlap(const kv_page *p, const kv_grid *g,
                         const kv_grid *names, const char *column,
                         const char *title) {
  int n = names->rows;
  double *value = calloc((size_t)n * (size_t)n, sizeof *value);
  kv_heat h = {title,
               n,
               n,
               value,
               "method",
               "number of the method",
               side_number,
               side_number,
               names,
               fmin(480, 30. * n),
               fmin(480, 22. * n)};
  if (!value) {
    kv_tell_short();
    return;
  }
  for (int i = 0; i < n * n; i++) value[i] = NAN;
  for (int r = 0; r < g->rows; r++)
    value[find(names, kv_grid_text(g, r, "method")) * n +
          find(names, kv_grid_text(g, r, "other"))] =
        kv_grid_number(g, r, column);
  kv_heat_titled(&h, title, p->f);
  free(value);
}

static void name_all(const kv_page *p, const kv_grid *names) {
  fputs("<p class=\"soft\">", p->f);
  for (int i = 0; i < names->rows; i++) {
    fprintf(p->f, "%s%s ", i ? ", " : "", side_number(names, i));
    kv_text_html(side_name(names, i), p->f);
  }
  fputs("</p>\n", p->f);
}

int kv_page_overlap(const kv_page *p) {
  kv_grid g = {0}, names = {0};
  int rc = kv_grid_ask(p->db, "SELECT * FROM overlap", 0, NULL, &g);
  if (!rc)
    rc = kv_grid_ask(p->db,
                     "SELECT method, row_number() OVER (ORDER BY method) AS"
                     " number FROM (SELECT DISTINCT method FROM overlap)"
                     " ORDER BY method",
                     0, NULL, &names);
  if (!rc && names.rows > 1) {
    fputs("<h2 id=\"overlap\">Who keeps the same tokens</h2>\n<figure>\n<div "
          "class=\"small two\">\n",
          p->f);
    draw_overlap(p, &g, &names, "after_prompt", "after the prompt");
    draw_overlap(p, &g, &names, "at_end", "at the end");
    fputs("</div>\n", p->f);
    name_all(p, &names);
    kv_page_caption(p,
                    "Tokens that two methods both store over those that either "
                    "stores (Jaccard), in percent, mean over traces, layers "
                    "and lanes that both have, at the budget of the maps "
                    "above. A member of a merged entry is stored.",
                    "overlap", &g);
    fputs("</figure>\n", p->f);
  }
  kv_grid_free(&names);
  kv_grid_free(&g);
  return rc;
}

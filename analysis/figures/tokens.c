/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tokens survive, a map a method, and how alike what two methods store
 * is, a matrix of all. Nothing where no run has recorded it (--tokens).
 */
#include "analysis/figures/figures.h"

#include <math.h>
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

/* --- overlap -------------------------------------------------------------- */

/* How alike the methods are after the prompt and at the end, by numbers whose
 * names stand below. */
static void draw_overlap(const kv_page *p, const kv_grid *g) {
  static const kv_maps after = {.row = "method",
                                .column = "other",
                                .value = "after_prompt",
                                .row_title = "method",
                                .column_title = "number of the method",
                                .numbered = true,
                                .wide = 30,
                                .high = 22,
                                .most_wide = 480,
                                .most_high = 480};
  kv_maps end = after;
  kv_map m;
  end.value = "at_end";
  if (!kv_map_find(g, &after, 0, g->rows, 0, g->rows, &m)) return;
  fputs("<div class=\"small two\">\n", p->f);
  kv_map_draw(&m, "after the prompt", p->f);
  kv_map_show(g, &end, 0, g->rows, "at the end", p->f);
  fputs("</div>\n<p class=\"soft\">", p->f);
  for (int i = 0; i < m.rows; i++) {
    fprintf(p->f, "%s%d ", i ? ", " : "", i + 1);
    kv_text_html(kv_grid_text(g, m.row[i], "method"), p->f);
  }
  kv_map_free(&m);
  fputs("</p>\n", p->f);
}

const kv_figure kv_figures_tokens[] = {
    {"tokens", "Which tokens survive", "SELECT * FROM tokens",
     "Down: tokens by their place in the text, the first on "
     "top; across: decode, from the prompt's end to the last "
     "step. The shade is the share of these tokens that is "
     "still stored, alone or within a merged entry; nothing "
     "where none has entered. The strip on the right is the "
     "share of decode steps at which they were shown to a query "
     "head. Means over layers, lanes and traces, at the budget "
     "of the maps above. kvreport export writes the numbers as "
     "tokens.csv.",
     .draw = draw_tokens, .group = "small maps", .unlinked = true},
    {"overlap", "Who keeps the same tokens",
     "SELECT * FROM overlap WHERE"
     " (SELECT count(DISTINCT method) > 1 FROM overlap)",
     "Tokens that two methods both store over those that either "
     "stores (Jaccard), in percent, mean over traces, layers "
     "and lanes that both have, at the budget of the maps "
     "above. A member of a merged entry is stored.",
     .draw = draw_overlap},
    {.id = NULL}};

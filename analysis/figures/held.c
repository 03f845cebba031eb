/* SPDX-License-Identifier: Apache-2.0
 *
 * What is held: bytes with codes alone and with everything, a bar a method, and
 * the pages of layouts at each step.
 */
#include "analysis/database/say.h"
#include "analysis/figures/figures.h"
#include "analysis/page/panels.h"
#include "analysis/page/strip.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- codes alone, and everything ------------------------------------------ */

enum { KINDS = 5, NAME = 76 };
static const char *const kind[KINDS] = {"codes", "metadata", "columns", "side",
                                        "slack"};
static char *kind_name[KINDS] = {
    "K and V, or their codes", "metadata: scales, minima, positions, weights",
    "numbers of the method, an entry", "other memory of the method",
    "held and unused"};

/* One bar after the other, and a point for the pages; how many there are. */
static int stack(const kv_grid *g, int r, kv_strip_row *row,
                 kv_strip_item *item) {
  const char *method = kv_grid_text(g, r, "method");
  const char *asked = kv_grid_text(g, r, "asked");
  double at = 0;
  int n = 0;
  for (int i = 0; i < KINDS; i++) {
    double x = kv_grid_number(g, r, kind[i]);
    if (!(x > 0)) continue;
    item[n] = (kv_strip_item){
        .row = r, .series = i, .kind = KV_STRIP_BAR, .x0 = at, .x1 = at + x};
    at += x;
    snprintf(item[n].tip, sizeof item[n].tip, "%.*s, %s: %.3g%% of dense",
             kv_text_cut(method, NAME), method, kind_name[i], 100 * x);
    n++;
  }
  double pages = kv_grid_number(g, r, "unified");
  if (isfinite(pages)) {
    item[n] =
        (kv_strip_item){.row = r, .series = KINDS, .x0 = pages, .solid = true};
    snprintf(item[n].tip, sizeof item[n].tip,
             "%.*s, in unified pages: %.3g%% of dense",
             kv_text_cut(method, NAME), method, 100 * pages);
    n++;
  }
  snprintf(row->name, sizeof row->name, "%.*s%s%.*s", kv_text_cut(method, NAME),
           method, *asked ? " at " : "", kv_text_cut(asked, 20), asked);
  snprintf(row->note, sizeof row->note, "%.1f%%, all %.1f%%",
           100 * kv_grid_number(g, r, "codes"),
           100 * kv_grid_number(g, r, "everything"));
  return n;
}

static bool some(const kv_grid *g, const char *column) {
  for (int r = 0; r < g->rows; r++)
    if (kv_grid_number(g, r, column) > 0) return true;
  return false;
}

/* The names of what some row has. */
static void legend(const kv_grid *g, FILE *f) {
  fputs("<ul class=\"legend\">\n", f);
  for (int i = 0; i < KINDS; i++)
    if (some(g, kind[i]))
      fprintf(f,
              "<li><svg viewBox=\"0 0 34 14\" aria-hidden=\"true\"><path "
              "class=\"k%d b\" d=\"M1,1H33V13H1z\"/></svg>%s</li>\n",
              i, kind_name[i]);
  if (some(g, "unified")) {
    fputs("<li><svg viewBox=\"0 0 34 14\" aria-hidden=\"true\">", f);
    kv_plot_mark(kv_look_number(KINDS), true, 17, 7, 5, "", f);
    fputs("</svg>in unified pages, all that these hold</li>\n", f);
  }
  fputs("</ul>\n", f);
}

static void draw_charged(const kv_page *p, const kv_grid *g) {
  size_t n = (size_t)g->rows;
  kv_strip_row *row = calloc(n, sizeof *row);
  kv_strip_item *item = calloc((KINDS + 1) * n, sizeof *item);
  kv_strip s = {.title = "Bytes held at the end by kind",
                .text = "The data are in the file below.",
                .x = {"bytes at the end, share of dense", 0, 0, false, true},
                .rows = g->rows,
                .row = row,
                .item = item};
  for (int r = 0; row && item && r < g->rows; r++)
    s.n += stack(g, r, &row[r], &item[s.n]);
  if (row && item) {
    legend(g, p->f);
    kv_strip_write(&s, p->f);
  } else {
    kv_tell_short();
  }
  free(row);
  free(item);
}

/* --- the figures ---------------------------------------------------------- */

int kv_page_held(const kv_page *p) {
  static const kv_figure figures[] = {
      {"charged", "Codes alone, and everything",
       "SELECT * FROM charged WHERE asked = '' OR (basis,"
       " asked) = (SELECT basis, asked FROM pictured)",
       "Bytes held at the end, as a share of the dense cache, "
       "mean over traces. Papers mostly count the codes; what "
       "they cannot be read without is charged here, and both "
       "numbers stand at the right. A mark: the unified pages "
       "that would hold it at the end, their empty places and a "
       "score a token with them, where --layout unified was "
       "run.",
       .draw = draw_charged},
      {"paged", "Pages over time", "SELECT * FROM paged",
       "Pages that a layout holds after each step, all layers "
       "and KV heads together, from the end of the prompt on; a "
       "plot a layout and trace, with axes of its own. Pages of "
       "unified have one size; those of pages:N hold N tokens of "
       "K or of V, and are smaller the fewer bits these have. At "
       "the budget of the maps above. At most 121 steps of a "
       "line. kvreport export writes the numbers as paged.csv.",
       .panels = {.panel = "panel",
                  .series = "method",
                  .x = "step",
                  .y = "pages",
                  .across = {"tokens seen", 0, 0, false, false},
                  .up = {"pages held", 0, 0, false, false},
                  .apart = true,
                  .bare = true,
                  .title = "Pages held at each step"},
       .unlinked = true}};
  return kv_figures_draw(p, sizeof figures / sizeof *figures, figures);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What is held: bytes with codes alone and with everything, a bar a method, and
 * the pages of layouts at each step.
 */
#include "analysis/figures/figures.h"
#include "analysis/page/strip.h"

#include <math.h>

/* --- codes alone, and everything ------------------------------------------ */

enum { KINDS = 5 };
static const char *const kind[KINDS] = {"codes", "metadata", "columns", "side",
                                        "slack"};
static char *kind_name[KINDS] = {
    "K and V, or their codes", "metadata: scales, minima, positions, weights",
    "numbers of the method, an entry", "other memory of the method",
    "held and unused"};

/* One bar after the other, and a point for the pages. */
static int stack(const kv_grid *g, int r, kv_strip *s) {
  const char *method = kv_grid_text(g, r, "method");
  int cut = kv_text_cut(method, KV_STRIP_METHOD);
  double at = 0, pages = kv_grid_number(g, r, "unified");
  kv_strip_row *row = &s->row[s->rows];
  for (int i = 0; i < KINDS; i++) {
    double x = kv_grid_number(g, r, kind[i]);
    if (!(x > 0)) continue;
    kv_strip_item *bar = &s->item[s->n++];
    *bar = (kv_strip_item){.row = s->rows,
                           .series = i,
                           .kind = KV_STRIP_BAR,
                           .x0 = at,
                           .x1 = at + x};
    at += x;
    snprintf(bar->tip, sizeof bar->tip, "%.*s, %s: %.3g%% of dense", cut,
             method, kind_name[i], 100 * x);
  }
  if (isfinite(pages)) {
    kv_strip_item *mark = &s->item[s->n++];
    *mark = (kv_strip_item){
        .row = s->rows, .series = KINDS, .x0 = pages, .solid = true};
    snprintf(mark->tip, sizeof mark->tip,
             "%.*s, in unified pages: %.3g%% of dense", cut, method,
             100 * pages);
  }
  kv_strip_name(g, r, s);
  snprintf(row->note, sizeof row->note, "%.1f%%, all %.1f%%",
           100 * kv_grid_number(g, r, "codes"),
           100 * kv_grid_number(g, r, "everything"));
  s->rows++;
  return r + 1;
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
  legend(g, p->f);
  kv_strip_rows(
      &(kv_strip){.title = "Bytes held at the end by kind",
                  .x = {"bytes at the end, share of dense", 0, 0, false, true},
                  .lines = &p->variants},
      g, 0, g->rows, KINDS + 1, stack, p->f);
}

/* --- the figures ---------------------------------------------------------- */

const kv_figure kv_figures_held[] = {
    {"charged", "Codes alone, and everything", KV_PICTURED("charged"),
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
     .panels = KV_PANELS("step", "pages", KV_LINEAR("tokens seen"),
                         KV_LINEAR("pages held"), "Pages held at each step",
                         .series = "method", .apart = true, .bare = true),
     .unlinked = true},
    {.id = NULL}};

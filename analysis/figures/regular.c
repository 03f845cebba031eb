/* SPDX-License-Identifier: Apache-2.0
 *
 * Regular indices (kvreplay run --layout base, ls, la, hs, ha): how full lanes
 * are, and memory against time with the step at which a rewrite has paid.
 * Nothing where no such layout was asked for.
 */
#include "analysis/database/say.h"
#include "analysis/figures/figures.h"
#include "analysis/page/panels.h"
#include "analysis/page/strip.h"

#include <stdlib.h>
#include <string.h>

enum { NAME = 76, LAYOUTS = 9 };
static const char *const layout[LAYOUTS] = {
    "base",      "ls:sparse", "ls:max",    "la:sparse", "la:max",
    "hs:sparse", "hs:max",    "ha:sparse", "ha:max"};

static int layout_of(const kv_grid *g, int r) {
  for (int i = 0; i < LAYOUTS; i++)
    if (!strcmp(layout[i], kv_grid_text(g, r, "layout"))) return i;
  return -1;
}

/* --- how full lanes are --------------------------------------------------- */

static bool alike(const kv_grid *g, int a, int b, const char *column) {
  return !strcmp(kv_grid_text(g, a, column), kv_grid_text(g, b, column));
}

/* The rows of the grid from `first` on that are one cell's; its bar is row at
 * of the strip. */
static int take_cell(const kv_grid *g, int first, int at, kv_strip_row *row,
                     kv_strip_item *item, int *items) {
  const char *method = kv_grid_text(g, first, "method");
  const char *asked = kv_grid_text(g, first, "asked");
  double full = kv_grid_number(g, first, "utilisation");
  int r = first;
  snprintf(row->name, sizeof row->name, "%.*s%s%.*s", kv_text_cut(method, NAME),
           method, *asked ? " at " : "", kv_text_cut(asked, 20), asked);
  snprintf(row->note, sizeof row->note, "%.1f%% of %.1f%%",
           100 * kv_grid_number(g, first, "overall"),
           100 * kv_grid_number(g, first, "fullest"));
  kv_strip_item *bar = &item[(*items)++];
  *bar = (kv_strip_item){
      .row = at, .series = LAYOUTS, .kind = KV_STRIP_BAR, .x1 = full};
  snprintf(bar->tip, sizeof bar->tip, "%.*s: utilisation %.3g%%",
           kv_text_cut(method, NAME), method, 100 * full);
  for (; r < g->rows && alike(g, first, r, "method") &&
         alike(g, first, r, "asked") && alike(g, first, r, "basis");
       r++) {
    int i = layout_of(g, r);
    if (i < 0) continue;
    double used = kv_grid_number(g, r, "used");
    kv_strip_item *mark = &item[(*items)++];
    *mark = (kv_strip_item){.row = at,
                            .series = i,
                            .x0 = used,
                            .solid = kv_grid_number(g, r, "confirmed") > 0};
    snprintf(mark->tip, sizeof mark->tip, "%.*s, %s: %.3g%% of slots used",
             kv_text_cut(method, NAME), method, layout[i], 100 * used);
  }
  return r;
}

static void legend(const kv_grid *g, FILE *f) {
  bool some[LAYOUTS] = {0};
  for (int r = 0; r < g->rows; r++)
    if (layout_of(g, r) >= 0) some[layout_of(g, r)] = true;
  fprintf(f,
          "<ul class=\"legend\">\n<li><svg viewBox=\"0 0 34 14\" "
          "aria-hidden=\"true\"><path class=\"k%d b\" "
          "d=\"M1,1H33V13H1z\"/></svg>utilisation</li>\n",
          LAYOUTS);
  for (int i = 0; i < LAYOUTS; i++) {
    if (!some[i]) continue;
    fputs("<li><svg viewBox=\"0 0 34 14\" aria-hidden=\"true\">", f);
    kv_plot_mark(kv_look_number(i), true, 17, 7, 5, "", f);
    fprintf(f, "</svg>%s: slots used</li>\n", layout[i]);
  }
  fputs("</ul>\n", f);
}

static void draw_utilised(const kv_page *p, const kv_grid *g) {
  size_t n = (size_t)g->rows;
  kv_strip_row *row = calloc(n, sizeof *row);
  kv_strip_item *item = calloc(2 * n, sizeof *item);
  kv_strip s = {.title = "How full lanes are",
                .text = "The data are in the file below.",
                .x = {"entries held, share", 0, 0, false, true},
                .row = row,
                .item = item};
  if (row && item) {
    for (int r = 0; r < g->rows; s.rows++)
      r = take_cell(g, r, s.rows, &row[s.rows], item, &s.n);
    legend(g, p->f);
    kv_strip_write(&s, p->f);
  } else {
    kv_tell_short();
  }
  free(row);
  free(item);
}

/* --- the figures ---------------------------------------------------------- */

int kv_page_regular(const kv_page *p) {
  static const kv_figure figures[] = {
      {"utilised", "How full lanes are",
       "SELECT * FROM utilised WHERE asked = '' OR (basis,"
       " asked) = (SELECT basis, asked FROM pictured)",
       "Bars: entries that all lanes hold as a share of as many "
       "in each as the fullest has, over all steps from the end "
       "of the prompt on, mean over traces; at the right the mean "
       "share of tokens that lanes hold, and that of the fullest. "
       "Marks: the same entries as a share of the slots that a "
       "layout of regular indices holds; for ha:max that is the "
       "bar.",
       .draw = draw_utilised},
      {"rewritten", "Rewriting against masks", "SELECT * FROM rewritten",
       "Bytes that layouts of regular indices hold after each "
       "step, a plot a cell. A rewritten one (max) holds both "
       "copies while it is copied. Has paid: the step at which "
       "bytes held x bytes touched, summed from the first rewrite "
       "on, is no more than with masks (sparse); times are not in "
       "it, memory is taken for what bounds them. At the budget "
       "of the maps above; at most 121 steps of a line.",
       .panels = {.panel = "panel",
                  .series = "series",
                  .x = "step",
                  .y = "bytes",
                  .across = {"tokens seen", 0, 0, false, false},
                  .up = {"bytes held", 0, 0, false, false},
                  .apart = true,
                  .bare = true,
                  .title = "Bytes held at each step"},
       .unlinked = true}};
  return kv_figures_draw(p, sizeof figures / sizeof *figures, figures);
}

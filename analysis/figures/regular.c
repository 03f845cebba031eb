/* SPDX-License-Identifier: Apache-2.0
 *
 * Regular indices (kvreplay run --layout base, ls, la, hs, ha): how full lanes
 * are, and memory against time with the step at which a rewrite has paid.
 * Nothing where no such layout was asked for.
 */
#include "analysis/figures/figures.h"
#include "analysis/page/strip.h"

#include <string.h>

enum { LAYOUTS = 9 };
static const char *const layout[LAYOUTS] = {
    "base",      "ls:sparse", "ls:max",    "la:sparse", "la:max",
    "hs:sparse", "hs:max",    "ha:sparse", "ha:max"};

static int layout_of(const kv_grid *g, int r) {
  for (int i = 0; i < LAYOUTS; i++)
    if (!strcmp(layout[i], kv_grid_text(g, r, "layout"))) return i;
  return -1;
}

/* --- how full lanes are --------------------------------------------------- */

/* The rows of the grid from r on that are one cell's: a bar, and a mark for
 * each layout. */
static int add_cell(const kv_grid *g, int r, kv_strip *s) {
  const char *method = kv_grid_text(g, r, "method");
  int cut = kv_text_cut(method, KV_STRIP_METHOD);
  int end = kv_grid_end(g, r, "method asked basis");
  double full = kv_grid_number(g, r, "utilisation");
  kv_strip_row *row = &s->row[s->rows];
  kv_strip_item *bar = &s->item[s->n++];
  kv_strip_name(g, r, s);
  snprintf(row->note, sizeof row->note, "%.1f%% of %.1f%%",
           100 * kv_grid_number(g, r, "overall"),
           100 * kv_grid_number(g, r, "fullest"));
  *bar = (kv_strip_item){
      .row = s->rows, .series = LAYOUTS, .kind = KV_STRIP_BAR, .x1 = full};
  snprintf(bar->tip, sizeof bar->tip, "%.*s: utilisation %.3g%%", cut, method,
           100 * full);
  for (; r < end; r++) {
    int i = layout_of(g, r);
    if (i < 0) continue;
    double used = kv_grid_number(g, r, "used");
    kv_strip_item *mark = &s->item[s->n++];
    *mark = (kv_strip_item){.row = s->rows,
                            .series = i,
                            .x0 = used,
                            .solid = kv_grid_number(g, r, "confirmed") > 0};
    snprintf(mark->tip, sizeof mark->tip, "%.*s, %s: %.3g%% of slots used", cut,
             method, layout[i], 100 * used);
  }
  s->rows++;
  return end;
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
  legend(g, p->f);
  kv_strip_rows(&(kv_strip){.title = "How full lanes are",
                            .x = {"entries held, share", 0, 0, false, true},
                            .lines = &p->variants},
                g, 0, g->rows, 2, add_cell, p->f);
}

/* --- the figures ---------------------------------------------------------- */

const kv_figure kv_figures_regular[] = {
    {"utilised", "How full lanes are", KV_PICTURED("utilised"),
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
     .panels = KV_PANELS("step", "bytes", KV_LINEAR("tokens seen"),
                         KV_LINEAR("bytes held"), "Bytes held at each step",
                         .apart = true, .bare = true),
     .unlinked = true},
    {.id = NULL}};

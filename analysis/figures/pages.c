/* SPDX-License-Identifier: Apache-2.0
 *
 * Recall of the exact top-k against page size and budget: a map a method, page
 * sizes down, budgets across.
 */
#include "analysis/figures/figures.h"

static void draw(const kv_page *p, const kv_grid *g) {
  static const kv_maps maps = {.row = "page",
                               .column = "basis asked",
                               .order = "budget",
                               .value = "recall_budget",
                               .row_title = "page, tokens",
                               .column_title = "budget asked",
                               .wide = 60,
                               .high = 26,
                               .most_wide = 480,
                               .most_high = 300};
  for (int r = 0, end; r < g->rows; r = end) {
    end = kv_grid_end(g, r, "method");
    kv_map_show(g, &maps, r, end, kv_grid_text(g, r, "method"), p->f);
  }
}

const kv_figure kv_figures_pages[] = {
    {"pages", "Recall by page size", "SELECT * FROM pages",
     "Of the tokens with the largest exact scores, as many as "
     "the budget allows, the percentage that the method looks "
     "at: mean over layers, heads, decode steps and traces. "
     "Page sizes down, budgets across; the darker, the better. "
     "A sweep as -m quest:page=8,quest:page=16,quest:page=32 "
     "fills more rows.",
     .draw = draw, .group = "small"},
    {.id = NULL}};

/* SPDX-License-Identifier: Apache-2.0
 *
 * The needle map: mass kept on a needle, by its depth and the prompt's length,
 * a map a method, all with the same sides. Nothing where no two depths and two
 * lengths are there.
 */
#include "analysis/figures/figures.h"

static void draw(const kv_page *p, const kv_grid *g) {
  static const kv_maps maps = {.row = "depth",
                               .column = "length",
                               .value = "needle_share",
                               .row_title = "depth, %",
                               .column_title = "prompt, tokens",
                               .wide = 50,
                               .high = 20,
                               .most_wide = 300,
                               .most_high = 300};
  for (int r = 0, end; r < g->rows; r = end) {
    kv_map m;
    end = kv_grid_end(g, r, "method");
    if (!kv_map_find(g, &maps, 0, g->rows, r, end, &m)) return;
    kv_map_draw(&m, kv_grid_text(g, r, "method"), p->f);
    kv_map_free(&m);
  }
}

const kv_figure kv_figures_needles[] = {
    {"needles", "Needles by depth and length",
     KV_PICTURED("needles") " AND (SELECT count(DISTINCT depth) > 1 AND"
                            " count(DISTINCT length) > 1 FROM needles)",
     "Attention mass on the needle in percent of what dense "
     "attention puts there, mean over layers, heads, the "
     "answer's steps and traces. Depth: how much of the prompt "
     "stands before it. The darker, the better; beyond 100 a "
     "method that dropped other tokens gives their mass to the "
     "needle. At the budget of the maps above.",
     .draw = draw, .group = "small maps"},
    {.id = NULL}};

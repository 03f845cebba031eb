/* SPDX-License-Identifier: Apache-2.0
 *
 * After Hard-KV's paper: what shares of the probability select (kvreplay
 * selection), its figures 2, 3, 17 and 19; and drift, its figures 20 and 21.
 * Each is nothing where no such rows are.
 */
#include "analysis/figures/figures.h"

#include <math.h>

enum {
  MAPS = 24, /* that are drawn; the data have all */
  MANY = 32  /* columns of a map of tokens, whose shares are small */
};

/* Of many columns a share is small, and shaded by its square root beside that
 * of the largest, which is returned. */
static double shade(kv_map *m) {
  double most = 0;
  int n = m->rows * m->columns;
  for (int i = 0; i < n; i++)
    if (m->value[i] > most) most = m->value[i];
  for (int i = 0; i < n && m->columns > MANY && most > 0; i++)
    m->value[i] = sqrt(m->value[i] / most);
  return most;
}

static void draw_map(const kv_page *p, const kv_grid *g, int first, int end,
                     const kv_maps *how) {
  char title[320], darkest[40] = "";
  const char *trace = kv_grid_text(g, first, "trace");
  kv_map m;
  if (!kv_map_find(g, how, first, end, first, end, &m)) return;
  double most = shade(&m);
  if (m.columns > MANY)
    snprintf(darkest, sizeof darkest, ", up to %.0f %%", 100 * most);
  snprintf(title, sizeof title, "%.*s, %.20s, %.20s%s", kv_text_cut(trace, 200),
           trace, kv_grid_text(g, first, "adapter"),
           kv_grid_text(g, first, "part"), darkest);
  kv_map_draw(&m, title, p->f);
  kv_map_free(&m);
}

static void draw_maps(const kv_page *p, const kv_grid *g, const kv_maps *how) {
  for (int r = 0, n = 0, end; r < g->rows && n < MAPS; r = end, n++) {
    end = kv_grid_end(g, r, "trace adapter part");
    draw_map(p, g, r, end, how);
  }
}

#define MAPS_OF(down, across, down_title, across_title)                        \
  {                                                                            \
    .row = down, .column = across, .value = "share", .row_title = down_title,  \
    .column_title = across_title, .wide = 7, .high = 20, .least_wide = 150,    \
    .most_wide = HUGE_VAL, .most_high = 260                                    \
  }

static void draw_stacked(const kv_page *p, const kv_grid *g) {
  static const kv_maps how =
      MAPS_OF("token", "bin", "token of the row", "64th of the trace");
  draw_maps(p, g, &how);
}

static void draw_shares(const kv_page *p, const kv_grid *g) {
  static const kv_maps how = MAPS_OF("layer", "head", "layer", "KV head");
  draw_maps(p, g, &how);
}

const kv_figure kv_figures_selection[] = {
    {"drifts", "Drift of the log-sum-exp", "SELECT * FROM drifts",
     "What the log-sum-exp of the stored tokens lacks of that of all, summed "
     "over the steps since the prompt, mean over layers and query heads: the "
     "further down, the more of the softmax's denominator is gone. Who only "
     "drops never rises; how much of it merging holds is the distance to a "
     "line that drops. Tokens behind a mask are stored. At the budget of the "
     "maps above; at most 121 steps of a line.",
     .panels = KV_PANELS("step", "drift", KV_LINEAR("tokens seen"),
                         KV_LINEAR("sum of LSE(stored) - LSE(all), nats"),
                         "Drift", .apart = true, .bare = true)},
    {"merging", "What merging does to the drift", "SELECT * FROM merging",
     "The drift with condensed=merge less that without, of runs that differ in "
     "nothing else: above 0 merging holds what dropping loses, below 0 it "
     "loses "
     "more. A merged pair's logit is a mean, so for the queries that gave its "
     "weights the sum falls at least as much as by dropping the smaller one.",
     .panels = KV_PANELS("step", "added", KV_LINEAR("tokens seen"),
                         KV_LINEAR("drift with merging - without, nats"),
                         "Merging and drift", .apart = true, .bare = true)},
    {"collapse", "Tokens that a share of the probability selects",
     "SELECT * FROM collapse WHERE share = 90",
     "Tokens that hold 90 % of the probability of a row, mean over layers and "
     "KV heads: as attention sees it, and as adapters do, at temperature 1 "
     "(as it is) and at the one at which as many tokens hold as much as in "
     "attention itself (calibrated). The data have the least and the most, "
     "and 60 %.",
     .panels = KV_PANELS("token", "tokens", KV_LINEAR("token of the row"),
                         KV_LOG("tokens selected"), "Tokens selected",
                         .apart = true)},
    {"temperatures", "Temperatures", "SELECT * FROM temperatures",
     "The temperature that calibration finds for a row, by bisection, mean "
     "over layers and KV heads; the data have the least and the most. 0.001 "
     "and 1,000 are where the search ends.",
     .panels = KV_PANELS("token", "temperature", KV_LINEAR("token of the row"),
                         KV_LOG("temperature"), "Temperatures", .apart = true)},
    {"densities", "Log-sum-exp and tokens selected", "SELECT * FROM densities",
     "Rows by the log-sum-exp of their logits and by how many tokens hold 60 "
     "% of the probability, means over layers and KV heads.",
     .panels = KV_PANELS("lse", "tokens",
                         KV_LINEAR("log-sum-exp of the logits, nats"),
                         KV_LOG("tokens selected"),
                         "Log-sum-exp and tokens selected", .apart = true)},
    {"stacked", "Selection maps of all KV heads", "SELECT * FROM stacked",
     "What rows select, calibrated, the maps of all layers and KV heads on top "
     "of each other: percent of the tokens in a 64th of the trace, down the "
     "rows that were looked at. The shade is the square root of the share of "
     "the most that the map has, which its title says. P60: what 60 % of the "
     "probability selects; P90 - P60: what 90 % adds. Columns are tokens that "
     "stay, diagonals what is near.",
     .draw = draw_stacked, .group = "small two"},
    {"shares", "Share of tokens selected by head", "SELECT * FROM shares",
     "Percent of the tokens that a row sees which hold 60 % of its "
     "probability, and which 90 % adds, calibrated, mean over rows: what a "
     "head asks for differs, so one budget fits few.",
     .draw = draw_shares, .group = "small two"},
    {.id = NULL}};

/* SPDX-License-Identifier: Apache-2.0
 *
 * After Hard-KV's paper: what shares of the probability select (kvreplay
 * selection), its figures 2, 3, 17 and 19; and drift, its figures 20 and 21.
 * Each is nothing where no such rows are.
 */
#include "analysis/database/say.h"
#include "analysis/figures/figures.h"
#include "analysis/page/heat.h"
#include "analysis/page/panels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  MAPS = 24, /* that are drawn; the data have all */
  MANY = 32  /* columns of a map of tokens, whose shares are small */
};

static const kv_figure lines[] = {
    {"drifts", "Drift of the log-sum-exp", "SELECT * FROM drifts",
     "What the log-sum-exp of the stored tokens lacks of that of all, summed "
     "over the steps since the prompt, mean over layers and query heads: the "
     "further down, the more of the softmax's denominator is gone. Who only "
     "drops never rises; how much of it merging holds is the distance to a "
     "line that drops. Tokens behind a mask are stored. At the budget of the "
     "maps above; at most 121 steps of a line.",
     .panels = {.panel = "panel",
                .series = "series",
                .x = "step",
                .y = "drift",
                .across = {"tokens seen", 0, 0, false, false},
                .up = {"sum of LSE(stored) - LSE(all), nats", 0, 0, false,
                       false},
                .apart = true,
                .bare = true,
                .title = "Drift"}},
    {"merging", "What merging does to the drift", "SELECT * FROM merging",
     "The drift with condensed=merge less that without, of runs that differ in "
     "nothing else: above 0 merging holds what dropping loses, below 0 it "
     "loses "
     "more. A merged pair's logit is a mean, so for the queries that gave its "
     "weights the sum falls at least as much as by dropping the smaller one.",
     .panels = {.panel = "panel",
                .series = "series",
                .x = "step",
                .y = "added",
                .across = {"tokens seen", 0, 0, false, false},
                .up = {"drift with merging - without, nats", 0, 0, false,
                       false},
                .apart = true,
                .bare = true,
                .title = "Merging and drift"}},
    {"collapse", "Tokens that a share of the probability selects",
     "SELECT * FROM collapse WHERE share = 90",
     "Tokens that hold 90 % of the probability of a row, mean over layers and "
     "KV heads: as attention sees it, and as adapters do, at temperature 1 "
     "(as it is) and at the one at which as many tokens hold as much as in "
     "attention itself (calibrated). The data have the least and the most, "
     "and 60 %.",
     .panels = {.panel = "panel",
                .series = "series",
                .x = "token",
                .y = "tokens",
                .across = {"token of the row", 0, 0, false, false},
                .up = {"tokens selected", 0, 0, true, false},
                .apart = true,
                .title = "Tokens selected"}},
    {"temperatures", "Temperatures", "SELECT * FROM temperatures",
     "The temperature that calibration finds for a row, by bisection, mean "
     "over layers and KV heads; the data have the least and the most. 0.001 "
     "and 1,000 are where the search ends.",
     .panels = {.panel = "panel",
                .series = "series",
                .x = "token",
                .y = "temperature",
                .across = {"token of the row", 0, 0, false, false},
                .up = {"temperature", 0, 0, true, false},
                .apart = true,
                .title = "Temperatures"}},
    {"densities", "Log-sum-exp and tokens selected", "SELECT * FROM densities",
     "Rows by the log-sum-exp of their logits and by how many tokens hold 60 "
     "% of the probability, means over layers and KV heads.",
     .panels = {
         .panel = "panel",
         .series = "series",
         .x = "lse",
         .y = "tokens",
         .across = {"log-sum-exp of the logits, nats", 0, 0, false, false},
         .up = {"tokens selected", 0, 0, true, false},
         .apart = true,
         .title = "Log-sum-exp and tokens selected"}}};

/* --- maps ----------------------------------------------------------------- */

/* Rows first.. of the grid, `columns` of them a row of the map. */
typedef struct sheet {
  const kv_grid *g;
  int first, rows, columns;
  const char *row, *column; /* of the grid, whose values name the sides */
} sheet;

static bool same(const kv_grid *g, int a, int b, const char *name) {
  return !strcmp(kv_grid_text(g, a, name), kv_grid_text(g, b, name));
}

static sheet find_sheet(const kv_grid *g, int first, const char *row,
                        const char *column) {
  sheet s = {g, first, 0, 0, row, column};
  int r = first;
  for (; r < g->rows && same(g, first, r, "trace") &&
         same(g, first, r, "adapter") && same(g, first, r, "part");
       r++)
    s.columns += same(g, first, r, row);
  s.rows = (r - first) / s.columns;
  return s;
}

static const char *row_name(const void *self, int i) {
  const sheet *s = self;
  return kv_grid_text(s->g, s->first + i * s->columns, s->row);
}

static const char *column_name(const void *self, int i) {
  const sheet *s = self;
  return kv_grid_text(s->g, s->first + i, s->column);
}

/* Of many columns a share is small, and shaded by its square root beside that
 * of the largest, which is returned. */
static double shade(const sheet *s, double *value) {
  double most = 0;
  int n = s->rows * s->columns;
  for (int i = 0; i < n; i++) {
    value[i] = kv_grid_number(s->g, s->first + i, "share");
    if (value[i] > most) most = value[i];
  }
  for (int i = 0; i < n && s->columns > MANY && most > 0; i++)
    value[i] = sqrt(value[i] / most);
  return most;
}

static void draw_sheet(const kv_page *p, const sheet *s, const char *row,
                       const char *column) {
  size_t n = (size_t)s->rows * (size_t)s->columns;
  double *value = calloc(n + 1, sizeof *value), most;
  char title[320], darkest[40] = "";
  kv_heat h = {title,
               s->rows,
               s->columns,
               value,
               row,
               column,
               row_name,
               column_name,
               s,
               fmax(150, 7. * s->columns),
               fmin(260, 20. * s->rows)};
  if (!value) {
    kv_tell_short();
    return;
  }
  const char *trace = kv_grid_text(s->g, s->first, "trace");
  most = shade(s, value);
  if (s->columns > MANY)
    snprintf(darkest, sizeof darkest, ", up to %.0f %%", 100 * most);
  snprintf(title, sizeof title, "%.*s, %.20s, %.20s%s", kv_text_cut(trace, 200),
           trace, kv_grid_text(s->g, s->first, "adapter"),
           kv_grid_text(s->g, s->first, "part"), darkest);
  kv_heat_titled(&h, title, p->f);
  free(value);
}

typedef struct map {
  const char *id, *title, *ask, *caption;
  const char *row, *column;             /* of the grid */
  const char *row_title, *column_title; /* on the page */
} map;

static const map maps[] = {
    {"stacked", "Selection maps of all KV heads", "SELECT * FROM stacked",
     "What rows select, calibrated, the maps of all layers and KV heads on top "
     "of each other: percent of the tokens in a 64th of the trace, down the "
     "rows that were looked at. The shade is the square root of the share of "
     "the most that the map has, which its title says. P60: what 60 % of the "
     "probability selects; P90 - P60: what 90 % adds. Columns are tokens that "
     "stay, diagonals what is "
     "near.",
     "token", "bin", "token of the row", "64th of the trace"},
    {"shares", "Share of tokens selected by head", "SELECT * FROM shares",
     "Percent of the tokens that a row sees which hold 60 % of its "
     "probability, and which 90 % adds, calibrated, mean over rows: what a "
     "head asks for differs, so one budget fits few.",
     "layer", "head", "layer", "KV head"}};

static int draw_maps(const kv_page *p, const map *m) {
  kv_grid g;
  int rc = kv_grid_ask(p->db, m->ask, 0, NULL, &g);
  if (rc) return rc;
  if (g.rows) {
    fprintf(p->f,
            "<h2 id=\"%s\">%s</h2>\n<figure>\n<div class=\"small two\">\n",
            m->id, m->title);
    for (int r = 0, n = 0; r < g.rows && n < MAPS; n++) {
      sheet s = find_sheet(&g, r, m->row, m->column);
      draw_sheet(p, &s, m->row_title, m->column_title);
      r += s.rows * s.columns;
    }
    fputs("</div>\n", p->f);
    kv_page_caption(p, m->caption, m->id, &g);
    fputs("</figure>\n", p->f);
  }
  kv_grid_free(&g);
  return rc;
}

int kv_page_selection(const kv_page *p) {
  int rc = kv_figures_draw(p, sizeof lines / sizeof *lines, lines);
  for (size_t i = 0; i < sizeof maps / sizeof *maps && !rc; i++)
    rc = draw_maps(p, &maps[i]);
  return rc;
}

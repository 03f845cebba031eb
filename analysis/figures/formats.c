/* SPDX-License-Identifier: Apache-2.0
 *
 * How many bits, where, and of how many tokens: three figures after those of
 * LeanKV's paper. Nothing where the rows that one compares were not run.
 */
#include "analysis/database/say.h"
#include "analysis/figures/figures.h"
#include "analysis/page/panels.h"
#include "analysis/page/strip.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 76 }; /* of a method, cut */

/* --- bits for keys against bits for values -------------------------------- */

/* Row r: a point each way, and a line between them. */
static void mirror_row(const kv_grid *g, int r, kv_strip_row *row,
                       kv_strip_item *item) {
  static const char *const error[2] = {"output_error", "mirror_error"};
  static const char *const pair[2] = {"pair", "mirror"};
  static const char *const bytes[2] = {"kr", "mirror_kr"};
  const char *method = kv_grid_text(g, r, "method");
  const char *asked = kv_grid_text(g, r, "asked");
  double x[2];
  for (int i = 0; i < 2; i++) {
    x[i] = kv_grid_number(g, r, error[i]);
    item[i] = (kv_strip_item){.row = r,
                              .series = i,
                              .x0 = x[i],
                              .solid = kv_grid_number(g, r, "confirmed") > 0};
    snprintf(item[i].tip, sizeof item[i].tip,
             "%.*s %s: output error %.3g at %.3g%% of dense's bytes",
             kv_text_cut(method, NAME), method, kv_grid_text(g, r, pair[i]),
             x[i], 100 * kv_grid_number(g, r, bytes[i]));
  }
  item[2] =
      (kv_strip_item){.row = r, .kind = KV_STRIP_LINE, .x0 = x[0], .x1 = x[1]};
  snprintf(row->name, sizeof row->name, "%.*s%s%.*s, %s and %s",
           kv_text_cut(method, NAME), method, *asked ? " at " : "",
           kv_text_cut(asked, 20), asked, kv_grid_text(g, r, "pair"),
           kv_grid_text(g, r, "mirror"));
  snprintf(row->note, sizeof row->note, "%.3g, %.3g", x[0], x[1]);
}

static void draw_mirrors(const kv_page *p, const kv_grid *g) {
  static char *names[2] = {"more bits for keys", "more bits for values"};
  const kv_variants v = {.n = 2, .label = names};
  size_t n = (size_t)g->rows;
  kv_strip_row *row = calloc(n, sizeof *row);
  kv_strip_item *item = calloc(3 * n, sizeof *item);
  kv_strip s = {.title = "Output error of formats and their mirrors",
                .text = "The data are in the file below.",
                .x = {"output error", 0, 0, true, false},
                .rows = g->rows,
                .n = 3 * g->rows,
                .row = row,
                .item = item};
  for (int r = 0; row && item && r < g->rows; r++)
    mirror_row(g, r, &row[r], &item[3 * r]);
  if (row && item) {
    kv_plot_legend(&v, p->f);
    kv_strip_write(&s, p->f);
  } else {
    kv_tell_short();
  }
  free(row);
  free(item);
}

int kv_page_formats(const kv_page *p) {
  static const kv_figure figures[] = {
      {"mirrors", "Bits for keys or for values",
       "SELECT * FROM mirrors WHERE asked = '' OR (basis,"
       " asked) = (SELECT basis, asked FROM pictured)",
       "The same number of bits, given to keys or to values: "
       "K8V4 holds keys in 8 bits and values in 4, K4V8 the other "
       "way round. Output error, mean over layers, heads, decode "
       "steps and traces, logarithmic, at the right in the order "
       "of the row's name; what lies further left is "
       "the better use of the same bytes for this measure."
       " Wrong values enter an output as they are, wrong keys by "
       "what they make of the probabilities.",
       .draw = draw_mirrors},
      {"pruning", "Fewer bits, fewer tokens, or both", "SELECT * FROM pruning",
       "Output error against bytes stored, everything charged, as a share of "
       "the dense cache at the same step: every token in 8 bits (int8), fewer "
       "tokens as they came, and fewer tokens in 8 bits. Means over layers, "
       "heads, decode steps and traces; both axes logarithmic, lower and "
       "further left is better. A plot a method.",
       .panels = {.panel = "method",
                  .series = "series",
                  .x = "kr",
                  .y = "output_error",
                  .across = {"bytes stored, share of dense", 0, 0, true, true},
                  .up = {"output error", 0, 0, true, false},
                  .title = "Output error against bytes"}},
      {"sparsity", "Tokens by head, by layer, or as many in all",
       "SELECT * FROM sparsity",
       "Output error of leankv against the share of all tokens that it has "
       "dropped by the end, mean over layers, heads, decode steps and traces; "
       "the error is logarithmic. head: thresholds decide in each head; layer: "
       "the heads of a layer share what the thresholds allow on average; "
       "static: every head of every layer holds the same number. Lower is "
       "better.",
       .panels = {.panel = "alike",
                  .series = "sparsity",
                  .x = "dropped",
                  .y = "output_error",
                  .across = {"tokens dropped", 0, 0, false, true},
                  .up = {"output error", 0, 0, true, false},
                  .title = "Output error against tokens dropped"}}};
  return kv_figures_draw(p, sizeof figures / sizeof *figures, figures);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * How many bits, where, and of how many tokens: three figures after those of
 * LeanKV's paper. Nothing where the rows that one compares were not run.
 */
#include "analysis/figures/figures.h"
#include "analysis/page/strip.h"

#include <math.h>
#include <string.h>

/* --- bits for keys against bits for values -------------------------------- */

/* A point each way, and a line between them. */
static int add_mirror(const kv_grid *g, int r, kv_strip *s) {
  static const char *const error[2] = {"output_error", "mirror_error"};
  static const char *const pair[2] = {"pair", "mirror"};
  static const char *const bytes[2] = {"kr", "mirror_kr"};
  const char *method = kv_grid_text(g, r, "method");
  kv_strip_row *row = &s->row[s->rows];
  kv_strip_item *item = &s->item[s->n];
  double x[2];
  for (int i = 0; i < 2; i++) {
    x[i] = kv_grid_number(g, r, error[i]);
    item[i] = (kv_strip_item){.row = s->rows,
                              .series = i,
                              .x0 = x[i],
                              .solid = kv_grid_number(g, r, "confirmed") > 0};
    snprintf(item[i].tip, sizeof item[i].tip,
             "%.*s %s: output error %.3g at %.3g%% of dense's bytes",
             kv_text_cut(method, KV_STRIP_METHOD), method,
             kv_grid_text(g, r, pair[i]), x[i],
             100 * kv_grid_number(g, r, bytes[i]));
  }
  item[2] = (kv_strip_item){
      .row = s->rows, .kind = KV_STRIP_LINE, .x0 = x[0], .x1 = x[1]};
  kv_strip_name(g, r, s);
  size_t n = strlen(row->name);
  snprintf(row->name + n, sizeof row->name - n, ", %s and %s",
           kv_grid_text(g, r, "pair"), kv_grid_text(g, r, "mirror"));
  snprintf(row->note, sizeof row->note, "%.3g, %.3g", x[0], x[1]);
  s->n += 3;
  s->rows++;
  return r + 1;
}

static void draw_mirrors(const kv_page *p, const kv_grid *g) {
  static char *names[2] = {"more bits for keys", "more bits for values"};
  kv_plot_legend(&(kv_variants){.n = 2, .label = names}, p->f);
  kv_strip_rows(
      &(kv_strip){.title = "Output error of formats and their mirrors",
                  .x = {"output error", 0, 0, true, false},
                  .lines = &p->variants},
      g, 0, g->rows, 3, add_mirror, p->f);
}

const kv_figure kv_figures_formats[] = {
    {"mirrors", "Bits for keys or for values", KV_PICTURED("mirrors"),
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
     .panels = KV_PANELS("kr", "output_error",
                         KV_LOG_SHARE("bytes stored, share of dense"),
                         KV_LOG("output error"), "Output error against bytes",
                         .panel = "method")},
    {"sparsity", "Tokens by head, by layer, or as many in all",
     "SELECT * FROM sparsity",
     "Output error of leankv against the share of all tokens that it has "
     "dropped by the end, mean over layers, heads, decode steps and traces; "
     "the error is logarithmic. head: thresholds decide in each head; layer: "
     "the heads of a layer share what the thresholds allow on average; "
     "static: every head of every layer holds the same number. Lower is "
     "better.",
     .panels = KV_PANELS("dropped", "output_error", KV_SHARE("tokens dropped"),
                         KV_LOG("output error"),
                         "Output error against tokens dropped",
                         .panel = "alike", .series = "sparsity")},
    {.id = NULL}};

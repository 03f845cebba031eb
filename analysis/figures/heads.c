/* SPDX-License-Identifier: Apache-2.0
 *
 * What each layer and KV head keeps: a small map a method, of traces of one
 * shape, at the budget that most were asked for.
 */
#include "analysis/figures/figures.h"

#include <math.h>

static const kv_maps maps = {.row = "layer",
                             .column = "head",
                             .value = "share",
                             .row_title = "layer",
                             .column_title = "KV head",
                             .high = 20,
                             .least_wide = 150,
                             .most_high = 260};

/* Rows that are one map. */
static int end_of(const kv_grid *g, int first) {
  return kv_grid_end(g, first, KV_SHAPE " method asked");
}

/* No two of its squares show different percents. */
static bool flat(const kv_grid *g, int first, int end) {
  double lo = HUGE_VAL, hi = -HUGE_VAL;
  for (int r = first; r < end; r++) {
    lo = fmin(lo, kv_grid_number(g, r, "share"));
    hi = fmax(hi, kv_grid_number(g, r, "share"));
  }
  return rint(100 * lo) == rint(100 * hi);
}

/* The maps of one shape that have something to see, then the others' one
 * number each; returns the first row of the next shape. */
static int draw_shape(const kv_page *p, const kv_grid *g, int first) {
  int end = kv_grid_end(g, first, KV_SHAPE), even = 0;
  kv_page_shape(p, g, first);
  fputs("<div class=\"small maps\">\n", p->f);
  for (int r = first; r < end; r = end_of(g, r))
    if (!flat(g, r, end_of(g, r)))
      kv_map_show(g, &maps, r, end_of(g, r), kv_grid_text(g, r, "method"),
                  p->f);
  fputs("</div>\n<p class=\"soft\">Alike in all layers and heads, in percent:",
        p->f);
  for (int r = first; r < end; r = end_of(g, r)) {
    if (!flat(g, r, end_of(g, r))) continue;
    fputs(even++ ? ", " : " ", p->f);
    kv_text_html(kv_grid_text(g, r, "method"), p->f);
    fprintf(p->f, " %.0f", 100 * kv_grid_number(g, r, "share"));
  }
  fputs(even ? ".</p>\n" : " none.</p>\n", p->f);
  return end;
}

static int write_heads(const kv_page *p, const kv_figure *f) {
  (void)f;
  kv_grid g = {0}, at = {0};
  char text[512];
  int rc = kv_grid_ask(p->db, KV_PICTURED("heads"), 0, NULL, &g);
  if (!rc) rc = kv_grid_ask(p->db, "SELECT * FROM pictured", 0, NULL, &at);
  if (!rc && !g.rows)
    fputs("<p class=\"soft\">No cell has an answer on every trace of its "
          "shape.</p>\n",
          p->f);
  if (!rc && g.rows) {
    snprintf(text, sizeof text,
             "Entries that each KV head holds at the end, in percent of all "
             "tokens, mean over traces; the darker, the more. Budget asked: "
             "%.*s. Methods without a budget are shown as they are; those that "
             "retrieve keep everything.",
             40, at.rows ? kv_grid_text(&at, 0, "asked") : "none");
    fputs("<figure>\n", p->f);
    for (int r = 0; r < g.rows;) r = draw_shape(p, &g, r);
    kv_page_caption(p, text, "heads", &g);
    fputs("</figure>\n", p->f);
  }
  kv_grid_free(&at);
  kv_grid_free(&g);
  return rc;
}

const kv_figure kv_figures_heads[] = {
    {"heads", "Kept by layer and head", .write = write_heads}, {.id = NULL}};

/* SPDX-License-Identifier: Apache-2.0
 *
 * The error along decode: one plot for each budget that was asked for, mean
 * over the traces that have the bin. Methods without a budget are in each.
 */
#include "analysis/database/say.h"
#include "analysis/figures/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PANELS = 8 };

/* Distinct budgets asked for, in order of appearance; "" is in all. */
static int panels(const kv_grid *g, const char *name[PANELS]) {
  int n = 0;
  for (int r = 0; r < g->rows; r++) {
    const char *asked = kv_grid_text(g, r, "asked");
    int i = 0;
    while (i < n && strcmp(name[i], asked)) i++;
    if (*asked && i == n && n < PANELS) name[n++] = asked;
  }
  if (!n && g->rows) name[n++] = "";
  return n;
}

static double leading(const char *t) {
  while (*t && !strchr("0123456789.", *t)) t++;
  return strtod(t, NULL);
}

static int by_size(const void *a, const void *b) {
  double x = leading(*(char *const *)a), y = leading(*(char *const *)b);
  return x < y ? -1 : x > y;
}

/* Marks of one panel, a line after the other. */
static int gather(const kv_page *p, const kv_grid *g, const int *variant,
                  const char *asked, kv_mark *mark) {
  int n = 0;
  for (int r = 0; r < g->rows; r++) {
    const char *at = kv_grid_text(g, r, "asked");
    if ((*at && strcmp(at, asked)) || variant[r] < 0) continue;
    const char *label = p->variants.label[variant[r]];
    kv_mark *m = mark + n++;
    *m = (kv_mark){kv_grid_number(g, r, "progress"),
                   kv_grid_number(g, r, "output_error"), variant[r],
                   kv_grid_number(g, r, "confirmed") > 0, ""};
    snprintf(m->tip, sizeof m->tip,
             "%.*s, %.0f%% of decode: error %.3g, mean of traces: %.0f",
             kv_text_cut(label, 60), label, 100 * m->x, m->y,
             kv_grid_number(g, r, "traces"));
  }
  return n;
}

static void draw(const kv_page *p, const kv_grid *g, const int *variant,
                 kv_mark *mark) {
  const char *name[PANELS];
  kv_plot plot = {
      .width = 520, .height = 330, .variants = &p->variants, .mark = mark};
  int n = panels(g, name);
  qsort(name, (size_t)n, sizeof *name, by_size);
  plot.x = (kv_axis){"share of decode steps done", 0, 1, false, true};
  plot.y = (kv_axis){"output error", 0, 0, true, false};
  for (int r = 0; r < g->rows; r++)
    mark[r].y = kv_grid_number(g, r, "output_error");
  kv_axis_fit(&plot.y, g->rows, mark, true);
  plot.text = "Mean over traces; the data are in the file below.";
  fputs("<figure>\n", p->f);
  kv_page_legend(p);
  fputs("<div class=\"small two\">\n", p->f);
  plot.bare = g->rows > KV_PAGE_MOST;
  for (int i = 0; i < n; i++) {
    plot.n = gather(p, g, variant, name[i], mark);
    plot.title = name[i];
    fputs("<div><h3>budget asked: ", p->f);
    kv_text_html(*name[i] ? name[i] : "none", p->f);
    fputs("</h3>\n", p->f);
    kv_plot_write(&plot, p->f);
    fputs("</div>\n", p->f);
  }
  fputs("</div>\n", p->f);
  kv_page_caption(p,
                  "Output error in bins of decode steps, mean over layers, "
                  "heads and traces. A line that rises loses more the longer "
                  "it decodes.",
                  "along_mean", g);
  fputs("</figure>\n", p->f);
}

static int write_along(const kv_page *p, const kv_figure *f) {
  (void)f;
  kv_grid g;
  int rc = kv_grid_ask(
      p->db,
      "SELECT label AS method, asked, bin, count(*) AS traces,"
      " avg(progress) AS progress, avg(output_error) AS output_error,"
      " min(confirmed) AS confirmed, min(key) AS key"
      " FROM (SELECT label, asked, bin, avg(progress) AS progress,"
      " avg(output_error) AS output_error, min(confirmed) AS confirmed,"
      " min(key) AS key FROM along JOIN line USING (key, basis, asked)"
      " GROUP BY label, asked, bin, request, prompt_len, observe)"
      " GROUP BY label, asked, bin ORDER BY label, length(asked), asked, bin",
      0, NULL, &g);
  int *variant;
  kv_mark *mark;
  if (rc) return rc;
  variant = calloc((size_t)g.rows + 1, sizeof *variant);
  mark = calloc((size_t)g.rows + 1, sizeof *mark);
  for (int r = 0; variant && r < g.rows; r++) {
    bool again = r && !strcmp(kv_grid_text(&g, r, "method"),
                              kv_grid_text(&g, r - 1, "method"));
    variant[r] =
        again ? variant[r - 1] : kv_page_variant(p, kv_grid_text(&g, r, "key"));
  }
  if (!g.rows)
    fputs("<p class=\"soft\">No trace here has decode steps.</p>\n", p->f);
  else if (variant && mark)
    draw(p, &g, variant, mark);
  else
    kv_tell_short();
  free(variant);
  free(mark);
  kv_grid_free(&g);
  return rc;
}

const kv_figure kv_figures_along[] = {
    {"along", "Error along decode", .write = write_along}, {.id = NULL}};

/* SPDX-License-Identifier: Apache-2.0
 *
 * The gap: how much of the way from random to the ruler of its family a method
 * goes at the entries it attends (view `gap`). A row per method, a point per
 * cell. Where random or the ruler is missing there is no point, and the page
 * prints the commands that run them.
 */
#include "analysis/database/say.h"
#include "analysis/figures/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROW = 26, NAMES = 230, WIDTH = 1080 };

/* NaN is no number that an axis takes. */
static bool there(const kv_grid *g, int r) {
  static const kv_axis any = {"", 0, 0, false, false};
  return kv_axis_takes(&any, kv_grid_number(g, r, "gap"));
}

static int present(const kv_page *p, const kv_grid *g, int *row) {
  int n = 0;
  for (int i = 0; i < p->variants.n; i++) row[i] = -1;
  for (int r = 0; r < g->rows; r++) {
    int v = kv_page_variant(p, kv_grid_text(g, r, "key"));
    if (v >= 0 && there(g, r)) row[v] = 0;
  }
  for (int i = 0; i < p->variants.n; i++)
    if (!row[i]) row[i] = n++;
  return n;
}

static double place(const kv_axis *a, double x) {
  return NAMES + kv_axis_place(a, x) * (WIDTH - NAMES - 24);
}

static void frame(const kv_page *p, const kv_axis *a, int rows, int *row) {
  double tick[16], bottom = rows * ROW + 10;
  int n = kv_axis_ticks(a, tick);
  fprintf(p->f,
          "<div class=\"wide\"><svg viewBox=\"0 0 %d %.0f\" role=\"img\" "
          "aria-label=\"Gap to its ruler by method: 0 is random, 1 is the "
          "ruler. The data are in the file below.\">\n",
          WIDTH, bottom + 40);
  for (int i = 0; i < n; i++) {
    double x = place(a, tick[i]);
    bool mark = tick[i] == 0 || fabs(tick[i] - 1) < 1e-9;
    fprintf(p->f,
            "<path class=\"%s\" d=\"M%.1f,4V%.1f\"/><text class=\"t mid\" "
            "x=\"%.1f\" y=\"%.1f\">%.3g%s</text>\n",
            mark ? "zero" : "g", x, bottom, x, bottom + 16, tick[i],
            !mark          ? ""
            : tick[i] == 0 ? " random"
                           : " ruler");
  }
  for (int i = 0; i < p->variants.n; i++) {
    if (row[i] < 0) continue;
    fputs("<text class=\"r end", p->f);
    kv_look_line_class(kv_look_line(&p->variants, i).line, p->f);
    fprintf(p->f, "\" x=\"%d\" y=\"%d\">", NAMES - 14, row[i] * ROW + 22);
    kv_text_html(p->variants.label[i], p->f);
    fputs("</text>\n", p->f);
  }
}

/* What is left of the axis stands at its edge, with an arrow. */
static void mark(const kv_page *p, int line, bool solid, const kv_axis *a,
                 double gap, int row, const char *tip) {
  kv_look k = kv_look_line(&p->variants, line);
  double x = place(a, fmax(gap, a->lo)), y = row * ROW + 18;
  if (gap < a->lo) {
    fprintf(p->f, "<path class=\"k%d l", k.colour);
    kv_look_line_class(k.line, p->f);
    fprintf(p->f, "\" d=\"M%.1f,%.1fh-12m4,-3l-4,3l4,3\"/>\n", x, y);
  }
  kv_plot_mark(k, solid, x, y, 5, tip, p->f);
}

static void draw(const kv_page *p, const kv_grid *g, int *row) {
  kv_axis a = {"", 0, 1, false, false};
  int rows = present(p, g, row);
  double lo = 0, hi = 1;
  for (int r = 0; r < g->rows; r++)
    if (there(g, r)) {
      lo = fmin(lo, kv_grid_number(g, r, "gap"));
      hi = fmax(hi, kv_grid_number(g, r, "gap"));
    }
  a.lo = fmax(lo, -2) - .03;
  a.hi = hi + .03;
  {
    kv_mark ends[2] = {{.x = a.lo}, {.x = a.hi}};
    kv_axis_fit(&a, 2, ends, false);
  }
  frame(p, &a, rows, row);
  for (int r = 0; r < g->rows; r++) {
    int v = kv_page_variant(p, kv_grid_text(g, r, "key"));
    double gap = kv_grid_number(g, r, "gap");
    const char *asked = kv_grid_text(g, r, "asked");
    const char *trace = kv_grid_text(g, r, "trace");
    char tip[384];
    if (v < 0 || !there(g, r)) continue;
    snprintf(tip, sizeof tip,
             "%.*s at %.*s, %.*s: gap %.3g at %s entries attended (error "
             "%.3g; at budget %s: random %.3g, %s %.3g)",
             kv_text_cut(p->variants.label[v], 60), p->variants.label[v],
             kv_text_cut(asked, 20), asked, kv_text_cut(trace, 60), trace, gap,
             kv_grid_text(g, r, "equal_budget"),
             kv_grid_number(g, r, "output_error"),
             kv_grid_text(g, r, "reference_budget"),
             kv_grid_number(g, r, "random"), kv_grid_text(g, r, "ruler"),
             kv_grid_number(g, r, "oracle"));
    mark(p, v, kv_grid_number(g, r, "confirmed") > 0, &a, gap, row[v], tip);
  }
  fputs("</svg></div>\n", p->f);
}

/* oracle-topp has no budget: shares that attend few entries to nearly all, as
 * its place is between the two nearest. */
#define SHARES                                                                 \
  "oracle-topp:p=0.3,oracle-topp:p=0.5,oracle-topp:p=0.7,oracle-topp:p=0.8,"   \
  "oracle-topp:p=0.9,oracle-topp:p=0.95,oracle-topp:p=0.99"

/* The budgets at which random and the rulers would have to be run. */
static int missing(const kv_page *p) {
  kv_grid g;
  int rc =
      kv_grid_ask(p->db,
                  "SELECT file, seen, ruler, group_concat(equal_budget) AS"
                  " budgets FROM (SELECT DISTINCT coalesce(min(path), trace ||"
                  " '.safetensors') AS file, gap.observe AS seen, ruler,"
                  " equal_budget FROM gap JOIN"
                  " run USING (key) LEFT JOIN artefact a ON a.identity ="
                  " run.identity AND kind = 'trace' WHERE"
                  " equal_budget > 0 AND ruler IS NOT NULL AND random IS NULL"
                  " GROUP BY run.identity, seen, ruler, equal_budget ORDER BY"
                  " file, seen, ruler, equal_budget) GROUP BY file, seen,"
                  " ruler ORDER BY file, seen, ruler",
                  0, NULL, &g);
  if (rc || !g.rows) {
    if (!rc) kv_grid_free(&g);
    return rc;
  }
  fputs("<details><summary>Cells without a gap: random and their ruler were "
        "not run at the entries they attend, or one fewer. These commands fill "
        "them</summary>\n",
        p->f);
  for (int r = 0; r < g.rows; r++) {
    const char *ruler = kv_grid_text(&g, r, "ruler");
    fputs("<p><code>kvreplay run ", p->f);
    kv_text_shell_html(kv_grid_text(&g, r, "file"), p->f);
    if (strcmp(kv_grid_text(&g, r, "seen"), "recorded")) {
      fputs(" --observe ", p->f);
      kv_text_html(kv_grid_text(&g, r, "seen"), p->f);
    }
    fputs(" -m random,", p->f);
    fputs(strcmp(ruler, "oracle-topp") ? ruler : SHARES, p->f);
    fputs(" -b ", p->f);
    kv_text_html(kv_grid_text(&g, r, "budgets"), p->f);
    fputs(" --db ", p->f);
    kv_text_shell_html(p->path, p->f);
    fputs("</code></p>\n", p->f);
  }
  fputs("</details>\n", p->f);
  kv_grid_free(&g);
  return rc;
}

static int write_gap(const kv_page *p, const kv_figure *f) {
  (void)f;
  kv_grid g;
  int *row = calloc((size_t)p->variants.n + 1, sizeof *row), n = 0;
  int rc = kv_grid_ask(p->db, "SELECT * FROM gap", 0, NULL, &g);
  if (rc || !row) {
    if (!row) kv_tell_short();
    if (!rc) kv_grid_free(&g);
    free(row);
    return rc;
  }
  for (int r = 0; r < g.rows; r++) n += there(&g, r);
  fputs("<figure>\n", p->f);
  if (n)
    draw(p, &g, row);
  else
    fputs("<p class=\"soft\">No cell has random and its ruler beside it at "
          "the entries it attends, or one fewer.</p>\n",
          p->f);
  kv_page_caption(p,
                  "(random \xe2\x88\x92 x) / (random \xe2\x88\x92 ruler) "
                  "in mean output error, both run at the budget "
                  "that equals the mean entries x attends per query head and "
                  "step or, where that was not run, at one fewer: an evicting "
                  "method of budget B, random and oracle-evict too, attends "
                  "the token in hand "
                  "beside its B, and oracle-topk counts it in them. The ruler "
                  "is oracle-evict of cells that dropped or merged tokens, "
                  "which knows the decode steps to come; oracle-topk of those "
                  "that read some of what they store, and oracle-topp, "
                  "between its two nearest shares, where a share of the "
                  "probability says how many. All three are rulers by mass "
                  "(mass_gap in the file), so error may pass 1. "
                  "0: no better than chance; below 0: worse than chance, at "
                  "the left edge with an arrow where the axis ends before it.",
                  "gap", &g);
  rc = missing(p);
  fputs("</figure>\n", p->f);
  kv_grid_free(&g);
  free(row);
  return rc;
}

const kv_figure kv_figures_gap[] = {
    {"gap", "How far from random to the ruler", .write = write_gap},
    {.id = NULL}};

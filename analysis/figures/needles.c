/* SPDX-License-Identifier: Apache-2.0
 *
 * The needle map: mass kept on a needle, by its depth and the prompt's length,
 * a map a method. Nothing where no two depths and two lengths are there.
 */
#include "analysis/database/say.h"
#include "analysis/figures/figures.h"
#include "analysis/page/heat.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 64 }; /* depths and lengths that are drawn, at most */

/* Depths and lengths of all maps, ascending: rows of `sides` are one each. */
typedef struct frame {
  kv_grid depths, lengths;
} frame;

static const char *depth_name(const void *self, int i) {
  return kv_grid_text(&((const frame *)self)->depths, i, "at");
}

static const char *length_name(const void *self, int i) {
  return kv_grid_text(&((const frame *)self)->lengths, i, "at");
}

static int find(const kv_grid *side, double at) {
  for (int i = 0; i < side->rows; i++)
    if (kv_grid_number(side, i, "at") == at) return i;
  return -1;
}

/* Draws the map whose rows begin at `first`; returns the row after it. */
static int draw(const kv_page *p, const frame *at, const kv_grid *g,
                int first) {
  double value[SIDE * SIDE];
  const char *method = kv_grid_text(g, first, "method");
  int r = first, rows = at->depths.rows, columns = at->lengths.rows;
  kv_heat h = {method,
               rows,
               columns,
               value,
               "depth, %",
               "prompt, tokens",
               depth_name,
               length_name,
               at,
               fmin(300, 50. * columns),
               fmin(300, 20. * rows)};
  for (int i = 0; i < rows * columns; i++) value[i] = NAN;
  for (; r < g->rows && !strcmp(method, kv_grid_text(g, r, "method")); r++) {
    int y = find(&at->depths, kv_grid_number(g, r, "depth"));
    int x = find(&at->lengths, kv_grid_number(g, r, "length"));
    if (x >= 0 && y >= 0)
      value[y * columns + x] = kv_grid_number(g, r, "needle_share");
  }
  kv_heat_titled(&h, method, p->f);
  return r;
}

static int ask_side(const kv_page *p, const char *name, kv_grid *out) {
  char sql[128];
  snprintf(sql, sizeof sql,
           "SELECT DISTINCT %s AS at FROM needles ORDER BY 1 LIMIT %d", name,
           SIDE);
  return kv_grid_ask(p->db, sql, 0, NULL, out);
}

int kv_page_needles(const kv_page *p) {
  frame at = {0};
  kv_grid g = {0};
  int rc = ask_side(p, "depth", &at.depths);
  if (!rc) rc = ask_side(p, "length", &at.lengths);
  if (!rc)
    rc = kv_grid_ask(p->db,
                     "SELECT * FROM needles WHERE asked = '' OR (basis, asked)"
                     " = (SELECT basis, asked FROM pictured)",
                     0, NULL, &g);
  if (!rc && g.rows && at.depths.rows > 1 && at.lengths.rows > 1) {
    fputs("<h2 id=\"needles\">Needles by depth and length</h2>\n<figure>\n<div "
          "class=\"small maps\">\n",
          p->f);
    for (int r = 0; r < g.rows;) r = draw(p, &at, &g, r);
    fputs("</div>\n", p->f);
    kv_page_caption(p,
                    "Attention mass on the needle in percent of what dense "
                    "attention puts there, mean over layers, heads, the "
                    "answer's steps and traces. Depth: how much of the prompt "
                    "stands before it. The darker, the better; beyond 100 a "
                    "method that dropped other tokens gives their mass to the "
                    "needle. At the budget of the maps above.",
                    "needles", &g);
    fputs("</figure>\n", p->f);
  }
  kv_grid_free(&at.depths);
  kv_grid_free(&at.lengths);
  kv_grid_free(&g);
  return rc;
}

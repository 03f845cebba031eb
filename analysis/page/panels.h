/* SPDX-License-Identifier: Apache-2.0
 *
 * Small plots of a query's answer beside each other: a plot for each panel, a
 * line for each series, which looks the same in all of them.
 */
#ifndef KV_ANALYSIS_PANELS_H
#define KV_ANALYSIS_PANELS_H

#include "analysis/page/page.h"

typedef struct kv_panels {
  /* Columns of the grid: rows alike in `panel` are a plot, and stand
   * together; its heading is what that column says. */
  const char *panel, *series, *x, *y;
  kv_axis across, up; /* limits are found */
  bool apart;         /* limits of its own for each panel, not for all */
  bool bare;          /* no point is marked but the last of a line */
  const char *title;  /* for who cannot see it; before the panel's name */
} kv_panels;

/* The grid has columns asked and confirmed, too. Draws the names of the series
 * and the plots, without a figure around them. */
void kv_panels_draw(const kv_page *p, const kv_grid *g, const kv_panels *s);

/* A figure of panels with its section: of the rows that `ask` gives, nothing
 * where there are none. id names its file, too. */
typedef struct kv_figure {
  const char *id, *title, *ask, *caption;
  kv_panels panels;
} kv_figure;

int kv_figures_draw(const kv_page *p, size_t n, const kv_figure *figure);

#endif

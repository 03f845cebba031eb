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
  kv_axis across, up; /* names and scales; limits are found in the rows */
  bool apart;         /* limits of its own for each panel, not for all */
  bool bare;          /* no point is marked but the last of a line */
  const char *title;  /* for who cannot see it; before the panel's name */
} kv_panels;

/* Draws the rows of g into the page p: the names of the series, then the plots,
 * without a figure around them. Beside those that s names, g has the columns
 * `asked` and `confirmed`. Nothing is drawn where g has no rows. */
void kv_panels_draw(const kv_page *p, const kv_grid *g, const kv_panels *s);

/* A figure with a heading of its own: of panels, or drawn by its file. */
typedef struct kv_figure {
  const char *id;    /* of its place in the page, and of its file of numbers */
  const char *title; /* the heading */
  const char *ask;   /* SQL that gives the rows; none: no figure, no heading */
  const char *caption; /* below it */
  kv_panels panels;
  /* Draws g, which has rows, within the figure; NULL: its panels are drawn. */
  void (*draw)(const kv_page *p, const kv_grid *g);
  const char *group; /* class of what is around the drawing; NULL: nothing is */
  bool unlinked;     /* too many numbers to stand in the page as a file */
} kv_figure;

/* Draws n figures in their order. Returns an exit code
 * (analysis/database/say.h): KV_EXIT_OK, or what went wrong with a query, which
 * has been said. */
int kv_figures_draw(const kv_page *p, size_t n, const kv_figure *figure);

#endif

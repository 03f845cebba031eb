/* SPDX-License-Identifier: Apache-2.0
 *
 * A chart of rows along one axis, as inline SVG. Each row has a name at the
 * left, bars and points with thin lines between them, and its numbers at the
 * right. kv_strip_rows takes title, axis and a function that turns rows of a
 * query into rows of the chart.
 */
#ifndef KV_ANALYSIS_STRIP_H
#define KV_ANALYSIS_STRIP_H

#include "analysis/page/plot.h"

/* An item of a row, at numbers of the chart's axis. */
typedef struct kv_strip_item {
  int row;      /* its row, from 0 */
  kv_look look; /* its colour and mark; its line comes from the row */
  enum {
    KV_STRIP_POINT, /* a mark at x0 */
    KV_STRIP_BAR,   /* from x0 to x1 */
    KV_STRIP_LINE   /* from x0 to x1, thin, below the points */
  } kind;
  double x0, x1;
  bool solid;    /* a point: filled, as its run is confirmed */
  bool beyond;   /* its value is left of x0, where the axis ends */
  char tip[256]; /* text of a bar or a point on hover */
} kv_strip_item;

typedef struct kv_strip_row {
  char name[160], note[96]; /* at the left; its numbers, at the right */
  int line;                 /* kv_look.line; the row is hidden with that line */
} kv_strip_row;

/* A chart. title, x and lines are the caller's; kv_strip_rows fills in the
 * rest, zeroed before. */
typedef struct kv_strip {
  const char *title; /* the chart's text for screen readers */
  kv_axis x;         /* title and scale. Its limits are found in the items. They
                        include 0 on a linear axis, and hi if it is not 0; both
                        are marked */
  const kv_variants *lines; /* those of the page; NULL: rows are no methods */
  int rows, n;              /* so far */
  kv_strip_row *row;        /* [rows] only during kv_strip_rows */
  kv_strip_item *item;      /* [n] the same, in any order */
} kv_strip;

/* The caller's function: adds row r of g to the chart as s->row[s->rows] and
 * s->item[s->n], .., zeroed before, and counts them; returns the next row of g.
 * Or adds nothing and returns r + 1. */
typedef int kv_strip_add(const kv_grid *g, int r, kv_strip *s);

/* Draws rows first .. end - 1 of g. `add` makes one row from each, of at most
 * `most` items, or none. Without memory nothing is drawn, which is printed
 * (kv_tell_short). */
void kv_strip_rows(kv_strip *s, const kv_grid *g, int first, int end, int most,
                   kv_strip_add *add, FILE *f);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A chart of rows along one axis, as inline SVG: each row has a name at the
 * left, bars and points, thin lines that join or spread them, and its numbers
 * at the right. kv_strip_rows is given title, axis and a function that turns
 * rows of a query's answer into rows of the chart.
 */
#ifndef KV_ANALYSIS_STRIP_H
#define KV_ANALYSIS_STRIP_H

#include "analysis/page/plot.h"

/* Something drawn in a row, at numbers of the chart's axis. */
typedef struct kv_strip_item {
  int row;      /* its row, from 0 */
  kv_look look; /* its colour and mark; its line is the row's */
  enum {
    KV_STRIP_POINT, /* a mark at x0 */
    KV_STRIP_BAR,   /* from x0 to x1 */
    KV_STRIP_LINE   /* from x0 to x1, thin, below the points */
  } kind;
  double x0, x1;
  bool solid;    /* a point: confirmed, so filled */
  bool beyond;   /* it is further left than x0, where the axis ends */
  char tip[256]; /* what a bar or a point says when pointed at */
} kv_strip_item;

typedef struct kv_strip_row {
  char name[160], note[96]; /* at the left; its numbers, at the right end */
  int line;                 /* kv_look's: by which it is switched off */
} kv_strip_row;

/* A chart. title, x and lines are the caller's; the rest, zeroed before,
 * kv_strip_rows fills. */
typedef struct kv_strip {
  const char *title; /* for who cannot see it */
  kv_axis x;         /* title and scale; its limits are found in the items, and
                        include 0 where it is not logarithmic, and hi where it
                        is not 0: the two are marked */
  const kv_variants *lines; /* those of the page; NULL: rows are no methods */
  int rows, n;              /* so far */
  kv_strip_row *row;        /* [rows] during kv_strip_rows alone */
  kv_strip_item *item;      /* [n] the same, in any order */
} kv_strip;

/* Adds row r of g to the chart as s->row[s->rows] and s->item[s->n], .., zeroed
 * before, and counts them there; returns the row of g that comes next, or adds
 * nothing and returns r + 1. */
typedef int kv_strip_add(const kv_grid *g, int r, kv_strip *s);

/* Draws rows first .. end - 1 of g, for each of which `add` makes one row of at
 * most `most` items, or none. Without memory nothing is drawn, which is said
 * (kv_tell_short). */
void kv_strip_rows(kv_strip *s, const kv_grid *g, int first, int end, int most,
                   kv_strip_add *add, FILE *f);

#endif

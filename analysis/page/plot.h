/* SPDX-License-Identifier: Apache-2.0
 *
 * A scatter plot with one line per variant (analysis/tables/variants.h), as
 * inline SVG, and what other drawings share with it: looks of lines (looks.c)
 * and axes (axis.c). The colour says what the variant does, shape and dash tell
 * those of a colour apart, and it looks the same in every figure whose lines
 * all are variants of the page; colours are classes, so that the page's light
 * and dark sheets set them. To draw: fit the axes to the marks, kv_plot_write.
 * Errors of f are for kv_output_close to find. Lengths are in units of the
 * SVG's viewBox, about a pixel.
 */
#ifndef KV_ANALYSIS_PLOT_H
#define KV_ANALYSIS_PLOT_H

#include "analysis/tables/variants.h"

#include <stdio.h>

enum { KV_COLOURS = 8, KV_SHAPES = 12 };

/* --- looks (looks.c) ------------------------------------------------------ */

/* Gives the lines of v their looks (v->look), by what the cells of g, the grid
 * that v was found in, say that they do; those that are in `before`, too, the
 * looks that they have there. False: no memory. */
bool kv_look_all(kv_variants *v, const kv_grid *g, const kv_variants *before);
/* How line number `line` of v looks; and how the n-th of things that are no
 * methods does. */
kv_look kv_look_line(const kv_variants *v, int line);
kv_look kv_look_number(int n);
/* Writes a small line with its mark, for tables. */
void kv_look_swatch(kv_look k, FILE *f);
/* Writes the class, a blank before it, of what goes when a line is switched
 * off: kv_look's line. Nothing for 0. */
void kv_look_line_class(int line, FILE *f);
/* Writes the shapes of marks, once a page, before the first mark. */
void kv_look_shapes(FILE *f);

/* --- marks and axes (axis.c) ---------------------------------------------- */

/* A point of a plot. */
typedef struct kv_mark {
  double x, y;
  int variant;   /* its line */
  bool solid;    /* confirmed, so filled */
  char tip[256]; /* what it says when pointed at */
} kv_mark;

typedef struct kv_axis {
  const char *title;
  double lo, hi; /* its limits, where a fit or the caller sets them */
  bool log;      /* logarithmic: takes numbers from 1e-30 on */
  bool percent;  /* numbers are shares and written as percent */
} kv_axis;

/* Sets limits around the x, or the y, of n marks: round numbers, or on a
 * logarithmic axis a little beyond; what the axis does not take is skipped. */
void kv_axis_fit(kv_axis *a, int n, const kv_mark *mark, bool is_y);
/* The same of a y axis for errors: where a few (a quarter at most) are above
 * ten times the median, they do not take the axis. True: some are beyond it. */
bool kv_axis_fit_most(kv_axis *a, int n, const kv_mark *mark);
/* Writes round numbers inside the limits to tick; returns how many, at most 16.
 */
int kv_axis_ticks(const kv_axis *a, double tick[16]);
/* True if the value can be drawn: finite, not beyond 1e30, and of a logarithmic
 * axis not below 1e-30. */
bool kv_axis_takes(const kv_axis *a, double value);
/* Where a value that it takes stands: 0 at lo, 1 at hi. */
double kv_axis_place(const kv_axis *a, double value);

/* --- the plot ------------------------------------------------------------- */

typedef struct kv_plot {
  const char *title, *text; /* both are for who cannot see it */
  double width, height;     /* of all of it */
  kv_axis x, y;             /* fitted */
  bool labels; /* names of lines, where there is room beside a mark that no
                  other beats in both x, the lower the better, and y */
  bool more;   /* y: the higher, the better; else the lower */
  bool cut;    /* what is above the y axis stands in a strip, with arrows */
  bool bare;   /* of a line only the last point is marked */
  int n;
  kv_mark *mark;               /* [n] */
  const kv_variants *variants; /* the lines, with their looks */
} kv_plot;

/* Writes the plot; sorts its marks by variant and x. */
void kv_plot_write(kv_plot *p, FILE *f);
/* Writes shapes, colours and names of all lines as a list. */
void kv_plot_legend(const kv_variants *v, FILE *f);
/* Writes one mark of radius r at x, y; tip: what it says when pointed at, or
 * "". */
void kv_plot_mark(kv_look k, bool solid, double x, double y, double r,
                  const char *tip, FILE *f);

#endif

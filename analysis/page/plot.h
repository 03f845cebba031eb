/* SPDX-License-Identifier: Apache-2.0
 *
 * A scatter plot with one line per variant (analysis/tables/variants.h), as
 * inline SVG, and what other drawings share with it: looks of lines (looks.c)
 * and axes (axis.c). The colour shows what the variant does; shape and dash
 * distinguish variants of one colour. A variant looks the same in every figure
 * whose lines are all variants of the page. Colours are classes, set by the
 * page's light and dark style sheets. To draw: fit the axes to the marks, then
 * kv_plot_write. kv_output_close finds errors of f. Lengths are in units of the
 * SVG's viewBox, about a pixel.
 */
#ifndef KV_ANALYSIS_PLOT_H
#define KV_ANALYSIS_PLOT_H

#include "analysis/tables/variants.h"

#include <stdio.h>

enum { KV_COLOURS = 8, KV_SHAPES = 12 };

/* --- looks (looks.c) ------------------------------------------------------ */

/* Sets the looks of the lines of v (v->look) by the cells of g, the grid in
 * which v was found. Lines that are also in `before` get their looks from
 * there. False: no memory. */
bool kv_look_all(kv_variants *v, const kv_grid *g, const kv_variants *before);
/* The look of line number `line` of v; and of the n-th line of no method. */
kv_look kv_look_line(const kv_variants *v, int line);
kv_look kv_look_number(int n);
/* Writes a small line with its mark, for tables. */
void kv_look_swatch(kv_look k, FILE *f);
/* Writes the class, with a blank before it, of an element that is hidden when a
 * line is switched off: kv_look's line. Nothing for 0. */
void kv_look_line_class(int line, FILE *f);
/* Writes the shapes of marks, once a page, before the first mark. */
void kv_look_shapes(FILE *f);

/* --- marks and axes (axis.c) ---------------------------------------------- */

/* A point of a plot. */
typedef struct kv_mark {
  double x, y;
  int variant;   /* its line */
  bool solid;    /* confirmed, so filled */
  char tip[256]; /* text on hover */
} kv_mark;

typedef struct kv_axis {
  const char *title;
  double lo, hi; /* limits, if set by a fit or the caller */
  bool log;      /* logarithmic: accepts numbers from 1e-30 on */
  bool percent;  /* numbers are shares, written as percent */
} kv_axis;

/* Sets limits around the x, or the y, of n marks: round numbers, or on a
 * logarithmic axis a little beyond. Skips what the axis does not accept. */
void kv_axis_fit(kv_axis *a, int n, const kv_mark *mark, bool is_y);
/* The same for a y axis of errors: if a few (at most a quarter) are above ten
 * times the median, the axis ends below them. True: some are beyond it. */
bool kv_axis_fit_most(kv_axis *a, int n, const kv_mark *mark);
/* Writes round numbers inside the limits to tick; returns how many. */
int kv_axis_ticks(const kv_axis *a, double tick[16]);
/* Can the value be drawn? It must be finite, not beyond 1e30, and on a
 * logarithmic axis at least 1e-30. */
bool kv_axis_takes(const kv_axis *a, double value);
/* The position of such a value: 0 at lo, 1 at hi. */
double kv_axis_place(const kv_axis *a, double value);

/* --- the plot ------------------------------------------------------------- */

typedef struct kv_plot {
  const char *title, *text; /* both for screen readers */
  double width, height;     /* of the whole plot */
  kv_axis x, y;             /* fitted */
  bool labels; /* names of lines, if there is space, at marks that no other
                  beats in both x, the lower the better, and y */
  bool more;   /* y: the higher, the better; else the lower */
  bool cut;    /* values above the y axis are in a strip, with arrows */
  bool bare;   /* only the last point of a line is marked */
  int n;
  kv_mark *mark;               /* [n] */
  const kv_variants *variants; /* the lines, with their looks */
} kv_plot;

/* Writes the plot; sorts its marks by variant and x. */
void kv_plot_write(kv_plot *p, FILE *f);
/* Writes shapes, colours and names of all lines as a list, folded if it is
 * long. */
void kv_plot_legend(const kv_variants *v, FILE *f);
/* Writes one mark of radius r at x, y; tip: its text on hover, or "". */
void kv_plot_mark(kv_look k, bool solid, double x, double y, double r,
                  const char *tip, FILE *f);

#endif

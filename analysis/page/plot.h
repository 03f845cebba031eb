/* SPDX-License-Identifier: Apache-2.0
 *
 * A scatter plot with one line per variant, as inline SVG. Colour, shape and
 * dash come from what the variant is (looks.c), so it looks the same in every
 * figure of the same variants; colours are classes, so that the page's light
 * and dark sheets set them.
 */
#ifndef KV_ANALYSIS_PLOT_H
#define KV_ANALYSIS_PLOT_H

#include "analysis/tables/variants.h"

#include <stdio.h>

enum { KV_COLOURS = 8, KV_SHAPES = 12 };

/* Gives lines their looks, by what the cells of g, those that v was found in,
 * say that they do. false: no memory. */
bool kv_look_all(kv_variants *v, const kv_grid *g);
/* How a line looks; how what is no line does. */
kv_look kv_look_line(const kv_variants *v, int line);
kv_look kv_look_number(int n);
/* Its line and mark, small. */
void kv_look_swatch(kv_look k, FILE *f);

typedef struct kv_mark {
  double x, y;
  int variant;
  bool solid;    /* confirmed */
  char tip[256]; /* what the pointer says */
} kv_mark;

typedef struct kv_axis {
  const char *title;
  double lo, hi;
  bool log, percent;
} kv_axis;

typedef struct kv_plot {
  const char *title, *text; /* text: for who cannot see it */
  double width, height;
  kv_axis x, y;
  bool labels; /* names beside what no other mark beats in x and y */
  bool more;   /* the higher, the better; else the lower */
  bool cut;    /* what is above the y axis stands in a strip, with arrows */
  bool bare;   /* of a line only the last point is marked */
  int n;
  kv_mark *mark;
  const kv_variants *variants;
} kv_plot;

/* Limits around the marks, rounded outwards; log axes skip what is <= 0. */
void kv_axis_fit(kv_axis *a, int n, const kv_mark *mark, bool is_y);
/* The same of a y axis for errors: where a few (a quarter at most) are above
 * ten times the median, they do not take the axis. True: some are beyond it. */
bool kv_axis_fit_most(kv_axis *a, int n, const kv_mark *mark);
/* Ticks inside the limits, at most 16. */
int kv_axis_ticks(const kv_axis *a, double tick[16]);
/* Can it be drawn at all? Beyond 30 powers of ten nothing can. */
bool kv_axis_takes(const kv_axis *a, double value);
/* 0 at lo, 1 at hi. */
double kv_axis_place(const kv_axis *a, double value);

/* Sorts the marks by variant and x. */
void kv_plot_write(kv_plot *p, FILE *f);
/* Shapes, colours and names of lines. */
void kv_plot_legend(const kv_variants *v, FILE *f);
/* One marker at a place. */
void kv_plot_mark(kv_look k, bool solid, double x, double y, double r,
                  const char *tip, FILE *f);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A scatter plot with one line per variant, as inline SVG. Colour, shape and
 * dash come from the variant's number, so a variant looks the same in every
 * figure; colours are classes, so that the page's light and dark sheets set
 * them.
 */
#ifndef KV_ANALYSIS_PLOT_H
#define KV_ANALYSIS_PLOT_H

#include "analysis/variants.h"

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
  bool labels; /* names beside the lines */
  bool bare;   /* of a line only the last point is marked */
  int n;
  kv_mark *mark;
  const kv_variants *variants;
} kv_plot;

/* Limits around the marks, rounded outwards; log axes skip what is <= 0. */
void kv_axis_fit(kv_axis *a, int n, const kv_mark *mark, bool is_y);
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
/* One marker of a variant at a place. */
void kv_plot_mark(int variant, bool solid, double x, double y, double r,
                  const char *tip, FILE *f);

#endif

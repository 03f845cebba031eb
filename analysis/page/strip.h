/* SPDX-License-Identifier: Apache-2.0
 *
 * A chart of rows along one axis, as inline SVG: each row has a name, bars and
 * points, thin lines that join or spread them, and its numbers at the end.
 */
#ifndef KV_ANALYSIS_STRIP_H
#define KV_ANALYSIS_STRIP_H

#include "analysis/page/plot.h"

typedef struct kv_strip_item {
  int row, series;
  enum {
    KV_STRIP_POINT, /* at x0 */
    KV_STRIP_BAR,   /* from x0 to x1 */
    KV_STRIP_LINE   /* the same, thin, below the points */
  } kind;
  double x0, x1;
  bool solid; /* a point: confirmed */
  char tip[256];
} kv_strip_item;

typedef struct kv_strip_row {
  char name[160], note[96]; /* note: its numbers, at the right end */
} kv_strip_row;

typedef struct kv_strip {
  const char *title, *text; /* for who cannot see it */
  kv_axis x;                /* limits are found, from 0 where it is not log */
  int rows, n;
  const kv_strip_row *row;
  const kv_strip_item *item;
} kv_strip;

void kv_strip_write(const kv_strip *s, FILE *f);

#endif

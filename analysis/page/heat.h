/* SPDX-License-Identifier: Apache-2.0
 *
 * A map of shares as inline SVG: rows times columns of shaded squares. A shade
 * is one of 21 steps from 0 (a faint tint; the page's own colour is where
 * nothing is) to 1, and neighbours of one shade in a row are one stroke, so
 * that a map of 64 by 64 takes some kilobytes; a map with room in its squares
 * has their percents written into it. Figures mostly make one of the rows that
 * SQL gave them, by analysis/page/maps.h.
 */
#ifndef KV_ANALYSIS_HEAT_H
#define KV_ANALYSIS_HEAT_H

#include <stdio.h>

/* A map; everything is borrowed. */
typedef struct kv_heat {
  const char *title;        /* for who cannot see it */
  int rows, columns;        /* at least 1 */
  const double *value;      /* [rows][columns] shares, shaded as 0 below 0 and
                               as 1 above 1; NaN: nothing is there */
  const char *row, *column; /* titles of the two sides */
  /* What the i-th row, or column, is called, a text that lives until the next
   * call; self is that below. Names are left out where they have no room. */
  const char *(*row_name)(const void *self, int i);
  const char *(*column_name)(const void *self, int i);
  const void *self;
  double width, height; /* of the squares together, in units of the page */
} kv_heat;

/* Writes the map below a heading, as one of small multiples. */
void kv_heat_titled(const kv_heat *h, const char *heading, FILE *f);

#endif

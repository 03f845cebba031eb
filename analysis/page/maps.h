/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps of a query's answer (analysis/page/heat.h): the distinct values of one
 * column stand down a side, those of another across, and a square has the
 * number of a third. For figures that draw a map for each of several runs of
 * rows: kv_map_find, perhaps a change of map.value, kv_map_draw, kv_map_free.
 */
#ifndef KV_ANALYSIS_MAPS_H
#define KV_ANALYSIS_MAPS_H

#include "analysis/page/heat.h"
#include "analysis/page/page.h"

/* How the maps of a figure are made. Widths and heights are in units of the
 * page, about a pixel. */
typedef struct kv_maps {
  /* Columns of the grid: a side has a place for each of their distinct values,
   * in ascending order. Several names with a blank between are one value, which
   * is called by the last of them. A row whose `column` is a number below 0 has
   * no square. */
  const char *row, *column;
  const char *order; /* column of numbers by which `column` is in order; NULL:
                        itself */
  const char *value; /* column of the shares, 0 to 1, that are drawn */
  const char *row_title, *column_title; /* of the two sides, on the page */
  const char *row_name, *column_name;   /* columns of texts by which places are
                          called in place of their values; or NULL */
  bool numbered;     /* columns are called 1, 2, .. and not by their values */
  bool shared;       /* all maps of a figure have the same sides */
  double wide, high; /* of a square, as long as the map has room */
  double least_wide, most_wide, most_high; /* of all squares together */
} kv_maps;

/* One map; freed by kv_map_free. */
typedef struct kv_map {
  const kv_grid *g;
  const kv_maps *how;
  int rows, columns;
  int *row, *column; /* [rows], [columns] rows of the grid where each value is
                        first seen */
  double *value;     /* [rows][columns]; NaN: no row of the grid is of it */
} kv_map;

/* Makes the map of the rows first .. end - 1 of g, with the sides that the rows
 * from side_first to side_end - 1 have, so that several maps may have the same.
 * False: no memory, which was said (kv_tell_short), and *out is empty. */
bool kv_map_find(const kv_grid *g, const kv_maps *how, int side_first,
                 int side_end, int first, int end, kv_map *out);
/* Writes the map with `heading` above it, which is what a reader who cannot see
 * it is told, too. */
void kv_map_draw(const kv_map *m, const char *heading, FILE *f);
void kv_map_free(kv_map *m); /* accepts an empty one */
/* All three, of rows that have their sides for themselves. */
void kv_map_show(const kv_grid *g, const kv_maps *how, int first, int end,
                 const char *heading, FILE *f);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A map of a query's rows as inline SVG: the distinct values of one column go
 * down a side, those of another across, and a square shows the number of a
 * third, a share. A shade is one of 21 steps from 0 (a faint tint; the page's
 * own colour means no value) to 1. Neighbours of one shade in a row are one
 * stroke, so a map of 64 by 64 takes some kilobytes. Large squares also show
 * their percentage. Order of calls: kv_map_find, kv_map_draw, kv_map_free.
 */
#ifndef KV_ANALYSIS_MAPS_H
#define KV_ANALYSIS_MAPS_H

#include "analysis/page/page.h"

/* How the maps of a figure are drawn. Widths and heights are in units of the
 * page, about a pixel. */
typedef struct kv_maps {
  /* Columns of the grid: each distinct value has a place on its side, in
   * ascending order. Several names separated by blanks are one value, labelled
   * by the last of them. A row whose `column` is a number below 0 has no
   * square. */
  const char *row, *column;
  const char *order; /* column of numbers that sorts `column`; NULL: itself */
  const char *value; /* column of the shares, 0 to 1, that are drawn */
  const char *row_title, *column_title; /* of the two sides, on the page */
  const char *row_name, *column_name;   /* columns of texts that are labels
                                           instead of these values; or NULL */
  bool numbered;                        /* columns are labelled 1, 2, .. */
  bool shared;       /* all maps of a figure have the same sides */
  double wide, high; /* of a square, if the map has space */
  double least_wide, most_wide, most_high; /* of all squares together */
} kv_maps;

/* One map; freed by kv_map_free. */
typedef struct kv_map {
  const kv_grid *g;
  const kv_maps *how;
  int rows, columns;
  int *row,
      *column; /* [rows], [columns] the first row of the grid with each value */
  double *value; /* [rows][columns]; NaN: no row of the grid has it */
} kv_map;

/* Makes the map of rows first .. end - 1 of g, with the sides of rows
 * side_first .. side_end - 1, so that maps can share sides. False: no memory,
 * which was printed (kv_tell_short), and *out is empty. */
bool kv_map_find(const kv_grid *g, const kv_maps *how, int side_first,
                 int side_end, int first, int end, kv_map *out);
/* Writes the map with `heading` above it, also its text for screen readers. */
void kv_map_draw(const kv_map *m, const char *heading, FILE *f);
void kv_map_free(kv_map *m); /* accepts an empty one */

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A map of numbers as inline SVG: rows times columns of shaded squares. A shade
 * is one of 21 steps from lo to hi, and neighbours of one shade are one stroke,
 * so that a map of 64 by 64 takes some kilobytes; a small map has its numbers
 * written into it.
 */
#ifndef KV_ANALYSIS_HEAT_H
#define KV_ANALYSIS_HEAT_H

#include <stdio.h>

typedef struct kv_heat {
  const char *title; /* for who cannot see it */
  int rows, columns;
  const double *value;      /* [rows][columns]; NaN: nothing is there */
  const char *row, *column; /* titles of the two sides */
  const char *(*row_name)(const void *self, int i);
  const char *(*column_name)(const void *self, int i);
  const void *self;
  double width, height; /* of the squares together, in units of the page */
} kv_heat;

/* Values are shares: 0 is the card's own colour, 1 the full shade; the numbers
 * are percent. */
void kv_heat_write(const kv_heat *h, FILE *f);
/* The same below a heading, as one of small multiples; it can be no narrower
 * than its names are. */
void kv_heat_titled(const kv_heat *h, const char *heading, FILE *f);

/* Of 0..20. */
int kv_heat_shade(double value);

#endif

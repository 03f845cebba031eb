/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory layouts (kvreplay run --layout) in the table for people
 * (sim/show/row_table.c): below the cells of each trace a heading, then for
 * each cell a line a layout, two where it has page tables or regular indices.
 * Taken when a row is added, printed when the table is.
 */
#ifndef KV_SIM_ROW_LAYOUT_H
#define KV_SIM_ROW_LAYOUT_H

#include "ref/ground/err.h"
#include "sim/measure/result.h"
#include <stdio.h>

/* A copy of the layouts of one row, since the table outlives the result. */
typedef struct kv_row_layouts {
  int n;                /* 0: none were asked for */
  kv_layout_result *of; /* [n] */
} kv_row_layouts;

/* Copies the layouts of r. KV_RESOURCE: memory. */
kv_rc kv_row_layouts_take(const kv_result *r, kv_row_layouts *out, kv_err *e);
void kv_row_layouts_free(kv_row_layouts *l); /* accepts zeroed */

/* The first prints the column names, the second the lines of one cell: method
 * and target (the budget as typed) stand in the first. label and asked: widths
 * of the table's columns `method` and `asked`, in characters. Errors of out are
 * for the caller to find. */
void kv_row_layouts_head(FILE *out, int label, int asked);
void kv_row_layouts_print(FILE *out, int label, const char *method, int asked,
                          const char *target, const kv_row_layouts *l);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory layouts in the table for people (sim/show/row_table.c): below the
 * cells of each trace, a line for each layout.
 */
#ifndef KV_SIM_ROW_LAYOUT_H
#define KV_SIM_ROW_LAYOUT_H

#include "ref/ground/err.h"
#include "sim/measure/result.h"
#include <stdio.h>

/* A copy of the layouts of one row, since the table outlives the result. */
typedef struct kv_row_layouts {
  int n;
  kv_layout_result *of;
} kv_row_layouts;

kv_rc kv_row_layouts_take(const kv_result *r, kv_row_layouts *out, kv_err *e);
void kv_row_layouts_free(kv_row_layouts *l); /* accepts zeroed */

/* Prints the column names, then the lines of one cell. label and asked: widths
 * of the table's columns `method` and `asked`. */
void kv_row_layouts_head(FILE *out, int label, int asked);
void kv_row_layouts_print(FILE *out, int label, const char *method, int asked,
                          const char *target, const kv_row_layouts *l);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What a row has in the table for people (sim/show/row_table.c): its label, its
 * numbers as text, and remarks that stand below the rows of its trace. Made
 * when a row is added, as a copy, since the table is printed when the results
 * it is made of may be gone.
 */
#ifndef KV_SIM_ROW_LINE_H
#define KV_SIM_ROW_LINE_H

#include "sim/show/row_label.h"
#include "sim/show/row_layout.h"

/* Columns in their order. ASKED is the budget as typed, BUDGET its entries,
 * KEPT the mean of entries a lane at the end; END, MEAN, READ, SCAN are bytes,
 * DENSE, NEEDLE, ERROR and P95 shares of dense's, LSE and KL nats, JOURNAL the
 * first digits of a digest. PROMPT is output error, PROMPT_MASS the exact mass
 * of what rows of a prompt attend to which is read in chunks (prefill=N). */
typedef enum kv_row_column {
  KV_ROW_ASKED,
  KV_ROW_BUDGET,
  KV_ROW_KEPT,
  KV_ROW_END,
  KV_ROW_MEAN,
  KV_ROW_DENSE,
  KV_ROW_READ,
  KV_ROW_SCAN,
  KV_ROW_NEEDLE,
  KV_ROW_LSE,
  KV_ROW_KL,
  KV_ROW_ERROR,
  KV_ROW_P95,
  KV_ROW_PROMPT,
  KV_ROW_PROMPT_MASS,
  KV_ROW_JOURNAL,
  KV_ROW_COLUMNS
} kv_row_column;

enum { KV_ROW_CELL = 16 }; /* bytes of a cell, its end included */

typedef struct kv_row_line {
  kv_row_label label;
  char trace[4 * 256 + 64]; /* its name, and what methods see as its prompt
                               where that is not what was recorded */
  char cell[KV_ROW_COLUMNS][KV_ROW_CELL]; /* "-" where there is no number */
  char note[640];         /* "" or a remark, in one line without a period */
  char list[256];         /* "" or the budgets of layers, as far as they fit */
  kv_row_layouts layouts; /* none if none were asked for */
  const char *ended;      /* "refused", "failed": there are no numbers; else
                             NULL */
} kv_row_line;

/* Fills *l from a row, complete or not; texts are safe for a terminal, longer
 * ones cut. Free with kv_row_line_free, also after a failure. KV_RESOURCE: no
 * memory. */
kv_rc kv_row_line_make(const kv_result *r, kv_row_line *l, kv_err *e);
void kv_row_line_free(kv_row_line *l);

#endif

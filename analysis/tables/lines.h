/* SPDX-License-Identifier: Apache-2.0
 *
 * What each cell is called in figures, put into the table `line` (means.sql),
 * by which `summary` and the views behind the pictures take means.
 */
#ifndef KV_ANALYSIS_LINES_H
#define KV_ANALYSIS_LINES_H

#include "analysis/tables/variants.h"

/* What names are made of, and what a row of `line` is found by. */
#define KV_LINES_ASK                                                           \
  "trace, prompt_len, observe, method, params, budget, key, basis, asked"

/* Cells of the view `cell`, with the columns above at least, and their names.
 * An exit code. */
int kv_lines_put(sqlite3 *db, const kv_grid *cells, const kv_variants *v);
/* The same for every cell of the database. */
int kv_lines_fill(sqlite3 *db);

#endif

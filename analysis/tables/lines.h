/* SPDX-License-Identifier: Apache-2.0
 *
 * What each cell is called in figures, put into the temporary table `line` of
 * the connection (means.sql): `summary` and the views behind maps and figures
 * take means over cells of one name. Call one of the two after kv_results_open,
 * before these views are asked. Both return an exit code
 * (analysis/database/say.h).
 */
#ifndef KV_ANALYSIS_LINES_H
#define KV_ANALYSIS_LINES_H

#include "analysis/tables/variants.h"

/* SQL: the columns of the view `cell` that names are made of, and by which a
 * row of `line` is found. */
#define KV_LINES_ASK                                                           \
  "trace, prompt_len, observe, method, params, budget, key, basis, asked"

/* Puts the names in v of the cells, rows of the view `cell` with the columns
 * above at least, which v was found in. */
int kv_lines_put(sqlite3 *db, const kv_grid *cells, const kv_variants *v);
/* The same for every cell of the database, by names found among all of them. */
int kv_lines_fill(sqlite3 *db);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The name that each cell (a row of the view `cell`: a method's run on one
 * trace with one budget) has in figures, stored in the temporary table `line`
 * of the connection (means.sql). `summary` and the views for maps and figures
 * take means over cells with the same name. Call either function after
 * kv_results_open, before querying these views. Both return an exit code
 * (analysis/database/say.h).
 */
#ifndef KV_ANALYSIS_LINES_H
#define KV_ANALYSIS_LINES_H

#include "analysis/tables/variants.h"

/* SQL: the columns of the view `cell` from which names are made, and which
 * identify a row of `line`. */
#define KV_LINES_ASK                                                           \
  "trace, prompt_len, observe, method, params, budget, key, basis, asked"

/* Stores the names in v of the cells. v was found in `cells`, rows of the view
 * `cell` with at least the columns above. */
int kv_lines_put(sqlite3 *db, const kv_grid *cells, const kv_variants *v);
/* The same for every cell of the database, with names found among all. */
int kv_lines_fill(sqlite3 *db);

#endif

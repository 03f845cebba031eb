/* SPDX-License-Identifier: Apache-2.0
 *
 * SQL functions over what `kvreplay run --tokens` keeps of a cell, when each
 * token leaves each lane, which the views of survivors call. What each takes
 * and gives stands in analysis/database/survivors.c.
 */
#ifndef KV_ANALYSIS_SURVIVORS_H
#define KV_ANALYSIS_SURVIVORS_H

#include <sqlite3.h>

/* Adds them to a connection, before the views are made. 0, or SQLite's code. */
int kv_survivors_functions(sqlite3 *db);

#endif

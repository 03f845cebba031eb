/* SPDX-License-Identifier: Apache-2.0
 *
 * What survives, as SQL functions: analysis/database/survivors.c.
 */
#ifndef KV_ANALYSIS_SURVIVORS_H
#define KV_ANALYSIS_SURVIVORS_H

#include <sqlite3.h>

/* 0, or what SQLite says. */
int kv_survivors_functions(sqlite3 *db);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The conditions that the values of a table must meet (laws.c).
 */
#ifndef KV_ANALYSIS_LAWS_H
#define KV_ANALYSIS_LAWS_H

#include "sim/store/tables.h"

#include <sqlite3.h>

/* Does every value of the table, in `schema` ("main" or an attached database),
 * meet the condition of its column? Returns an exit code (say.h); the first
 * violation is printed with path, unless NULL. One scan of the table. */
int kv_laws_check(sqlite3 *db, const char *schema, const kv_db_table *table,
                  const char *path);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold of the values of a table (laws.c).
 */
#ifndef KV_ANALYSIS_LAWS_H
#define KV_ANALYSIS_LAWS_H

#include "sim/store/tables.h"

#include <sqlite3.h>

/* An exit code (say.h): does every value of the table of schema, "main" or an
 * attached database, fulfil the law of its column? The first that does not is
 * named, by path; path NULL: nothing is said. One scan of the table. */
int kv_laws_check(sqlite3 *db, const char *schema, const kv_db_table *table,
                  const char *path);

#endif

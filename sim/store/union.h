/* SPDX-License-Identifier: Apache-2.0
 *
 * The union of two databases that one connection has open under two names: rows
 * with the same key are compared, then the rows of one are added to the other.
 * Rows are identified by their contents; small integers are numbered anew. So
 * the union is associative, commutative and idempotent. Everything follows from
 * the list in tables.h. kvreplay stores a row as the union with a database that
 * holds only that row.
 *
 * Calls return SQLITE_OK or SQLite's code. Not thread-safe.
 */
#ifndef KV_SIM_UNION_H
#define KV_SIM_UNION_H

#include "sim/store/tables.h"

#include <sqlite3.h>

typedef struct kv_db_union {
  sqlite3 *sql;
  const char *to, *from; /* names of the databases; texts outlive it */
  sqlite3_stmt *differ[KV_DB_UNION + 1], *join[KV_DB_UNION]; /* or NULL */
} kv_db_union;

/* Two values under one key. */
typedef struct kv_db_difference {
  int layer;       /* the model's, if digests of a layer differ; else -1 */
  char owner[256]; /* whose values: "h2o:budget=64 on small" */
  char what[256];  /* "bytes_end of layout slots is 96 there and 80 here" */
} kv_db_difference;

/* Looks for the first row of `from` that contradicts one of `to`: first digests
 * of layers, then the tables in the order of the list. *found: there is one, in
 * *out. there, here: words for `to` and `from` in sentences. Changes nothing.
 */
int kv_db_differs(kv_db_union *u, const char *there, const char *here,
                  bool *found, kv_db_difference *out);
/* Adds the rows of `from` to `to`, within the caller's transaction. */
int kv_db_join(kv_db_union *u);
void kv_db_union_close(kv_db_union *u); /* accepts zeroed */

/* SQL that creates all tables, or that inserts a row of all columns into the
 * table of a database. Free it with sqlite3_free. NULL: no memory. */
char *kv_db_schema_sql(const char *database);
char *kv_db_insert_sql(const char *database, const kv_db_table *t);

#endif

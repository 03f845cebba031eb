/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of a database as one list. A row describes a column: its SQL, the
 * member of a C struct that it holds, and how two values under one key are
 * combined. The schema, writing, reading, comparing and merging follow from it,
 * in kvreplay and in kvreport. A new column is a line of tables.c; a new table
 * is an array there. Constants; any thread may read them.
 */
#ifndef KV_SIM_TABLES_H
#define KV_SIM_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  KV_DB_APPLICATION = 0x6b767270
};                             /* PRAGMA application_id of our files */
extern const int kv_db_schema; /* their PRAGMA user_version */

/* How two values of a column combine, in rows with one key in two databases. */
typedef enum kv_db_rule {
  KV_DB_KEY,     /* part of the key */
  KV_DB_SAME,    /* a contradiction, unless one is null: then the other stays */
  KV_DB_EQUAL,   /* a contradiction, also if one is null */
  KV_DB_FIRST,   /* the first one stays */
  KV_DB_ANY,     /* the first non-null one stays */
  KV_DB_LESSER,  /* the smaller one stays */
  KV_DB_GREATER, /* the larger one stays */
  KV_DB_FOLLOWS, /* the one in the row whose KV_DB_GREATER column is larger; a
                    contradiction if these are equal */
  KV_DB_NUMBER   /* small integer that identifies the row within its file */
} kv_db_rule;

typedef struct kv_db_column {
  const char *name; /* NULL: the end of an array */
  const char *sql;  /* type and constraints */
  char type; /* of the struct's member: n int; i int64_t; o int64_t, null below
                0; d double, in two columns: the readable number, null for NaN,
                and NAME_bits, its 64 bits, which are read back. 0: no member,
                the caller binds it */
  char rule; /* a kv_db_rule */
  size_t offset; /* in the struct */
  int64_t least; /* a smaller integer is damage; INT64_MIN: any is valid */
} kv_db_column;

typedef struct kv_db_table {
  const char *name;
  const kv_db_column *column;
  const char *rest; /* further constraints, or NULL */
  bool rows;        /* has row numbers (is not WITHOUT ROWID) */
} kv_db_table;

/* The tables. The first KV_DB_UNION hold results and are merged. A table comes
 * after those that its rows refer to. */
#define KV_DB_TABLES(x)                                                        \
  x(environment) x(trace) x(artefact) x(shard) x(run) x(held) x(scalar) x(ask) \
      x(part) x(metric) x(step_mean) x(step_cost) x(journal_digest)            \
          x(confirmation) x(diff) x(budget) x(layout) x(layout_step)           \
              x(device_cache) x(survival) x(pool) x(pool_step) x(request)      \
                  x(figure) x(compressor) x(model) x(question) x(platform)     \
                      x(evaluation) x(quantity) x(evaluated) x(evaluator)      \
                          x(evaluation_diff) x(partial) x(probe)
#define KV_DB_ID(name) KV_DB_##name,
typedef enum kv_db_id {
  KV_DB_TABLES(KV_DB_ID) KV_DB_N_TABLES,
  KV_DB_UNION = KV_DB_partial
} kv_db_id;

extern const kv_db_table *const kv_db_table_list[]; /* by kv_db_id, then NULL */
extern const char kv_db_views[]; /* SQL of the views for people, and indices */

#endif

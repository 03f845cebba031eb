/* SPDX-License-Identifier: Apache-2.0
 *
 * --where NAME=VALUE,..: conditions on columns of a view, compared as text.
 * Values are bound to the query; names become part of it after they were found
 * among the view's columns. Cut, check, then ask; all return an exit code
 * (analysis/database/say.h), after printing an error.
 */
#ifndef KV_ANALYSIS_WHERE_H
#define KV_ANALYSIS_WHERE_H

#include "analysis/database/grid.h"

enum { KV_CONDITIONS = 16 }; /* most conditions */

/* Conditions; n 0: every row. Must not be copied: the names point into it. */
typedef struct kv_where {
  char text[1024]; /* as typed, cut into names and values */
  const char *name[KV_CONDITIONS], *value[KV_CONDITIONS]; /* [n] */
  int n;
} kv_where;

/* Cuts what was typed, or NULL (no condition), into *w. KV_EXIT_USAGE: it is
 * longer than 1023 bytes, is no NAME=VALUE, or has more than KV_CONDITIONS. */
int kv_where_cut(const char *given, kv_where *w);
/* KV_EXIT_USAGE if the view lacks a column. Call it before the two below. */
int kv_where_check(sqlite3 *db, const char *view, const kv_where *w);
/* SELECT columns FROM view, for rows that meet all conditions. Free *g with
 * kv_grid_free. */
int kv_where_ask(sqlite3 *db, const char *view, const char *columns,
                 const kv_where *w, kv_grid *g);
/* The same with SQL after the conditions: "GROUP BY ...". */
int kv_where_group(sqlite3 *db, const char *view, const char *columns,
                   const kv_where *w, const char *rest, kv_grid *g);
/* Call it if that has no rows, which is no error: prints which condition no row
 * of the view meets, because it may be misspelt. Returns KV_EXIT_OK. */
int kv_where_say_empty(sqlite3 *db, const char *view, const kv_where *w);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * --where: conditions on columns of a view, compared as text. Values are
 * bound, never pasted; names are checked against the view before they are.
 */
#ifndef KV_ANALYSIS_WHERE_H
#define KV_ANALYSIS_WHERE_H

#include "analysis/database/grid.h"

enum { KV_CONDITIONS = 16 };

typedef struct kv_where {
  char text[1024]; /* cut into names and values */
  const char *name[KV_CONDITIONS], *value[KV_CONDITIONS];
  int n;
} kv_where;

/* NAME=VALUE,... or NULL: none. All of these answer with an exit code, after
 * saying what is wrong. */
int kv_where_cut(const char *given, kv_where *w);
/* Does the view have these columns? To be asked before the two below. */
int kv_where_check(sqlite3 *db, const char *view, const kv_where *w);
/* SELECT columns FROM view, of the rows that fulfil all conditions. */
int kv_where_ask(sqlite3 *db, const char *view, const char *columns,
                 const kv_where *w, kv_grid *g);
/* An empty answer is no error, but a condition may be misspelt: says so. */
int kv_where_say_empty(sqlite3 *db, const char *view, const kv_where *w);

#endif

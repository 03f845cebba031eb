/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer to a query, in memory: names of columns and rows of values. All
 * writers and figures work on grids; what talks to SQLite itself is in this
 * room, and tables/lines.c.
 */
#ifndef KV_ANALYSIS_GRID_H
#define KV_ANALYSIS_GRID_H

#include <sqlite3.h>
#include <stdbool.h>

typedef struct kv_value {
  char *text;    /* NULL: null */
  double number; /* NaN where it is text or null */
  bool real;     /* a real, not an integer */
} kv_value;

typedef struct kv_grid {
  int rows, columns;
  char **name;
  kv_value *value; /* [rows][columns] */
} kv_grid;

/* Runs one SELECT with `binds` texts. An exit code; out zeroed on failure. */
int kv_grid_ask(sqlite3 *db, const char *sql, int binds,
                const char *const *bind, kv_grid *out);
void kv_grid_free(kv_grid *g);

/* -1 where there is no such column. */
int kv_grid_column(const kv_grid *g, const char *name);
/* By row and column name; "" and NaN for null. The column must exist. */
const char *kv_grid_text(const kv_grid *g, int row, const char *name);
double kv_grid_number(const kv_grid *g, int row, const char *name);
/* A whole number in lo..hi; `otherwise` for all else. */
int kv_grid_int(const kv_grid *g, int row, const char *name, int lo, int hi,
                int otherwise);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The result of an SQL query, in memory: names of columns, and rows of values.
 * All data that kvreport writes or draws are in grids. Ask, read as often as
 * needed, free. A cell takes 24 bytes and its text.
 */
#ifndef KV_ANALYSIS_GRID_H
#define KV_ANALYSIS_GRID_H

#include <sqlite3.h>
#include <stdbool.h>

/* One value. A number also has its text, as SQLite writes it: integers exactly,
 * reals to 15 digits. */
typedef struct kv_value {
  char *text;    /* owned by the grid; NULL: SQL's null */
  double number; /* NaN if the value is a text or null */
  bool real;     /* SQL's type is REAL, not INTEGER */
} kv_value;

typedef struct kv_grid {
  int rows, columns;
  char **name;     /* [columns] as the query calls them */
  kv_value *value; /* [rows][columns] */
  int headed;      /* in a table for people: so many first columns are written
                      once, as a heading above the rows with their values */
} kv_grid;

/* Runs one SELECT with the texts bind[0..binds) for its parameters ?1, ?2, ..
 * Returns an exit code (analysis/database/say.h), after printing the error:
 * KV_EXIT_RESOURCE for lack of memory, KV_EXIT_INPUT or KV_EXIT_RESOURCE if
 * SQLite fails. *out is then zeroed; else free it with kv_grid_free. */
int kv_grid_ask(sqlite3 *db, const char *sql, int binds,
                const char *const *bind, kv_grid *out);
void kv_grid_free(kv_grid *g); /* accepts zeroed */
/* Removes the column if it exists and is null in every row; true: it did. */
bool kv_grid_drop_empty(kv_grid *g, const char *name);

/* The number of a column, from 0; -1: no column has that name. */
int kv_grid_column(const kv_grid *g, const char *name);
/* A value by row (0 .. rows - 1) and name of column, which must exist
 * (asserted). Its text, "" for null, valid as long as the grid; or its number,
 * NaN for texts and null. */
const char *kv_grid_text(const kv_grid *g, int row, const char *name);
double kv_grid_number(const kv_grid *g, int row, const char *name);
/* The same as an integer from lo to hi; `otherwise` if it is none. */
int kv_grid_int(const kv_grid *g, int row, const char *name, int lo, int hi,
                int otherwise);

/* Do rows a and b have the same text in each of the columns, named in `columns`
 * with blanks between ("method asked")? */
bool kv_grid_alike(const kv_grid *g, int a, int b, const char *columns);
/* The end (exclusive) of rows from `first` on that agree in these columns. */
int kv_grid_end(const kv_grid *g, int first, const char *columns);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer to an SQL query, in memory: names of columns, and rows of values.
 * All data that kvreport writes or draws are of a grid. Ask, read as often as
 * wanted, free. A cell costs 24 bytes and its text.
 */
#ifndef KV_ANALYSIS_GRID_H
#define KV_ANALYSIS_GRID_H

#include <sqlite3.h>
#include <stdbool.h>

/* One value. A number has its text, too, as SQLite writes it: integers as they
 * are, reals to 15 digits. */
typedef struct kv_value {
  char *text;    /* owned by the grid; NULL: SQL's null */
  double number; /* NaN where the value is a text or null */
  bool real;     /* SQL's type is REAL, not INTEGER */
} kv_value;

typedef struct kv_grid {
  int rows, columns;
  char **name;     /* [columns] as the query calls them */
  kv_value *value; /* [rows][columns] */
  bool headed;     /* as a table for people: the first column stands once, above
                      the rows that have its value, and so leaves its width */
} kv_grid;

/* Runs one SELECT, whose parameters ?1, ?2, .. get the texts bind[0..binds).
 * Returns an exit code (analysis/database/say.h), after saying what is wrong:
 * KV_EXIT_RESOURCE for want of memory, KV_EXIT_INPUT or KV_EXIT_RESOURCE where
 * SQLite fails; *out is then zeroed, else it is freed by kv_grid_free. */
int kv_grid_ask(sqlite3 *db, const char *sql, int binds,
                const char *const *bind, kv_grid *out);
void kv_grid_free(kv_grid *g); /* accepts zeroed */
/* Removes the column if it is there and null in every row; true: it did. */
bool kv_grid_drop_empty(kv_grid *g, const char *name);

/* The number of a column, from 0; -1: there is none of that name. */
int kv_grid_column(const kv_grid *g, const char *name);
/* A value by row (0 .. rows - 1) and name of column, which is asserted to be
 * there: its text, "" for null, as long as the grid lives; or its number, NaN
 * for texts and null. */
const char *kv_grid_text(const kv_grid *g, int row, const char *name);
double kv_grid_number(const kv_grid *g, int row, const char *name);
/* The same as a whole number from lo to hi; `otherwise` if it is none. */
int kv_grid_int(const kv_grid *g, int row, const char *name, int lo, int hi,
                int otherwise);

/* True if rows a and b have the same text in each of the columns, whose names
 * stand in `columns` with a blank between: "method asked". */
bool kv_grid_alike(const kv_grid *g, int a, int b, const char *columns);
/* The rows from `first` on that are alike in these columns end before the row
 * that is returned. */
int kv_grid_end(const kv_grid *g, int first, const char *columns);

#endif

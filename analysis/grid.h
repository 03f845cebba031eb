/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer to a query, in memory: names of columns and rows of values. All
 * writers and figures work on grids; nothing else talks to SQLite but
 * open.c, grid.c and merge.c.
 */
#ifndef KV_ANALYSIS_GRID_H
#define KV_ANALYSIS_GRID_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>

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

/* Opens a kvreplay database to read and makes the views of views.sql. Returns
 * an exit code after saying what is wrong. */
int kv_results_open(const char *path, sqlite3 **db);
/* What SQLite is to be given to open or attach path: to be freed with
 * sqlite3_free; NULL, and an exit code, where it cannot be read where it lies.
 */
int kv_results_name(const char *path, char **uri);
/* Before anything is read: a database brings no code of its own (triggers,
 * views) that would run. 0, or what SQLite says. */
int kv_results_guard(sqlite3 *db);
/* What the views ask for and SQLite has not (functions.c). 0, or what it says.
 */
int kv_results_functions(sqlite3 *db);
/* A minute where another process writes, aloud; path outlives db. */
void kv_results_wait(sqlite3 *db, const char *path);
/* Says so if path is no file that can be read. */
int kv_results_there(const char *path);
/* Says that SQLite failed, and which code that is: a bad file or none. */
int kv_results_fail(sqlite3 *db, const char *path);
/* Is schema (main or attached) of this version, and all in it as kvreplay
 * writes it (check.c)? Says so if not. */
int kv_results_check(sqlite3 *db, const char *schema, const char *path);
int kv_results_check_rows(sqlite3 *db, const char *schema, const char *path);

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

typedef enum kv_grid_format {
  KV_TABLE,
  KV_CSV,
  KV_JSON,
  KV_JSONL
} kv_grid_format;
/* Everything in the grid; KV_TABLE aligns columns. */
void kv_grid_write(const kv_grid *g, kv_grid_format format, FILE *f);

#endif

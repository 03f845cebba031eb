/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/database/grid.h"
#include "analysis/database/results.h"
#include "analysis/database/say.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SQLite returns NULL if memory ran out. */
static char *copy(const char *text) { return text ? strdup(text) : NULL; }

static bool take_names(sqlite3_stmt *s, kv_grid *g) {
  g->columns = sqlite3_column_count(s);
  g->name = calloc((size_t)g->columns, sizeof *g->name);
  for (int c = 0; g->name && c < g->columns; c++)
    if (!(g->name[c] = copy(sqlite3_column_name(s, c)))) return false;
  return g->name != NULL;
}

static bool take_row(sqlite3_stmt *s, kv_grid *g, int *room) {
  if (g->rows == *room) {
    int more = *room ? 2 * *room : 64;
    kv_value *v =
        realloc(g->value, (size_t)more * (size_t)g->columns * sizeof *g->value);
    if (!v) return false;
    g->value = v;
    *room = more;
  }
  for (int c = 0; c < g->columns; c++) {
    kv_value *v = g->value + (size_t)g->rows * (size_t)g->columns + c;
    int type = sqlite3_column_type(s, c);
    *v = (kv_value){NULL, NAN, type == SQLITE_FLOAT};
    if (type == SQLITE_FLOAT || type == SQLITE_INTEGER)
      v->number = sqlite3_column_double(s, c);
    if (type == SQLITE_NULL) continue;
    v->text = copy((const char *)sqlite3_column_text(s, c));
    if (!v->text) {
      for (int k = 0; k < c; k++) free((v - c + k)->text);
      return false;
    }
  }
  g->rows++;
  return true;
}

int kv_grid_ask(sqlite3 *db, const char *sql, int binds,
                const char *const *bind, kv_grid *out) {
  sqlite3_stmt *s = NULL;
  bool fits = true;
  int room = 0, step = SQLITE_DONE;
  memset(out, 0, sizeof *out);
  if (sqlite3_prepare_v2(db, sql, -1, &s, NULL))
    return kv_results_fail(db, sqlite3_db_filename(db, "main"));
  for (int i = 0; i < binds; i++)
    sqlite3_bind_text(s, i + 1, bind[i], -1, SQLITE_STATIC);
  fits = take_names(s, out);
  while (fits && (step = sqlite3_step(s)) == SQLITE_ROW)
    fits = take_row(s, out, &room);
  sqlite3_finalize(s);
  if (fits && step == SQLITE_DONE) return KV_EXIT_OK;
  kv_grid_free(out);
  if (!fits) return kv_tell_short();
  return kv_results_fail(db, sqlite3_db_filename(db, "main"));
}

void kv_grid_free(kv_grid *g) {
  size_t n = (size_t)g->rows * (size_t)g->columns;
  for (size_t i = 0; i < n; i++) free(g->value[i].text);
  for (int c = 0; g->name && c < g->columns; c++) free(g->name[c]);
  free(g->name);
  free(g->value);
  memset(g, 0, sizeof *g);
}

int kv_grid_column(const kv_grid *g, const char *name) {
  for (int c = 0; c < g->columns; c++)
    if (!strcmp(g->name[c], name)) return c;
  return -1;
}

bool kv_grid_drop_empty(kv_grid *g, const char *name) {
  int at = kv_grid_column(g, name), kept = 0;
  if (at < 0) return false;
  for (int r = 0; r < g->rows; r++)
    if ((g->value + (size_t)r * (size_t)g->columns + at)->text) return false;
  for (int i = 0; i < g->rows * g->columns; i++)
    if (i % g->columns != at) g->value[kept++] = g->value[i];
  free(g->name[at]);
  g->columns--;
  for (int c = at; c < g->columns; c++) g->name[c] = g->name[c + 1];
  return true;
}

static const kv_value *at(const kv_grid *g, int row, const char *name) {
  int c = kv_grid_column(g, name);
  assert(c >= 0 && row >= 0 && row < g->rows && "a column of the query");
  return g->value + (size_t)row * (size_t)g->columns + c;
}

const char *kv_grid_text(const kv_grid *g, int row, const char *name) {
  const char *text = at(g, row, name)->text;
  return text ? text : "";
}

double kv_grid_number(const kv_grid *g, int row, const char *name) {
  return at(g, row, name)->number;
}

int kv_grid_int(const kv_grid *g, int row, const char *name, int lo, int hi,
                int otherwise) {
  double x = at(g, row, name)->number;
  return x >= lo && x <= hi && rint(x) == x ? (int)x : otherwise;
}

bool kv_grid_alike(const kv_grid *g, int a, int b, const char *columns) {
  char name[64];
  for (size_t n; *columns; columns += n + (columns[n] == ' ')) {
    n = strcspn(columns, " ");
    snprintf(name, sizeof name, "%.*s", (int)n, columns);
    if (strcmp(kv_grid_text(g, a, name), kv_grid_text(g, b, name)))
      return false;
  }
  return true;
}

int kv_grid_end(const kv_grid *g, int first, const char *columns) {
  int r = first;
  while (r < g->rows && kv_grid_alike(g, first, r, columns)) r++;
  return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/tables/where.h"
#include "analysis/database/say.h"
#include "traces/option/option.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int kv_where_cut(const char *given, kv_where *w) {
  char *rest = w->text, *pair;
  w->n = 0;
  if (!given) return KV_EXIT_OK;
  if (strlen(given) >= sizeof w->text)
    return kv_tell(KV_EXIT_USAGE, "--where is longer than 1023 characters");
  strcpy(w->text, given);
  while ((pair = strsep(&rest, ","))) {
    char *equals = strchr(pair, '=');
    if (!equals || w->n == KV_CONDITIONS)
      return kv_tell(
          KV_EXIT_USAGE,
          "--where must be up to %d NAME=VALUE, separated by commas, not '%s'",
          KV_CONDITIONS, pair);
    *equals = 0;
    w->name[w->n] = pair;
    w->value[w->n++] = equals + 1;
  }
  return KV_EXIT_OK;
}

static int no_column(const char *name, const kv_grid *g, const char **names) {
  char all[400] = "there are ";
  kv_err e = {0};
  for (int c = 0; c < g->columns; c++) {
    size_t at = strlen(all);
    snprintf(all + at, sizeof all - at, "%s%s", c ? ", " : "", g->name[c]);
  }
  kv_no_such("column", name, g->columns, names, all, &e);
  return kv_tell(KV_EXIT_USAGE, "%s", e.text);
}

int kv_where_check(sqlite3 *db, const char *view, const kv_where *w) {
  char *sql = sqlite3_mprintf("SELECT * FROM %s LIMIT 0", view);
  kv_grid g;
  int rc = sql ? kv_grid_ask(db, sql, 0, NULL, &g) : kv_tell_short();
  const char **names;
  sqlite3_free(sql);
  if (rc) return rc;
  names = calloc((size_t)g.columns + 1, sizeof *names);
  if (!names) rc = kv_tell_short();
  for (int c = 0; names && c < g.columns; c++) names[c] = g.name[c];
  for (int i = 0; names && i < w->n && !rc; i++)
    if (kv_grid_column(&g, w->name[i]) < 0)
      rc = no_column(w->name[i], &g, names);
  free(names);
  kv_grid_free(&g);
  return rc;
}

int kv_where_ask(sqlite3 *db, const char *view, const char *columns,
                 const kv_where *w, kv_grid *g) {
  return kv_where_group(db, view, columns, w, "", g);
}

int kv_where_group(sqlite3 *db, const char *view, const char *columns,
                   const kv_where *w, const char *rest, kv_grid *g) {
  sqlite3_str *sql = sqlite3_str_new(db);
  char *text;
  int rc;
  sqlite3_str_appendf(sql, "SELECT %s FROM %s", columns, view);
  for (int i = 0; i < w->n; i++)
    sqlite3_str_appendf(sql, " %s CAST(%s AS TEXT) = ?%d", i ? "AND" : "WHERE",
                        w->name[i], i + 1);
  sqlite3_str_appendf(sql, " %s", rest);
  text = sqlite3_str_finish(sql);
  if (!text) return kv_tell_short();
  rc = kv_grid_ask(db, text, w->n, w->value, g);
  sqlite3_free(text);
  return rc;
}

/* Is the value in a column of a view? If not, prints the values that are. */
static int look_for(sqlite3 *db, const char *view, const char *name,
                    const char *value, bool *there) {
  char all[800] = "";
  char *sql = sqlite3_mprintf("SELECT DISTINCT CAST(%s AS TEXT) FROM %s "
                              "WHERE %s NOT NULL ORDER BY 1",
                              name, view, name);
  kv_grid g;
  size_t at = 0;
  int rc = sql ? kv_grid_ask(db, sql, 0, NULL, &g) : kv_tell_short();
  sqlite3_free(sql);
  if (rc) return rc;
  *there = false;
  for (int r = 0; r < g.rows && !*there; r++) {
    const char *text = g.value[r].text;
    *there = text && !strcmp(text, value);
    if (text && at < sizeof all)
      at += (size_t)snprintf(all + at, sizeof all - at, "%s%s", at ? ", " : "",
                             text);
  }
  if (!*there)
    kv_tell(KV_EXIT_OK, "no row has %s '%s'; choose from %s", name, value,
            at ? all : "none");
  kv_grid_free(&g);
  return KV_EXIT_OK;
}

int kv_where_say_empty(sqlite3 *db, const char *view, const kv_where *w) {
  bool there = true;
  int rc = KV_EXIT_OK;
  for (int i = 0; i < w->n && there && !rc; i++)
    rc = look_for(db, view, w->name[i], w->value[i], &there);
  if (w->n && there && !rc)
    kv_tell(KV_EXIT_OK, "no row matches all of --where");
  return rc;
}

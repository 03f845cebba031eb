/* SPDX-License-Identifier: Apache-2.0
 *
 * kvreport table, history and export: views as text. --where becomes a
 * condition on columns of the view, compared as text; its values are bound,
 * never pasted.
 */
#include "analysis/say.h"
#include "analysis/variants.h"
#include "analysis/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CONDITIONS = 16 };

typedef struct where {
  char text[1024]; /* cut into names and values */
  const char *name[CONDITIONS], *value[CONDITIONS];
  int n;
} where;

static int cut(const char *given, where *w) {
  char *rest = w->text, *pair;
  if (strlen(given) >= sizeof w->text)
    return kv_say(KV_EXIT_USAGE, "--where is longer than 1023 characters");
  strcpy(w->text, given);
  while ((pair = strsep(&rest, ","))) {
    char *equals = strchr(pair, '=');
    if (!equals || w->n == CONDITIONS)
      return kv_say(KV_EXIT_USAGE,
                    "--where takes up to %d NAME=VALUE with commas between, "
                    "not '%s'",
                    CONDITIONS, pair);
    *equals = 0;
    w->name[w->n] = pair;
    w->value[w->n++] = equals + 1;
  }
  return KV_EXIT_OK;
}

/* The columns of a view, for the check of names. */
static int check_names(sqlite3 *db, const char *view, const where *w) {
  char *sql = sqlite3_mprintf("SELECT * FROM %s LIMIT 0", view);
  kv_grid g;
  int rc = sql ? kv_grid_ask(db, sql, 0, NULL, &g)
               : kv_say(KV_EXIT_RESOURCE, "not enough memory");
  const char **names;
  sqlite3_free(sql);
  if (rc) return rc;
  names = calloc((size_t)g.columns + 1, sizeof *names);
  if (!names) kv_say_short();
  for (int c = 0; names && c < g.columns; c++) names[c] = g.name[c];
  for (int i = 0; names && i < w->n && !rc; i++)
    if (kv_grid_column(&g, w->name[i]) < 0)
      rc = kv_say_no("column", w->name[i], names);
  free(names);
  kv_grid_free(&g);
  return rc;
}

static int ask(sqlite3 *db, const char *view, const char *columns,
               const where *w, kv_grid *g) {
  sqlite3_str *sql = sqlite3_str_new(db);
  char *text;
  int rc;
  sqlite3_str_appendf(sql, "SELECT %s FROM %s", columns, view);
  for (int i = 0; i < w->n; i++)
    sqlite3_str_appendf(sql, " %s CAST(%s AS TEXT) = ?%d", i ? "AND" : "WHERE",
                        w->name[i], i + 1);
  text = sqlite3_str_finish(sql);
  if (!text) return kv_say(KV_EXIT_RESOURCE, "not enough memory");
  rc = kv_grid_ask(db, text, w->n, w->value, g);
  sqlite3_free(text);
  return rc;
}

/* For people a method is named with what tells its variants apart. */
static int name_variants(sqlite3 *db, const char *view, const where *w,
                         kv_grid *g) {
  int c = kv_grid_column(g, "method");
  kv_variants v = {0};
  kv_grid all;
  int rc = ask(db, view, "trace, prompt_len, method, params, budget", w, &all);
  if (rc) return rc;
  if (!kv_variants_find(&all, &v))
    rc = kv_say(KV_EXIT_RESOURCE, "not enough memory");
  for (int r = 0; r < g->rows && !rc; r++) {
    kv_value *to = g->value + (size_t)r * (size_t)g->columns + c;
    char *name = strdup(v.label[v.of[r]]);
    if (!name) {
      kv_say_short();
      break;
    }
    free(to->text);
    to->text = name;
  }
  kv_variants_free(&v);
  kv_grid_free(&all);
  return rc;
}

/* Is the value in a column of a view? If not, says which ones are. */
static int look_for(sqlite3 *db, const char *view, const char *name,
                    const char *value, bool *there) {
  char all[800] = "";
  char *sql = sqlite3_mprintf("SELECT DISTINCT CAST(%s AS TEXT) FROM %s "
                              "WHERE %s NOT NULL ORDER BY 1",
                              name, view, name);
  kv_grid g;
  size_t at = 0;
  int rc = sql ? kv_grid_ask(db, sql, 0, NULL, &g)
               : kv_say(KV_EXIT_RESOURCE, "not enough memory");
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
    kv_say(KV_EXIT_OK, "no row has %s '%s'; there are %s", name, value,
           at ? all : "none at all");
  kv_grid_free(&g);
  return KV_EXIT_OK;
}

/* An empty answer is no error, but a condition may be misspelt. */
static int say_empty(sqlite3 *db, const char *view, const where *w) {
  bool there = true;
  int rc = KV_EXIT_OK;
  for (int i = 0; i < w->n && there && !rc; i++)
    rc = look_for(db, view, w->name[i], w->value[i], &there);
  if (w->n && there && !rc)
    kv_say(KV_EXIT_OK, "no row has all that --where asks for at once");
  return rc;
}

static int write(const kv_args *a, const char *view, const char *columns,
                 const char *note) {
  where w = {.n = 0};
  sqlite3 *db = NULL;
  kv_grid g = {0};
  FILE *f;
  int rc = a->where ? cut(a->where, &w) : 0;
  if (!rc) rc = kv_results_open(a->file[0], &db);
  if (!rc) rc = check_names(db, view, &w);
  if (!rc) rc = ask(db, view, a->format == KV_TABLE ? columns : "*", &w, &g);
  if (!rc && a->format == KV_TABLE) rc = name_variants(db, view, &w, &g);
  if (!rc && !g.rows) rc = say_empty(db, view, &w);
  if (!rc && !(f = kv_output_open(a->output))) rc = KV_EXIT_RESOURCE;
  if (!rc) {
    kv_grid_write(&g, a->format, f);
    if (a->format == KV_TABLE) fputs(note, f);
    rc = kv_output_close(f, a->output);
  }
  kv_grid_free(&g);
  sqlite3_close(db);
  return rc;
}

int kv_verb_table(const kv_args *a) {
  return write(
      a, "cell",
      "trace, method, asked, budget, status, kept, bytes_end AS 'end B',"
      " CAST(round(100 * share_end) AS INTEGER) || '%' AS 'end',"
      " CAST(round(100 * kr) AS INTEGER) || '%' AS 'mean',"
      " CAST(round(100 * share_read) AS INTEGER) || '%' AS 'read',"
      " output_error AS error, output_error_p95 AS 'error p95',"
      " mass, recall_16 AS 'top-16', needle_view AS needle,"
      " CASE WHEN conflicts THEN 'CONFLICT' WHEN status IN ('refused',"
      " 'failed') THEN reason WHEN confirmed THEN 'confirmed'"
      " ELSE 'one run' END AS checked",
      "\nend, mean, read: bytes as shares of the dense cache. Open loop: the "
      "recorded\nqueries do not feel the approximation.\n");
}

int kv_verb_history(const kv_args *a) {
  return write(a, "history",
               "trace, method, budget, state, code, arithmetic, status,"
               " first_seen, confirmations, conflicts,"
               " output_error AS error, substr(key, 1, 12) AS key",
               "");
}

/* --- export -----------------------------------------------------------------
 */

static const char *const views[] = {
    "cell",       "metrics",  "costs",  "pareto",  "along",         "gap",
    "crosscheck", "conflict", "graded", "history", "confirmations", NULL};

static int export_one(sqlite3 *db, const kv_args *a, const char *view) {
  char path[4096], sql[64];
  kv_grid g;
  FILE *f;
  int rc;
  snprintf(path, sizeof path, "%s/%s.%s", a->output, view,
           a->format == KV_CSV ? "csv" : "jsonl");
  snprintf(sql, sizeof sql, "SELECT * FROM %s", view);
  rc = kv_grid_ask(db, sql, 0, NULL, &g);
  if (rc) return rc;
  f = kv_output_open(path);
  if (f) kv_grid_write(&g, a->format, f);
  rc = f ? kv_output_close(f, path) : KV_EXIT_RESOURCE;
  kv_grid_free(&g);
  return rc;
}

int kv_verb_export(const kv_args *given) {
  kv_args a = *given;
  sqlite3 *db;
  int rc;
  if (!a.format_given) a.format = KV_CSV;
  if (a.format != KV_CSV && a.format != KV_JSONL)
    return kv_say(KV_EXIT_USAGE, "export writes csv or jsonl");
  if (kv_output_is_stdout(a.output)) return write(&a, "cell", "*", "");
  rc = kv_results_open(a.file[0], &db);
  if (!rc && mkdir(a.output, 0777) && errno != EEXIST)
    rc = kv_say(KV_EXIT_RESOURCE, "cannot make the folder %s: %s", a.output,
                strerror(errno));
  for (int i = 0; views[i] && !rc; i++) rc = export_one(db, &a, views[i]);
  sqlite3_close(db);
  return rc;
}

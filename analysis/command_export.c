/* SPDX-License-Identifier: Apache-2.0
 *
 * kvreport export: every view as its own file, written whole.
 */
#include "analysis/commands.h"
#include "analysis/database/results.h"
#include "analysis/database/say.h"
#include "analysis/tables/grid_write.h"
#include "analysis/tables/lines.h"
#include "analysis/tables/output.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static const char *const views[] = {
    "cell", "every_cell", "metrics", "costs", "scalars", "kinds", "pareto",
    "along", "gap", "crosscheck", "conflict", "graded", "history",
    "confirmations", "layouts", "classes", "steps", "heads", "pages", "needles",
    "tokens", "overlap", "mirrors", "pruning", "sparsity", "charged", "paged",
    "utilised", "rewritten", "dials", "ablations", "ratios", "drifts",
    "merging", "pools", "requests", "pool_steps", "prompts", "device_caches",
    /* of what models answered */
    "evaluations", "answers", "answer_means", "answer_values", NULL};

enum { PATH = 4096 };

static void path_of(const kv_args *a, const char *view, char path[PATH]) {
  snprintf(path, PATH, "%s/%s.%s", a->output, view,
           a->format == KV_CSV ? "csv" : "jsonl");
}

/* No file may replace the database that is read, another one or a trace. */
static int export_may(const kv_args *a) {
  char path[PATH];
  kv_err e = {0};
  const kv_place in = {
      .what = "the database", .path = a->files.item[0], .database = true};
  for (int i = 0; views[i]; i++) {
    const kv_place out = {.what = "--output", .path = path};
    path_of(a, views[i], path);
    if (kv_places_apart(1, &in, 1, &out, &e))
      return kv_tell((int)e.rc, "%s", e.text);
  }
  return KV_EXIT_OK;
}

static int export_one(sqlite3 *db, const kv_args *a, const char *view) {
  char path[PATH], sql[64];
  kv_grid g;
  FILE *f;
  int rc;
  path_of(a, view, path);
  snprintf(sql, sizeof sql, "SELECT * FROM %s", view);
  rc = kv_grid_ask(db, sql, 0, NULL, &g);
  if (rc) return rc;
  f = kv_output_open(path);
  if (f) kv_grid_write(&g, (kv_grid_format)a->format, f);
  rc = f ? kv_output_close(f, path) : KV_EXIT_RESOURCE;
  kv_grid_free(&g);
  return rc;
}

int kv_report_export(const kv_args *given) {
  kv_args a = *given;
  sqlite3 *db = NULL;
  int rc;
  a.format = given->format ? KV_JSONL : KV_CSV;
  if (kv_output_is_stdout(a.output)) return kv_report_cells(&a);
  rc = export_may(&a);
  if (!rc) rc = kv_results_open(a.files.item[0], &db);
  if (!rc && mkdir(a.output, 0777) && errno != EEXIST)
    rc = kv_tell(KV_EXIT_RESOURCE, "cannot make the folder %s: %s", a.output,
                 strerror(errno));
  if (!rc) rc = kv_lines_fill(db);
  if (!rc) rc = kv_results_answers(db, a.files.item[0]);
  for (int i = 0; views[i] && !rc; i++) rc = export_one(db, &a, views[i]);
  sqlite3_close(db);
  return rc;
}

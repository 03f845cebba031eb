/* SPDX-License-Identifier: Apache-2.0
 *
 * kvreport export: every view as its own file, written whole; and answers as
 * lm-evaluation-harness's samples.
 */
#include "analysis/commands.h"
#include "analysis/database/results.h"
#include "analysis/database/say.h"
#include "analysis/tables/grid_write.h"
#include "analysis/tables/lines.h"
#include "analysis/tables/output.h"
#include "analysis/tables/text.h"

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
    "evaluations", "answers", "answer_means", "answer_values", "texts", NULL};

enum { PATH = 4096 };

static void path_of(const kv_args *a, const char *view, char path[PATH]) {
  snprintf(path, PATH, "%s/%s.%s", a->output, view,
           a->format == KV_CSV ? "csv" : "jsonl");
}

/* No file may replace the database that is read, another one or a trace. */
static int may_write(const kv_args *a, const char *option, const char *path) {
  kv_err e = {0};
  const kv_place out = {.what = option, .path = path};
  const kv_place in = {
      .what = "the database", .path = a->files.item[0], .database = true};
  if (!kv_places_apart(1, &in, 1, &out, &e)) return KV_EXIT_OK;
  return kv_tell((int)e.rc, "%s", e.text);
}

static int make_folder(const char *path) {
  if (!mkdir(path, 0777) || errno == EEXIST) return KV_EXIT_OK;
  return kv_tell(KV_EXIT_RESOURCE, "cannot make the folder %s: %s", path,
                 strerror(errno));
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

/* --- samples -------------------------------------------------------------- */

/* Writes a line of JSON. A byte that is no UTF-8 becomes the text \xNN. */
static void put_line(const char *t, FILE *f) {
  bool shown;
  for (int n; *t; t += n) {
    n = kv_text_next(t, &shown);
    if (n == 1 && *t & 0x80)
      fprintf(f, "\\\\x%02X", (unsigned)(unsigned char)*t);
    else
      fwrite(t, 1, (size_t)n, f);
  }
  putc('\n', f);
}

/* Writes rows first..end - 1 of sample_lines, which are one file. */
static int put_file(const kv_args *a, const kv_grid *g, int first, int end) {
  char path[PATH];
  snprintf(path, PATH, "%s/%s", a->samples, kv_grid_text(g, first, "folder"));
  int rc = make_folder(path);
  snprintf(path, PATH, "%s/%s/%s", a->samples, kv_grid_text(g, first, "folder"),
           kv_grid_text(g, first, "file"));
  if (!rc) rc = may_write(a, "--samples", path);
  if (rc) return rc;
  FILE *f = kv_output_open(path);
  for (int r = first; f && r < end; r++)
    put_line(kv_grid_text(g, r, "line"), f);
  return f ? kv_output_close(f, path) : KV_EXIT_RESOURCE;
}

static int put_samples(sqlite3 *db, const kv_args *a) {
  kv_grid g;
  int rc = kv_grid_ask(db, "SELECT * FROM sample_lines", 0, NULL, &g);
  if (rc) return rc;
  double lacking = g.rows ? kv_grid_number(&g, g.rows - 1, "lacking") : 0;
  if (!g.rows)
    rc = kv_tell(KV_EXIT_USAGE,
                 "no text of an answer is stored in %s; `kvreplay evaluate "
                 "--again` adds texts to its rows",
                 a->files.item[0]);
  if (!rc) rc = make_folder(a->samples);
  for (int r = 0, end; r < g.rows && !rc; r = end) {
    end = kv_grid_end(&g, r, "folder file");
    rc = put_file(a, &g, r, end);
  }
  if (!rc && lacking > 0)
    kv_tell(KV_EXIT_OK, "%.0f answers have no stored text and are left out",
            lacking);
  kv_grid_free(&g);
  return rc;
}

int kv_report_export(const kv_args *given) {
  kv_args a = *given;
  char path[PATH];
  sqlite3 *db = NULL;
  int rc = KV_EXIT_OK;
  bool files = !kv_output_is_stdout(a.output);
  a.format = given->format ? KV_JSONL : KV_CSV;
  if (!files && !a.samples) return kv_report_cells(&a);
  for (int i = 0; files && views[i] && !rc; i++) {
    path_of(&a, views[i], path);
    rc = may_write(&a, "--output", path);
  }
  if (!rc) rc = kv_results_open(a.files.item[0], &db);
  if (!rc && files) rc = make_folder(a.output);
  if (!rc && files) rc = kv_lines_fill(db);
  if (!rc) rc = kv_results_answers(db, a.files.item[0]);
  for (int i = 0; files && views[i] && !rc; i++)
    rc = export_one(db, &a, views[i]);
  if (!rc && a.samples) rc = put_samples(db, &a);
  sqlite3_close(db);
  return rc;
}

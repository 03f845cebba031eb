/* SPDX-License-Identifier: Apache-2.0
 *
 * kvreport answer: which method is best at equal bytes, in a sentence and in
 * one table of bytes held and one of bytes read.
 */
#include "analysis/commands.h"
#include "analysis/compare/answer.h"
#include "analysis/database/results.h"
#include "analysis/database/say.h"
#include "analysis/tables/grid_write.h"
#include "analysis/tables/output.h"
#include "traces/option/help.h"

static const char *const titles[] = {
    "Equal bytes stored, shares of dense's on average over decode steps:",
    "Equal bytes read and scanned, shares of what dense reads:"};

static int write_table(sqlite3 *db, const kv_answer *a, int reads, FILE *f) {
  kv_grid g;
  int rc = kv_answer_ask(db, a, reads, &g);
  if (rc || !g.rows) return rc;
  fputs("\n", f);
  kv_help_wrap(f, 0, 0, titles[reads]);
  kv_grid_write(&g, KV_TABLE, f);
  kv_grid_free(&g);
  return KV_EXIT_OK;
}

static int write_words(sqlite3 *db, const kv_answer *a, FILE *f) {
  char said[KV_ANSWER_SAID];
  int rc = KV_EXIT_OK;
  kv_answer_say(a, said);
  kv_help_wrap(f, 0, 0, said);
  kv_answer_say_fewest(a, said);
  if (*said) kv_help_wrap(f, 0, 0, said);
  for (int reads = 0; reads < 2 && !rc; reads++)
    rc = write_table(db, a, reads, f);
  if (!a->sizes || rc) return rc;
  fputs("\n", f);
  kv_help_wrap(f, 0, 0, kv_answer_marks);
  return rc;
}

static int write_rows(sqlite3 *db, kv_grid_format format, FILE *f) {
  kv_grid g;
  int rc = kv_grid_ask(db,
                       "SELECT * FROM answered_at ORDER BY reads, basis, size,"
                       " rank",
                       0, NULL, &g);
  if (rc) return rc;
  kv_grid_write(&g, format, f);
  kv_grid_free(&g);
  return KV_EXIT_OK;
}

static int write(sqlite3 *db, const kv_args *a, const kv_answer *of) {
  FILE *f = kv_output_open(a->output);
  if (!f) return KV_EXIT_RESOURCE;
  int rc = a->format == KV_TABLE ? write_words(db, of, f)
                                 : write_rows(db, (kv_grid_format)a->format, f);
  int end = kv_output_close(f, a->output);
  return rc ? rc : end;
}

int kv_report_answer(const kv_args *a) {
  kv_answer of = {.sizes = 0};
  sqlite3 *db = NULL;
  int rc = kv_results_open(a->files.item[0], &db);
  if (!rc) rc = kv_answer_find(db, &of);
  if (!rc) rc = kv_answer_put(db, &of);
  if (!rc) rc = write(db, a, &of);
  kv_answer_free(&of);
  sqlite3_close(db);
  return rc;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * kvreport answer: which method is best at equal bytes. First from evaluations,
 * in sentences and one table; then from traces, in a sentence and in one table
 * of bytes held and one of bytes read.
 */
#include "analysis/commands.h"
#include "analysis/compare/closed.h"
#include "analysis/database/results.h"
#include "analysis/database/say.h"
#include "analysis/tables/grid_write.h"
#include "analysis/tables/output.h"
#include "traces/option/help.h"

#include <string.h>

static const char *const titles[] = {
    "Equal bytes stored, shares of dense's on average over decode steps:",
    "Equal bytes read and scanned, shares of what dense reads:",
    "Right answers, with 95 % intervals:"};
enum { STORED, READ, RIGHT };

static int write_table(sqlite3 *db, const kv_answer *a, int which, FILE *f) {
  kv_grid g;
  int rc = kv_answer_ask(db, a, which == READ, &g);
  if (rc || !g.rows) return rc;
  fputs("\n", f);
  kv_help_wrap(f, 0, 0, titles[which]);
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
  for (int which = STORED; which <= READ && !rc; which++)
    rc = write_table(db, a, which, f);
  if (!a->sizes || rc) return rc;
  fputs("\n", f);
  kv_help_wrap(f, 0, 0, kv_answer_marks);
  return rc;
}

/* What the command found. */
typedef struct found {
  kv_closed closed;
  kv_answer open;
} found;

static int write_closed(sqlite3 *db, const found *x, FILE *f) {
  char said[KV_ANSWER_SAID];
  kv_closed_say(&x->closed, said);
  if (!*said) return KV_EXIT_OK;
  for (char *rest = said, *line; (line = strsep(&rest, "\n"));)
    kv_help_wrap(f, 0, 0, line);
  int rc = write_table(db, &x->closed.a, RIGHT, f);
  fputs("\n", f);
  kv_help_wrap(f, 0, 0,
               x->open.sizes ? "By attention in recorded traces:"
                             : kv_answer_marks);
  return rc;
}

/* For programs: both in one table. */
static int write_rows(sqlite3 *db, kv_grid_format format, FILE *f) {
  kv_grid g;
  int rc = kv_grid_ask(db,
                       "SELECT * FROM (SELECT * FROM closed_all UNION ALL"
                       " SELECT * FROM answered_at) ORDER BY measure <>"
                       " 'exact_match', reads, basis, size, rank",
                       0, NULL, &g);
  if (rc) return rc;
  kv_grid_write(&g, format, f);
  kv_grid_free(&g);
  return KV_EXIT_OK;
}

static int write(sqlite3 *db, const kv_args *a, const found *x) {
  FILE *f = kv_output_open(a->output);
  int rc = KV_EXIT_OK;
  if (!f) return KV_EXIT_RESOURCE;
  if (a->format != KV_TABLE) {
    rc = write_rows(db, (kv_grid_format)a->format, f);
  } else {
    rc = write_closed(db, x, f);
    if (!rc && (x->open.sizes || !(x->closed.a.sizes + x->closed.left.rows)))
      rc = write_words(db, &x->open, f);
  }
  int end = kv_output_close(f, a->output);
  return rc ? rc : end;
}

static int find(sqlite3 *db, const char *path, found *x) {
  int rc = kv_results_answers(db, path);
  if (!rc) rc = kv_closed_find(db, &x->closed);
  if (!rc) rc = kv_closed_put(db, &x->closed);
  if (!rc) rc = kv_answer_find(db, &x->open);
  if (!rc) rc = kv_answer_put(db, &x->open);
  return rc;
}

int kv_report_answer(const kv_args *a) {
  found x = {.open = {.sizes = 0}};
  sqlite3 *db = NULL;
  int rc = kv_results_open(a->files.item[0], &db);
  if (!rc) rc = find(db, a->files.item[0], &x);
  if (!rc) rc = write(db, a, &x);
  kv_answer_free(&x.open);
  kv_closed_free(&x.closed);
  sqlite3_close(db);
  return rc;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What both reports of `kvreplay tune` write (sim/commands/tune.h): rows as
 * `run` prints them, a table of text, sentences about a point, and the best as
 * a command line. Where rows are for programs that line is a remark on standard
 * error.
 */
#include "sim/commands/tune.h"

#include "sim/commands/commands.h"
#include "traces/text/text.h"
#include <stdlib.h>
#include <string.h>

enum { WORDS = KV_TUNE_WORDS, NAME = 160 };

/* --- rows ----------------------------------------------------------------- */

static kv_rc add_rows(kv_row_writer *w, int n, const kv_result *row,
                      kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < n; i++) rc = kv_row_writer_add(w, &row[i], e);
  return rc;
}

/* Those tuned on of all methods, then those held out. */
static kv_rc add_fronts(kv_row_writer *w, int n, const kv_tuned *const *of,
                        int traces, bool held, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; i < n; i++)
    for (int k = 0; !rc && k < of[i]->n_front; k++) {
      const kv_result *row = held ? of[i]->held_row : of[i]->row;
      rc = add_rows(w, traces, &row[of[i]->front[k] * traces], e);
    }
  return rc;
}

kv_rc kv_tuning_rows(const kv_tuning *s, int n, const kv_tuned *const *of,
                     kv_err *e) {
  const kv_tune_options *o = &s->options;
  kv_row_writer *w;
  kv_err closing = {0};
  kv_row_format format =
      o->format == KV_ROWS_TABLE ? KV_ROWS_WIDE : (kv_row_format)o->format;
  kv_rc rc =
      kv_row_writer_open(format, stdout, kv_colour_wanted(stdout), &w, e);
  if (!rc) rc = add_fronts(w, n, of, o->cells.traces.n, false, e);
  if (!rc) rc = add_fronts(w, n, of, o->hold_out.n, true, e);
  kv_rc closed = kv_row_writer_close(w, &closing);
  if (rc || !closed) return rc;
  return kv_fail(e, closed, "%s", closing.text);
}

/* --- a table -------------------------------------------------------------- */

void kv_tuning_table(const void *of, int rows, int columns,
                     kv_tuning_cell *cell) {
  int width[KV_TUNE_COLUMNS] = {0};
  char text[KV_TUNE_CELL];
  for (int row = -1; row < rows; row++)
    for (int c = 0; c < columns; c++) {
      cell(of, row, c, text);
      int wide = (int)strlen(text);
      width[c] = wide > width[c] ? wide : width[c];
    }
  for (int row = -1; row < rows; row++) {
    for (int c = 0; c < columns; c++) {
      cell(of, row, c, text);
      printf("  %*s", c ? width[c] : -width[c], text);
    }
    putchar('\n');
  }
}

/* --- words ---------------------------------------------------------------- */

void kv_tuning_describe(const kv_tune_goal *g, const kv_tune_judgement *j,
                        char out[WORDS]) {
  size_t n = 0;
  *out = 0;
  for (int i = 1; i <= g->n && n < WORDS; i++) {
    const kv_tune_measure *m = &g->measure[i % g->n];
    n += (size_t)snprintf(out + n, WORDS - n, "%s%s %.6g", i > 1 ? ", " : "",
                          m->key, j->mean[i % g->n]);
    if (i < g->n && n < WORDS)
      n += (size_t)snprintf(out + n, WORDS - n, " (at %s %.6g)",
                            m->sign > 0 ? "most" : "least", m->bound);
  }
}

void kv_tuning_why(const kv_tuning *s, const kv_tuned *m, int at,
                   const kv_tune_judgement *j, const kv_result *row,
                   char out[WORDS]) {
  const kv_result *r = &row[j->lacks];
  char name[NAME];
  kv_tune_space_show(m->space, m->search.point[at].at, NAME, name);
  if (j->measure < 0)
    snprintf(out, WORDS, "%s on %.80s: %.200s", name, r->trace, r->reason);
  else
    snprintf(out, WORDS, "%s on %.80s has no %s", name, r->trace,
             s->options.goal.measure[j->measure].key);
}

kv_rc kv_tuning_best(const kv_tuning *s, const kv_tuned *m, kv_err *e) {
  char *line = kv_tuning_line(s, m), *note = NULL;
  if (line && s->options.format == KV_ROWS_TABLE) {
    puts("\nbest:");
    kv_put_plain(stdout, line);
    putchar('\n');
    free(line);
    return KV_OK;
  }
  if (line) note = kv_tuning_note(line);
  if (note) kv_note(note);
  kv_rc rc = note ? KV_OK : kv_no_memory(e, "a command line", 1);
  free(note);
  free(line);
  return rc;
}

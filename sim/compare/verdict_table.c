/* SPDX-License-Identifier: Apache-2.0
 *
 * Verdicts as a table for people: a line a cell and backend, grouped as they
 * came, and the counts.
 */
#include "sim/compare/verdict.h"

#include "sim/show/row_label.h"
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 4, MOST = 40, CELL = 256 };

static const char *const heads[COLUMNS] = {"trace", "method", "budget",
                                           "backend"};

static kv_rc fill(const kv_verdict *v, char cell[COLUMNS][CELL], kv_err *e) {
  kv_row_label label;
  kv_rc rc = kv_row_label_make(v->row, &label, e);
  if (rc) return rc;
  kv_plain(v->row->trace, CELL - 32, cell[0]);
  if (v->row->observe)
    snprintf(cell[0] + strlen(cell[0]), 32, ", %s",
             kv_observe_names[v->row->observe]);
  kv_plain(label.brief, CELL, cell[1]);
  snprintf(cell[2], CELL, "%s", v->row->target[0] ? v->row->target : "-");
  snprintf(cell[3], CELL, "%s", v->backend);
  kv_row_label_free(&label);
  return KV_OK;
}

static int larger(int a, size_t b) {
  int n = b > MOST ? MOST : (int)b;
  return n > a ? n : a;
}

static void line(FILE *out, const int width[COLUMNS],
                 const char *const cell[COLUMNS], const char *text) {
  for (int c = 0; c < COLUMNS; c++) fprintf(out, "%-*s  ", width[c], cell[c]);
  fprintf(out, "%s\n", text);
}

static void close(const kv_verdicts *w) {
  const char *between = "";
  if (*w->closing) {
    fprintf(w->out, "%s\n", w->closing);
    return;
  }
  for (int i = 0; i < KV_OUTCOMES; i++) {
    if (!w->count[i] && i > KV_DIFFERS) continue;
    fprintf(w->out, "%s%d %s", between, w->count[i], kv_outcome_names[i]);
    between = ", ";
  }
  fputc('\n', w->out);
}

kv_rc kv_verdicts_table(const kv_verdicts *w, kv_err *e) {
  int width[COLUMNS];
  size_t n = (size_t)w->n;
  kv_rc rc = KV_OK;
  if (n == 0 && *w->closing) close(w);
  if (n == 0) return KV_OK;
  char(*cell)[COLUMNS][CELL] = kv_zalloc(n, sizeof *cell);
  if (!cell) return kv_no_memory(e, "the table", n * sizeof *cell);
  for (int c = 0; c < COLUMNS; c++) width[c] = (int)strlen(heads[c]);
  for (size_t i = 0; !rc && i < n; i++) {
    rc = fill(&w->verdict[i], cell[i], e);
    for (int c = 0; c < COLUMNS; c++)
      width[c] = larger(width[c], strlen(cell[i][c]));
  }
  if (!rc) line(w->out, width, heads, "verdict");
  for (size_t i = 0; !rc && i < n; i++) {
    const char *text[COLUMNS];
    for (int c = 0; c < COLUMNS; c++) text[c] = cell[i][c];
    line(w->out, width, text, kv_verdict_text(&w->verdict[i]));
  }
  if (!rc) close(w);
  free(cell);
  return rc;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The stream of verdicts as JSON, JUnit and a table: sim/cli/show/verdict.h.
 */
#include "sim/cli/show/verdict.h"

#include "ref/ground/json.h"
#include "ref/ground/text.h"
#include "sim/cli/show/junit.h"
#include "sim/cli/show/row_label.h"
#include <stdlib.h>
#include <string.h>

static void verdicts_junit(const kv_verdicts *w);

static kv_rc verdicts_table(const kv_verdicts *w, kv_err *e);

const char *const kv_outcome_names[KV_OUTCOMES] = {
    "equal", "different", "refused", "failed", "not found", "superseded"};

/* The outcome as text: "equal", the sentence or, for a refused cell, its row's
 * reason. Valid as long as v and its row. */
static const char *verdict_text(const kv_verdict *v) {
  if (v->outcome == KV_EQUAL) return kv_outcome_names[KV_EQUAL];
  if (v->absent) return "this backend does not have the method: it is ref only";
  return v->outcome == KV_NOT_RUN ? v->row->reason : v->difference.sentence;
}

/* --- JSON --------------------------------------------------------------- */

static void difference(kv_json *j, const kv_difference *d) {
  kv_json_open(j, "difference", '{');
  kv_json_text_or_null(j, "what", d->what);
  kv_json_count_or_null(j, "layer", d->layer);
  kv_json_count_or_null(j, "step", d->step);
  kv_json_count_or_null(j, "lane", d->lane);
  kv_json_count_or_null(j, "head", d->head);
  kv_json_count_or_null(j, "index", d->index);
  kv_json_text_or_null(j, "a", d->a);
  kv_json_text_or_null(j, "b", d->b);
  kv_json_text_or_null(j, "sentence", d->sentence);
  kv_json_close(j, '}');
}

static void object(FILE *out, const kv_verdict *v) {
  static const char *const equal[KV_OUTCOMES] = {"true", "false", "null",
                                                 "null", "null",  "null"};
  kv_json j = {.out = out};
  const kv_result *r = v->row;
  kv_json_open(&j, NULL, '{');
  kv_json_text_or_null(&j, "trace", r->trace);
  kv_json_count_or_null(&j, "prompt_len", r->prompt_len);
  kv_json_text(&j, "observe", kv_observe_names[r->observe]);
  kv_json_count_or_null(&j, "n_tokens", r->n_tokens);
  kv_json_text_or_null(&j, "method", r->method);
  kv_json_raw(&j, "params", r->params ? r->params : "null");
  kv_json_text_or_null(&j, "spec", r->spec);
  kv_json_count_or_null(&j, "budget", r->budget);
  kv_json_text_or_null(&j, "basis", kv_basis_names[r->basis]);
  kv_json_text_or_null(&j, "target", r->target);
  kv_json_text_or_null(&j, "first", v->first);
  kv_json_text_or_null(&j, "backend", v->backend);
  kv_json_text_or_null(&j, "outcome", kv_outcome_names[v->outcome]);
  kv_json_raw(&j, "equal", equal[v->outcome]);
  kv_json_text_or_null(&j, "reason",
                       v->outcome >= KV_NOT_RUN ? verdict_text(v) : NULL);
  if (v->outcome == KV_DIFFERS)
    difference(&j, &v->difference);
  else
    kv_json_null(&j, "difference");
  kv_json_close(&j, '}');
}

/* --- the stream --------------------------------------------------------- */

void kv_verdicts_open(kv_verdict_format format, const char *suite, FILE *out,
                      kv_verdicts *w) {
  *w = (kv_verdicts){.format = format, .suite = suite, .out = out};
}

static kv_rc keep(kv_verdicts *w, const kv_verdict *v, kv_err *e) {
  if (w->n == w->room) {
    int room = w->room ? 2 * w->room : 32;
    size_t bytes = (size_t)room * sizeof *w->verdict;
    kv_verdict *more = realloc(w->verdict, bytes);
    if (!more) return kv_no_memory(e, "the verdicts", bytes);
    w->verdict = more;
    w->room = room;
  }
  w->verdict[w->n++] = *v;
  w->count[v->outcome]++;
  return KV_OK;
}

kv_rc kv_verdicts_add(kv_verdicts *w, const kv_verdict *v, kv_err *e) {
  kv_rc rc = keep(w, v, e);
  if (rc) return rc;
  if (w->format == KV_VERDICTS_JSON) {
    fputs(w->n > 1 ? ",\n" : "[\n", w->out);
    object(w->out, v);
  }
  if (w->format == KV_VERDICTS_JSONL) {
    object(w->out, v);
    fputc('\n', w->out);
  }
  return kv_flush(w->out, e);
}

kv_rc kv_verdicts_close(kv_verdicts *w, kv_err *e) {
  kv_rc rc = KV_OK;
  if (w->format == KV_VERDICTS_TABLE) rc = verdicts_table(w, e);
  if (w->format == KV_VERDICTS_JSON) fputs(w->n ? "\n]\n" : "[]\n", w->out);
  if (w->format == KV_VERDICTS_JUNIT) verdicts_junit(w);
  if (!rc) rc = kv_flush(w->out, e);
  kv_verdicts_drop(w);
  return rc;
}

void kv_verdicts_drop(kv_verdicts *w) {
  free(w->verdict);
  w->verdict = NULL;
  w->n = w->room = 0;
}

/* --- junit --------------------------------------------------------------- */

static const kv_junit_outcome as[KV_OUTCOMES] = {
    [KV_EQUAL] = KV_JUNIT_PASSED,    [KV_DIFFERS] = KV_JUNIT_FAILURE,
    [KV_NOT_RUN] = KV_JUNIT_SKIPPED, [KV_GAVE_UP] = KV_JUNIT_ERROR,
    [KV_NOT_FOUND] = KV_JUNIT_ERROR, [KV_SUPERSEDED] = KV_JUNIT_SKIPPED};

static void verdicts_junit(const kv_verdicts *w) {
  int count[KV_JUNIT_OUTCOMES] = {0};
  for (int i = 0; i < KV_OUTCOMES; i++) count[as[i]] += w->count[i];
  kv_junit_begin(w->out, w->suite, count);
  for (int i = 0; i < w->n; i++) {
    const kv_verdict *v = &w->verdict[i];
    const char *const name[] = {v->row->spec, " on ", v->backend, NULL};
    kv_junit_case(w->out, v->row->trace, name, as[v->outcome], verdict_text(v),
                  NULL, NULL);
  }
  kv_junit_end(w->out);
}

/* --- table --------------------------------------------------------------- */

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

/* Called by close, which checks errors of out. KV_RESOURCE: memory. */
static kv_rc verdicts_table(const kv_verdicts *w, kv_err *e) {
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
    line(w->out, width, text, verdict_text(&w->verdict[i]));
  }
  if (!rc) close(w);
  free(cell);
  return rc;
}

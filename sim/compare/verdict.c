/* SPDX-License-Identifier: Apache-2.0
 *
 * The stream of verdicts, and its JSON: sim/compare/verdict.h.
 */
#include "sim/compare/verdict.h"

#include "sim/text/json.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *const kv_outcome_names[KV_OUTCOMES] = {
    "equal", "different", "refused", "failed", "not found", "superseded"};

const char *kv_verdict_text(const kv_verdict *v) {
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
                       v->outcome >= KV_NOT_RUN ? kv_verdict_text(v) : NULL);
  if (v->outcome == KV_DIFFERS)
    difference(&j, &v->difference);
  else
    kv_json_null(&j, "difference");
  kv_json_close(&j, '}');
}

/* --- the stream --------------------------------------------------------- */

static kv_rc look(FILE *out, kv_err *e) {
  if (fflush(out) == 0 && !ferror(out)) return KV_OK;
  return kv_fail(e, KV_RESOURCE, "the verdicts could not be written: %s",
                 strerror(errno));
}

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
  return look(w->out, e);
}

kv_rc kv_verdicts_close(kv_verdicts *w, kv_err *e) {
  kv_rc rc = KV_OK;
  if (w->format == KV_VERDICTS_TABLE) rc = kv_verdicts_table(w, e);
  if (w->format == KV_VERDICTS_JSON) fputs(w->n ? "\n]\n" : "[]\n", w->out);
  if (w->format == KV_VERDICTS_JUNIT) kv_verdicts_junit(w);
  if (!rc) rc = look(w->out, e);
  kv_verdicts_drop(w);
  return rc;
}

void kv_verdicts_drop(kv_verdicts *w) {
  free(w->verdict);
  w->verdict = NULL;
  w->n = w->room = 0;
}

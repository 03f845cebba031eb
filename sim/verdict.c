/* SPDX-License-Identifier: Apache-2.0
 *
 * The stream of verdicts, and its JSON: sim/verdict.h.
 */
#include "sim/verdict.h"

#include "sim/json.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *const kv_outcome_names[KV_OUTCOMES] = {"equal", "different",
                                                   "refused", "failed"};

const char *kv_verdict_text(const kv_verdict *v) {
  if (v->outcome == KV_EQUAL) return kv_outcome_names[KV_EQUAL];
  if (v->absent) return "this backend does not have the method: it is ref only";
  return v->outcome == KV_NOT_RUN ? v->row->reason : v->difference.sentence;
}

/* --- JSON --------------------------------------------------------------- */

static void text(kv_json *j, const char *key, const char *value) {
  if (value && *value)
    kv_json_text(j, key, value);
  else
    kv_json_null(j, key);
}

static void number(kv_json *j, const char *key, int value) {
  if (value >= 0)
    kv_json_integer(j, key, value);
  else
    kv_json_null(j, key);
}

static void difference(kv_json *j, const kv_difference *d) {
  kv_json_open(j, "difference", '{');
  text(j, "what", d->what);
  number(j, "layer", d->layer);
  number(j, "step", d->step);
  number(j, "lane", d->lane);
  number(j, "head", d->head);
  number(j, "index", d->index);
  text(j, "a", d->a);
  text(j, "b", d->b);
  text(j, "sentence", d->sentence);
  kv_json_close(j, '}');
}

static void object(FILE *out, const kv_verdict *v) {
  static const char *const equal[KV_OUTCOMES] = {"true", "false", "null",
                                                 "null"};
  kv_json j = {.out = out};
  const kv_result *r = v->row;
  kv_json_open(&j, NULL, '{');
  text(&j, "trace", r->trace);
  number(&j, "prompt_len", r->prompt_len);
  number(&j, "n_tokens", r->n_tokens);
  text(&j, "method", r->method);
  kv_json_raw(&j, "params", r->params ? r->params : "null");
  text(&j, "spec", r->spec);
  number(&j, "budget", r->budget);
  text(&j, "basis", kv_basis_names[r->basis]);
  text(&j, "target", r->target);
  text(&j, "first", v->first);
  text(&j, "backend", v->backend);
  text(&j, "outcome", kv_outcome_names[v->outcome]);
  kv_json_raw(&j, "equal", equal[v->outcome]);
  text(&j, "reason", v->outcome >= KV_NOT_RUN ? kv_verdict_text(v) : NULL);
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

void kv_verdicts_open(kv_verdict_format format, FILE *out, kv_verdicts *w) {
  *w = (kv_verdicts){.format = format, .out = out};
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cli/show/law_report.h"

#include "ref/ground/json.h"
#include "ref/ground/text.h"
#include "sim/cli/show/junit.h"
#include "sim/run/laws/lawcheck.h"
#include "traces/option/help.h"
#include <stdlib.h>
#include <string.h>

void kv_law_report_open(kv_law_format format, bool quiet, FILE *out,
                        kv_law_report *r) {
  *r = (kv_law_report){.format = format, .quiet = quiet, .out = out};
}

/* --- answers ------------------------------------------------------------ */

enum { TEXTS = 5 };

static void texts_of(kv_law_answer *a, const char **out[TEXTS]) {
  const char **all[TEXTS] = {&a->law, &a->spec, &a->trace, &a->reason,
                             &a->again};
  memcpy(out, all, sizeof all);
}

static void free_answer(kv_law_answer *a) {
  const char **text[TEXTS];
  texts_of(a, text);
  for (int i = 0; i < TEXTS; i++) free((char *)(uintptr_t)*text[i]);
}

static bool copy_texts(kv_law_answer *a) {
  const char **text[TEXTS];
  bool ok = true;
  texts_of(a, text);
  for (int i = 0; i < TEXTS; i++) {
    *text[i] = strdup(*text[i] ? *text[i] : "");
    ok = ok && *text[i];
  }
  return ok;
}

static kv_rc keep(kv_law_report *r, const kv_law_answer *a, kv_err *e) {
  if (r->n == r->room) {
    int room = r->room ? 2 * r->room : 64;
    size_t bytes = (size_t)room * sizeof *r->answer;
    kv_law_answer *more = realloc(r->answer, bytes);
    if (!more) return kv_no_memory(e, "the answers", bytes);
    r->answer = more;
    r->room = room;
  }
  kv_law_answer *to = &r->answer[r->n];
  *to = *a;
  if (!copy_texts(to)) {
    free_answer(to);
    return kv_no_memory(e, "an answer", sizeof *to);
  }
  r->n++;
  r->count[a->outcome]++;
  return KV_OK;
}

/* --- forms -------------------------------------------------------------- */

static void say_broken(FILE *out, const kv_law_answer *a) {
  fprintf(out, "broken: law %s, on %s", a->law, a->trace);
  if (a->entries >= 0) fprintf(out, ", budget %d", a->entries);
  fprintf(out, "\n  %s\n  law %s: %s\n  again: %s\n", a->reason, a->law,
          kv_lawcheck_statement(a->law), a->again);
}

static void object(FILE *out, const kv_law_answer *a) {
  static const char *const name[KV_LAW_OUTCOMES] = {"holds", "broken",
                                                    "refused"};
  kv_json j = {.out = out};
  kv_json_open(&j, NULL, '{');
  kv_json_text_or_null(&j, "law", a->law);
  kv_json_text_or_null(&j, "spec", a->spec);
  kv_json_text_or_null(&j, "trace", a->trace);
  kv_json_count_or_null(&j, "budget", a->entries);
  kv_json_text_or_null(&j, "outcome", name[a->outcome]);
  kv_json_text_or_null(&j, "reason", a->reason);
  kv_json_text_or_null(&j, "again", a->again);
  kv_json_close(&j, '}');
}

static void junit(const kv_law_report *r) {
  static const kv_junit_outcome as[KV_LAW_OUTCOMES] = {
      KV_JUNIT_PASSED, KV_JUNIT_FAILURE, KV_JUNIT_SKIPPED};
  int count[KV_JUNIT_OUTCOMES] = {0};
  for (int i = 0; i < KV_LAW_OUTCOMES; i++) count[as[i]] = r->count[i];
  kv_junit_begin(r->out, "kvreplay lawcheck", count);
  for (int i = 0; i < r->n; i++) {
    const kv_law_answer *a = &r->answer[i];
    char budget[32] = "";
    if (a->entries >= 0)
      snprintf(budget, sizeof budget, ", budget %d", a->entries);
    const char *const name[] = {a->law, " of ", a->spec, budget, NULL};
    kv_junit_case(r->out, a->trace, name, as[a->outcome], a->reason, NULL,
                  NULL);
  }
  kv_junit_end(r->out);
}

static void table(const kv_law_report *r, int n, const char *const *laws) {
  for (int i = 0; i < n && !r->quiet && !r->count[KV_LAW_BROKEN]; i++) {
    int refused = kv_law_report_count(r, laws[i], KV_LAW_REFUSED);
    fprintf(r->out, "%-9s holds in %d cells", laws[i],
            kv_law_report_count(r, laws[i], KV_LAW_HOLDS));
    if (refused) fprintf(r->out, ", not applicable in %d", refused);
    fputs("\n          ", r->out);
    kv_help_wrap(r->out, 10, 10, kv_lawcheck_statement(laws[i]));
  }
}

/* --- the stream --------------------------------------------------------- */

kv_rc kv_law_report_add(kv_law_report *r, const kv_law_answer *a, kv_err *e) {
  kv_rc rc = keep(r, a, e);
  if (rc) return rc;
  a = &r->answer[r->n - 1];
  if (r->format == KV_LAWS_TABLE && a->outcome == KV_LAW_BROKEN)
    say_broken(r->out, a);
  if (r->format == KV_LAWS_JSON) {
    fputs(r->n > 1 ? ",\n" : "[\n", r->out);
    object(r->out, a);
  }
  return kv_flush(r->out, e);
}

int kv_law_report_count(const kv_law_report *r, const char *law,
                        kv_law_outcome outcome) {
  int n = 0;
  for (int i = 0; i < r->n; i++)
    n += r->answer[i].outcome == outcome && !strcmp(r->answer[i].law, law);
  return n;
}

kv_rc kv_law_report_close(kv_law_report *r, int n, const char *const *laws,
                          kv_err *e) {
  if (r->format == KV_LAWS_TABLE) table(r, n, laws);
  if (r->format == KV_LAWS_JSON) fputs(r->n ? "\n]\n" : "[]\n", r->out);
  if (r->format == KV_LAWS_JUNIT) junit(r);
  kv_rc rc = kv_flush(r->out, e);
  for (int i = 0; i < r->n; i++) free_answer(&r->answer[i]);
  free(r->answer);
  r->answer = NULL;
  r->n = r->room = 0;
  return rc;
}

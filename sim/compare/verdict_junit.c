/* SPDX-License-Identifier: Apache-2.0
 *
 * Verdicts as JUnit's XML: one testsuite, a testcase a cell and backend.
 */
#include "sim/compare/verdict.h"

#include "sim/show/junit.h"

static const kv_junit_outcome as[KV_OUTCOMES] = {
    [KV_EQUAL] = KV_JUNIT_PASSED,    [KV_DIFFERS] = KV_JUNIT_FAILURE,
    [KV_NOT_RUN] = KV_JUNIT_SKIPPED, [KV_GAVE_UP] = KV_JUNIT_ERROR,
    [KV_NOT_FOUND] = KV_JUNIT_ERROR, [KV_SUPERSEDED] = KV_JUNIT_SKIPPED};

void kv_verdicts_junit(const kv_verdicts *w) {
  int count[KV_JUNIT_OUTCOMES] = {0};
  for (int i = 0; i < KV_OUTCOMES; i++) count[as[i]] += w->count[i];
  kv_junit_begin(w->out, w->suite, count);
  for (int i = 0; i < w->n; i++) {
    const kv_verdict *v = &w->verdict[i];
    const char *const name[] = {v->row->spec, " on ", v->backend, NULL};
    kv_junit_case(w->out, v->row->trace, name, as[v->outcome],
                  kv_verdict_text(v), NULL, NULL);
  }
  kv_junit_end(w->out);
}

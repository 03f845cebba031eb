/* SPDX-License-Identifier: Apache-2.0
 *
 * A grading as JUnit's XML, a test case a layer: sim/grade/grade_report.h.
 */
#include "sim/grade/grade_report.h"

#include <inttypes.h>

#include "sim/show/junit.h"
#include "sim/text/xml.h"

typedef struct of_layer {
  const kv_grade_report *r;
  int i;
} of_layer;

/* A line for each wrong decision and each wrong row of a layer. */
static void everything(const void *self, FILE *out) {
  const kv_grade_report *r = ((const of_layer *)self)->r;
  int i = ((const of_layer *)self)->i;
  char text[KV_VERDICT_TEXT];
  kv_judged j;
  for (size_t at = 0; kv_wrongs_next(&r->layer[i].wrong, &at, &j);) {
    kv_xml_escape(out, kv_judged_text(&j, r->tie, r->page, text));
    fputc('\n', out);
  }
  int64_t n = 0;
  const kv_output_place *p =
      r->outputs ? kv_outputs_wrong(r->outputs, i, &n) : NULL;
  for (int64_t k = 0; k < n; k++) {
    kv_xml_escape(out, kv_output_text(&p[k], text));
    fputc('\n', out);
  }
}

static const kv_output_sums *outputs_of(const kv_grade_report *r, int i) {
  return r->outputs ? kv_outputs_layer(r->outputs, i) : NULL;
}

static bool wrong(const kv_grade_report *r, int i) {
  const kv_output_sums *s = outputs_of(r, i);
  return r->layer[i].count[KV_GRADE_WRONG] || (s && s->wrong);
}

static void testcase(const kv_grade_report *r, int i, FILE *out) {
  const kv_graded_layer *l = &r->layer[i];
  const of_layer self = {r, i};
  char text[KV_VERDICT_TEXT] = "", layer[16];
  const char *const name[] = {r->row->spec, " layer ", layer, NULL};
  snprintf(layer, sizeof layer, "%d", l->layer);
  if (l->count[KV_GRADE_WRONG])
    kv_judged_text(&l->first, r->tie, r->page, text);
  else if (wrong(r, i))
    kv_output_text(&outputs_of(r, i)->first, text);
  kv_junit_case(out, r->row->trace, name,
                wrong(r, i) ? KV_JUNIT_FAILURE : KV_JUNIT_PASSED, text,
                r->all ? everything : NULL, &self);
}

static void properties(const kv_grade_report *r, FILE *out) {
  int64_t never;
  char text[KV_TIE_TEXT];
  kv_tie_text(kv_grade_least_tie(r, &never), text);
  fputs("  <properties>\n", out);
  fprintf(out, "    <property name=\"tie\" value=\"%g\"/>\n", r->tie);
  fprintf(out, "    <property name=\"least_tie\" value=\"%s\"/>\n",
          never ? "none" : text);
  fprintf(out, "    <property name=\"never_ties\" value=\"%" PRId64 "\"/>\n",
          never);
  fputs("  </properties>\n", out);
}

void kv_grade_junit(const kv_grade_report *r, FILE *out) {
  int count[KV_JUNIT_OUTCOMES] = {0};
  for (int i = 0; i < r->layers; i++)
    count[wrong(r, i) ? KV_JUNIT_FAILURE : KV_JUNIT_PASSED]++;
  kv_junit_begin(out, "kvreplay grade", count);
  properties(r, out);
  for (int i = 0; i < r->layers; i++) testcase(r, i, out);
  kv_junit_end(out);
}

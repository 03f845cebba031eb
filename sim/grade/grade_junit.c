/* SPDX-License-Identifier: Apache-2.0
 *
 * A grading as JUnit's XML, a test case a layer: sim/grade/grade_report.h.
 */
#include "sim/grade/grade_report.h"

#include <inttypes.h>

#include "sim/text/xml.h"

/* A line for each wrong decision and each wrong row of a layer. */
static void everything(const kv_grade_report *r, int i, FILE *out) {
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

static void testcase(const kv_grade_report *r, int i, FILE *out) {
  const kv_graded_layer *l = &r->layer[i];
  const kv_output_sums *s = r->outputs ? kv_outputs_layer(r->outputs, i) : NULL;
  char text[KV_VERDICT_TEXT];
  bool wrong = l->count[KV_GRADE_WRONG] > 0;
  fputs("  <testcase", out);
  kv_xml_attribute(out, "classname", r->row->trace);
  fputs(" name=\"", out);
  kv_xml_escape(out, r->row->spec);
  fprintf(out, " layer %d\"", l->layer);
  if (!wrong && !(s && s->wrong)) {
    fputs("/>\n", out);
    return;
  }
  fputs(">\n    <failure", out);
  kv_xml_attribute(out, "message",
                   wrong ? kv_judged_text(&l->first, r->tie, r->page, text)
                         : kv_output_text(&s->first, text));
  if (r->all) {
    fputs(">\n", out);
    everything(r, i, out);
    fputs("    </failure>\n  </testcase>\n", out);
  } else {
    fputs("/>\n  </testcase>\n", out);
  }
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
  int failures = 0;
  for (int i = 0; i < r->layers; i++)
    failures += r->layer[i].count[KV_GRADE_WRONG] ||
                (r->outputs && kv_outputs_layer(r->outputs, i)->wrong);
  fprintf(out,
          "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
          "<testsuite name=\"kvreplay grade\" tests=\"%d\" failures=\"%d\" "
          "errors=\"0\" skipped=\"0\">\n",
          r->layers, failures);
  properties(r, out);
  for (int i = 0; i < r->layers; i++) testcase(r, i, out);
  fputs("</testsuite>\n", out);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Verdicts as JUnit's XML: one testsuite, a testcase a cell and backend.
 */
#include "sim/verdict.h"

#include "sim/xml.h"

static void testcase(FILE *out, const kv_verdict *v) {
  static const char *const tag[KV_OUTCOMES] = {NULL, "failure", "skipped",
                                               "error"};
  const char *name = tag[v->outcome];
  fputs("  <testcase", out);
  kv_xml_attribute(out, "classname", v->row->trace);
  fputs(" name=\"", out);
  kv_xml_escape(out, v->row->spec);
  fputs(" on ", out);
  kv_xml_escape(out, v->backend);
  fputs(name ? "\">\n" : "\"/>\n", out);
  if (!name) return;
  fprintf(out, "    <%s", name);
  kv_xml_attribute(out, "message", kv_verdict_text(v));
  fputs("/>\n  </testcase>\n", out);
}

void kv_verdicts_junit(const kv_verdicts *w) {
  fprintf(w->out,
          "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
          "<testsuite name=\"kvreplay check\" tests=\"%d\" failures=\"%d\" "
          "errors=\"%d\" skipped=\"%d\">\n",
          w->n, w->count[KV_DIFFERS], w->count[KV_GAVE_UP],
          w->count[KV_NOT_RUN]);
  for (int i = 0; i < w->n; i++) testcase(w->out, &w->verdict[i]);
  fputs("</testsuite>\n", w->out);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cli/show/junit.h"

#include "sim/cli/show/xml.h"

void kv_junit_begin(FILE *out, const char *suite,
                    const int count[KV_JUNIT_OUTCOMES]) {
  int all = 0;
  for (int i = 0; i < KV_JUNIT_OUTCOMES; i++) all += count[i];
  fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite", out);
  kv_xml_attribute(out, "name", suite);
  fprintf(out, " tests=\"%d\" failures=\"%d\" errors=\"%d\" skipped=\"%d\">\n",
          all, count[KV_JUNIT_FAILURE], count[KV_JUNIT_ERROR],
          count[KV_JUNIT_SKIPPED]);
}

void kv_junit_case(FILE *out, const char *classname, const char *const *name,
                   kv_junit_outcome outcome, const char *message,
                   void (*more)(const void *self, FILE *out),
                   const void *self) {
  static const char *const tag[KV_JUNIT_OUTCOMES] = {NULL, "failure", "skipped",
                                                     "error"};
  fputs("  <testcase", out);
  kv_xml_attribute(out, "classname", classname);
  fputs(" name=\"", out);
  while (*name) kv_xml_escape(out, *name++);
  fputs(tag[outcome] ? "\">\n" : "\"/>\n", out);
  if (!tag[outcome]) return;
  fprintf(out, "    <%s", tag[outcome]);
  kv_xml_attribute(out, "message", message);
  if (more) {
    fputs(">\n", out);
    more(self, out);
    fprintf(out, "    </%s>\n  </testcase>\n", tag[outcome]);
  } else {
    fputs("/>\n  </testcase>\n", out);
  }
}

void kv_junit_end(FILE *out) { fputs("</testsuite>\n", out); }

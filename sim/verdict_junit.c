/* SPDX-License-Identifier: Apache-2.0
 *
 * Verdicts as JUnit's XML: one testsuite, a testcase a cell and backend.
 */
#include "sim/verdict.h"

#include "traces/text.h"
#include <string.h>

/* XML 1.0 has no place for control characters, not even escaped. */
static void escape(FILE *out, const char *text) {
  bool utf8 = kv_utf8_valid(strlen(text), (const unsigned char *)text);
  for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
    if (*c == '&')
      fputs("&amp;", out);
    else if (*c == '<')
      fputs("&lt;", out);
    else if (*c == '>')
      fputs("&gt;", out);
    else if (*c == '"')
      fputs("&quot;", out);
    else if (*c < 0x20 || *c == 0x7f || (*c >= 0x80 && !utf8))
      fputc('?', out);
    else
      fputc(*c, out);
  }
}

static void attribute(FILE *out, const char *name, const char *value) {
  fprintf(out, " %s=\"", name);
  escape(out, value);
  fputc('"', out);
}

static void testcase(FILE *out, const kv_verdict *v) {
  static const char *const tag[KV_OUTCOMES] = {NULL, "failure", "skipped",
                                               "error"};
  const char *name = tag[v->outcome];
  fputs("  <testcase", out);
  attribute(out, "classname", v->row->trace);
  fputs(" name=\"", out);
  escape(out, v->row->spec);
  fputs(" on ", out);
  escape(out, v->backend);
  fputs(name ? "\">\n" : "\"/>\n", out);
  if (!name) return;
  fprintf(out, "    <%s", name);
  attribute(out, "message", kv_verdict_text(v));
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

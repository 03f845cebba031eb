/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cli/show/xml.h"

#include "ref/ground/err.h"

void kv_xml_escape(FILE *out, const char *text) {
  for (char c[KV_PLAIN_MOST]; kv_plain_next(&text, c);) {
    if (*c == '&')
      fputs("&amp;", out);
    else if (*c == '<')
      fputs("&lt;", out);
    else if (*c == '>')
      fputs("&gt;", out);
    else if (*c == '"')
      fputs("&quot;", out);
    else
      fputs(c, out);
  }
}

void kv_xml_attribute(FILE *out, const char *name, const char *value) {
  fprintf(out, " %s=\"", name);
  kv_xml_escape(out, value);
  fputc('"', out);
}

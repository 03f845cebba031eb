/* SPDX-License-Identifier: Apache-2.0
 *
 * XML: sim/xml.h.
 */
#include "sim/xml.h"

#include "traces/text.h"
#include <string.h>

void kv_xml_escape(FILE *out, const char *text) {
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

void kv_xml_attribute(FILE *out, const char *name, const char *value) {
  fprintf(out, " %s=\"", name);
  kv_xml_escape(out, value);
  fputc('"', out);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Text in XML 1.0, for JUnit files (sim/cli/show/junit.h). Control characters,
 * which XML does not allow, and bytes that are not UTF-8 are written as
 * kv_plain (ref/ground/err.h) writes them. Nothing is returned: check
 * ferror(out) at the end.
 */
#ifndef KV_SIM_XML_H
#define KV_SIM_XML_H

#include <stdio.h>

/* Writes text with & < > " as entities, for between tags or an attribute. */
void kv_xml_escape(FILE *out, const char *text);
/* Writes ` name="value"`, with a space in front and the value escaped. */
void kv_xml_attribute(FILE *out, const char *name, const char *value);

#endif

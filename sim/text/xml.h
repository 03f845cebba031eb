/* SPDX-License-Identifier: Apache-2.0
 *
 * Escapes text for XML 1.0. Control characters, which XML does not allow, and
 * bytes that are not UTF-8 are written as kv_plain writes them.
 */
#ifndef KV_SIM_XML_H
#define KV_SIM_XML_H

#include <stdio.h>

void kv_xml_escape(FILE *out, const char *text);
/* Writes ` name="value"`, with a space in front. */
void kv_xml_attribute(FILE *out, const char *name, const char *value);

#endif

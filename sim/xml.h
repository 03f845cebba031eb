/* SPDX-License-Identifier: Apache-2.0
 *
 * Text in XML 1.0, whatever it holds: control characters, which have no place
 * there, and bytes that are no UTF-8 become '?'.
 */
#ifndef KV_SIM_XML_H
#define KV_SIM_XML_H

#include <stdio.h>

void kv_xml_escape(FILE *out, const char *text);
/* ` name="value"` */
void kv_xml_attribute(FILE *out, const char *name, const char *value);

#endif

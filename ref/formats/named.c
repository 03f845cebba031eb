/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats by name. Contract: ref/formats/named.h.
 */
#include "ref/formats/named.h"
#include <string.h>

#define LINE(name, format, bits, rule) {#name, &kv_format_##format, bits, rule},
static const kv_named_format list[] = {{"raw", NULL, 0, 0},
                                       KV_NAMED_FORMATS(LINE)};
#undef LINE

enum { NAMES = sizeof list / sizeof *list };

const kv_named_format *kv_named_format_at(int index) {
  return index < 0 || index >= NAMES ? NULL : &list[index];
}

int kv_named_format_find(const char *name) {
  for (int i = 0; i < NAMES; i++)
    if (strcmp(list[i].name, name) == 0) return i;
  return -1;
}

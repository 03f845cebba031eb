/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of formats, made from formats.mk. Contract: ref/format.h.
 */
#include "ref/formats/format.h"
#include <string.h>

#define KV_FORMAT(name) extern const kv_format kv_format_##name;
#include "ref/formats/list.h"
#undef KV_FORMAT

#define KV_FORMAT(name) &kv_format_##name,
static const kv_format *const formats[] = {
#include "ref/formats/list.h"
    NULL};
#undef KV_FORMAT

enum { FORMATS = sizeof formats / sizeof *formats - 1 };

const kv_format *kv_format_at(int index) {
  return index < 0 || index >= FORMATS ? NULL : formats[index];
}

const kv_format *kv_format_named(const char *name) {
  for (int i = 0; i < FORMATS; i++)
    if (strcmp(formats[i]->name, name) == 0) return formats[i];
  return NULL;
}

int kv_coding_members(const kv_coding *c) {
  return c->format->members(c->settings);
}

bool kv_coding_alike(const kv_coding *a, const kv_coding *b) {
  if (!a->format || !b->format) return a->format == b->format;
  return a->format == b->format && a->pre_rope == b->pre_rope &&
         a->sides == b->sides &&
         memcmp(a->settings, b->settings, a->format->settings_size) == 0;
}

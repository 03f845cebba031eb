/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of formats, made from formats.mk. Contract: ref/formats/format.h.
 */
#include "ref/formats/format.h"
#include "ref/formats/named.h"
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

static size_t part_of(size_t bytes, int part, int parts) {
  return kv_part_begin(bytes, part + 1, parts) -
         kv_part_begin(bytes, part, parts);
}

kv_coded_size kv_coding_size(const kv_coding *c, int part, int parts,
                             int members, int width) {
  kv_coded_size all = c->format->size(c->settings, members, width);
  if (!c->format->layered) return all;
  return (kv_coded_size){.codes = part_of(all.codes, part, parts),
                         .metadata = part_of(all.metadata, part, parts)};
}

int kv_coding_members(const kv_coding *c) {
  return c->format->members(c->settings);
}

bool kv_coding_alike(const kv_coding *a, const kv_coding *b) {
  if (!a->format || !b->format) return a->format == b->format;
  return a->format == b->format && a->pre_rope == b->pre_rope &&
         a->sides == b->sides && a->rotate == b->rotate &&
         a->shifted == b->shifted && a->shift == b->shift &&
         a->own_settings == b->own_settings && a->own_at == b->own_at &&
         memcmp(a->settings, b->settings, a->format->settings_size) == 0;
}

#define LINE(name, bits, rule) {#name, &kv_format_token, bits, rule, {0}},
#define BLOCK(name, log, bits, element, scale, minimum, rule)                  \
  {#name,                                                                      \
   &kv_format_block,                                                           \
   0,                                                                          \
   0,                                                                          \
   {log, bits, KV_ELEMENT_##element, KV_SCALE_##scale, minimum,                \
    KV_BLOCK_##rule, 1}},
static const kv_named_format list[] = {
    {.name = "raw"}, KV_NAMED_FORMATS(LINE) KV_BLOCK_FORMATS(BLOCK)};
#undef LINE
#undef BLOCK

enum { NAMES = sizeof list / sizeof *list };

const kv_named_format *kv_named_format_at(int index) {
  return index < 0 || index >= NAMES ? NULL : &list[index];
}

int kv_named_format_find(const char *name) {
  for (int i = 0; i < NAMES; i++)
    if (strcmp(list[i].name, name) == 0) return i;
  return -1;
}

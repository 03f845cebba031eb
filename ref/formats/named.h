/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats by name: settings of the format token, such as INT8 or INT4, and the
 * formats that ref/formats/block.h lists. The method `quant`
 * (ref/methods/quant.c) offers these names, and the short forms in
 * specifications, such as int4 for quant:k=int4:v=int4, follow from them
 * (sim/ask/spec.h). A new name is one line here; ref/FORMATS.md defines each to
 * the bit.
 */
#ifndef KV_REF_FORMATS_NAMED_H
#define KV_REF_FORMATS_NAMED_H

#include "ref/formats/block.h"
#include "ref/formats/minmax.h"

/* NAME(name, bits of a code, rule of its arithmetic) */
#define KV_NAMED_FORMATS(NAME)                                                 \
  NAME(int8, 8, KV_RULE_UNROUNDED)                                             \
  NAME(int4, 4, KV_RULE_UNROUNDED)                                             \
  NAME(int2, 2, KV_RULE_UNROUNDED)                                             \
  NAME(int1, 1, KV_RULE_UNROUNDED)                                             \
  NAME(sym8, 8, KV_RULE_INTEGER)                                               \
  NAME(sym4, 4, KV_RULE_INTEGER)                                               \
  NAME(e4m3, 8, KV_RULE_E4M3)                                                  \
  NAME(e5m2, 8, KV_RULE_E5M2)                                                  \
  NAME(qserve8, 8, KV_RULE_FRACTION)                                           \
  NAME(qserve4, 4, KV_RULE_FRACTION)                                           \
  NAME(atom4, 4, KV_RULE_BASE)

/* The names as the choices of a parameter; the first, raw, leaves a side
 * uncompressed. */
#define KV_NAMED_BAR(name, ...) "|" #name
#define KV_NAMED_CHOICES                                                       \
  "raw" KV_NAMED_FORMATS(KV_NAMED_BAR) KV_BLOCK_FORMATS(KV_NAMED_BAR)

/* The names in a sentence: "int8, int4, .. ", a comma after each. */
#define KV_NAMED_COMMA(name, ...) #name ", "
#define KV_NAMED_LISTED                                                        \
  KV_NAMED_FORMATS(KV_NAMED_COMMA) KV_BLOCK_FORMATS(KV_NAMED_COMMA)

/* A named format. bits and rule: of a kv_minmax; the method adds the group. Of
 * the format block, `block` has the settings instead, with `whole` 1. */
typedef struct kv_named_format {
  const char *name;
  const kv_format *format; /* NULL: raw */
  int bits, rule;
  kv_blocked block;
} kv_named_format;

/* The format with that number, which is the value of a parameter with
 * KV_NAMED_CHOICES; 0 is "raw"; NULL past the end. Both return constants. */
const kv_named_format *kv_named_format_at(int index);
/* The number of a name, or -1. */
int kv_named_format_find(const char *name);

#endif

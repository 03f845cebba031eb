/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats by name, as somebody asks for them: the format token with
 * the settings that make it INT8 or INT4. What method `quant`
 * (ref/methods/quant.c) is asked for stands in this list, and what a
 * specification may say instead of `quant:k=..:v=..` follows from it
 * (sim/ask/spec.h). A name is one line here; ref/FORMATS.md says what each is,
 * to the bit.
 */
#ifndef KV_REF_FORMATS_NAMED_H
#define KV_REF_FORMATS_NAMED_H

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

/* The names as the choices of a parameter; the first is a side that stays as
 * it came. */
#define KV_NAMED_BAR(name, bits, rule) "|" #name
#define KV_NAMED_CHOICES "raw" KV_NAMED_FORMATS(KV_NAMED_BAR)

/* The names in a sentence: "int8, int4, .. ", a comma behind each. */
#define KV_NAMED_COMMA(name, bits, rule) #name ", "
#define KV_NAMED_LISTED KV_NAMED_FORMATS(KV_NAMED_COMMA)

/* A name; bits and rule are those of a kv_minmax, whose group the method adds.
 */
typedef struct kv_named_format {
  const char *name;
  const kv_format *format; /* NULL: of "raw" */
  int bits, rule;
} kv_named_format;

/* The name by its number, which is the value of a parameter with
 * KV_NAMED_CHOICES, 0 being "raw"; NULL past the end. */
const kv_named_format *kv_named_format_at(int index);
/* The number of a name; -1: there is none. */
int kv_named_format_find(const char *name);

#endif

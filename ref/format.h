/* SPDX-License-Identifier: Apache-2.0
 *
 * Storage formats: how a row of K or V may be held once a verb rewrites it.
 *
 * A format is a const table; with its settings (bits, group, variant) it is
 * a kv_coding. One recode call codes one group: up to `group` rows of one
 * side, which share metadata; the group's bytes are held until its last
 * member goes. Decoding uses the stored metadata only.
 */
#ifndef KV_REF_FORMAT_H
#define KV_REF_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kv_coding kv_coding;

typedef struct kv_coded_size {
  size_t codes, metadata; /* bytes */
} kv_coded_size;

typedef struct kv_format {
  const char *name;
  /* Bytes of a group of `members` rows of `width` elements. */
  kv_coded_size (*size)(const kv_coding *c, int members, int width);
  /* Codes row[0..members) into out; false if a scale or minimum is not
   * finite in its stored type (arithmetic 7): the cell fails. */
  bool (*encode)(const kv_coding *c, int members, int width,
                 const float *const *row, void *out);
  /* One member of a group, as attention reads it. */
  void (*decode)(const kv_coding *c, int members, int width, const void *in,
                 int member, float *out);
  /* For a look from outside, both optional: how many scales (and as many
   * minima, fp16) a group of rows of `width` elements has; and these with the
   * codes of one member, one a byte. */
  int (*scales)(const kv_coding *c, int width);
  void (*parts)(const kv_coding *c, int width, const void *in, int member,
                uint8_t *code, uint16_t *scale, uint16_t *min);
} kv_format;

struct kv_coding {
  const kv_format *format;
  int bits;      /* a code */
  int group;     /* rows (K) or elements (V) that share metadata */
  bool fp16_ops; /* the authors' arithmetic: fp16 after every operation */
};

/* Most rows that one recode call of this coding may pass. */
int kv_coding_members(const kv_coding *c);

/* Asymmetric min-max codes, fp16 scale and minimum: KIVI.
 * channel: `group` rows share scale and minimum per channel (keys).
 * token: one row; `group` neighbouring elements share them (values). */
extern const kv_format kv_format_channel, kv_format_token;

#endif

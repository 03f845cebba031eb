/* SPDX-License-Identifier: Apache-2.0
 *
 * Storage formats: how a row of K or V is stored after a verb rewrites it.
 *
 * A format is a const table in a file of its own (formats.mk lists them,
 * ref/FORMATS.md defines each to the bit). A format with settings is a
 * kv_coding, which a method names in its needs. A recode call codes one group
 * for each side that it names: the rows of some entries, which share metadata.
 * The group's bytes are its block, which is held until its last member goes.
 * Decoding reads nothing but the block.
 *
 * A coding may prepare its rows (ref/FORMATS.md, Prepared rows). The lane
 * prepares a row before it is encoded and undoes that after it is decoded;
 * formats do not see it. In this order:
 * - pre_rope: a key is rotated back to before RoPE, by the position of the
 *   entry's own token (arithmetic 6; nothing rotates at position 0);
 * - shifted: float u[d], which the method keeps in the lane's state, is rotated
 *   to that position, unless pre_rope, and subtracted from a key;
 * - rotate: the row is multiplied by a Hadamard matrix
 *   (ref/formats/hadamard.h).
 * The first two are for keys alone and need needs.rope.
 *
 * A block of a layered format codes one token in all lanes of a layer: the
 * vector of all heads. kv_recode_token makes it. Each lane holds what the block
 * decodes to as fp32 rows. A real store would decode them at each read, so they
 * are not charged. The block is: each side of each lane is charged a share.
 */
#ifndef KV_REF_FORMAT_H
#define KV_REF_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kv_kernels;

/* How merged rows, which no format codes, are stored: rounded once a merge to
 * the trace's type, or as fp32. */
typedef enum kv_means { KV_MEANS_TRACE, KV_MEANS_FP32 } kv_means;

/* Bytes by ledger kind: payload, and scales and other metadata. */
typedef struct kv_coded_size {
  size_t codes, metadata;
} kv_coded_size;

/* Formulas that define the parts of a block, together with ref/ground/arith.h,
 * in x, min, max, scale, code, bits, group; h rounds to fp16. */
typedef struct kv_format_rules {
  const char *code;    /* the code of x */
  const char *scale;   /* a scale, and which numbers share it */
  const char *min;     /* a minimum */
  const char *decoded; /* the number that a code stands for */
} kv_format_rules;

/* Numbers of a group that can be shown: scales of so many bytes, fp16 or a byte
 * that the formulas define; minima in fp16. bytes 0: none to show under these
 * settings, nor codes. */
typedef struct kv_format_shown {
  int scales, bytes, minima;
} kv_format_shown;

/* What a layered format adds. A block names tokens, which stay unchanged while
 * it lives, and holds bytes besides their ids. */
typedef struct kv_layered {
  int (*named)(const void *settings);    /* most ids in a block */
  size_t (*bytes)(const void *settings); /* bytes besides the ids */
  /* If a block names a token that has a block of its own: are that token's
   * original K and V also held, and read? False, or NULL: it is read decoded.
   */
  bool (*held)(const void *settings);
} kv_layered;

enum { KV_NO_TOKEN = -1 }; /* an unused id of a block */

/* A format. `settings` is always a struct of the format's own. Functions
 * allocate nothing, and only encode can fail. */
typedef struct kv_format {
  const char *name; /* as in formats.mk */
  /* Bytes of that struct, which has no pointers and no padding: devices get a
   * copy, and codings with equal bytes are the same coding. */
  size_t settings_size;
  /* Most rows that one recode call may pass. */
  int (*members)(const void *settings);
  /* A layered format's additions, or NULL. If set, `size` is the size of a
   * whole token whatever `width` is, there is no `encode`, and `decode` is
   * given fp32 rows. */
  const kv_layered *layered;
  /* Bytes of a group of `members` rows of `width` elements. */
  kv_coded_size (*size)(const void *settings, int members, int width);
  /* Codes row[0..members) into out. False if that is impossible, mostly because
   * a scale or minimum is not finite in its stored type: the cell fails. */
  bool (*encode)(const void *settings, int members, int width,
                 const float *const *row, void *out);
  /* Decodes one member of a group, `width` numbers, to the same bits with any
   * kernels. */
  void (*decode)(const struct kv_kernels *kernels, const void *settings,
                 int members, int width, const void *in, int member,
                 float *out);
  /* For inspection; all three or none. shown: what parts writes of a group of
   * rows of `width` elements. parts: these, with the codes of one member, one
   * code a byte. rules: the formulas that define them; NULL: none to show. */
  kv_format_shown (*shown)(const void *settings, int width);
  void (*parts)(const void *settings, int width, const void *in, int member,
                uint8_t *code, void *scale, uint16_t *min);
  kv_format_rules (*rules)(const void *settings);
  /* NULL, or: can kernels read a row as it is stored? Its codes have so many
   * bits, and `run` elements share scale and minimum; blocks and numbers are
   * those of the format token. False: not under these settings. */
  bool (*in_place)(const void *settings, int *bits, int *run);
} kv_format;

/* The sides of entries that recode may put into a coding. A lane allocates no
 * memory for the other side. */
typedef enum kv_coded_sides {
  KV_BOTH_SIDES,
  KV_KEYS_ONLY,
  KV_VALUES_ONLY
} kv_coded_sides;

/* A format as a method uses it. The settings are in the method's params and
 * outlive the needs that name them. */
typedef struct kv_coding {
  const kv_format *format;
  const void *settings;
  bool pre_rope; /* keys are coded as before their rotation */
  kv_coded_sides sides;
  bool rotate;
  bool shifted;
  size_t shift; /* with shifted: byte offset of u in the method's lane_state */
  /* The lane's own settings are at byte own_at of that state. `settings` has
   * all but their numbers: every size follows from it. */
  bool own_settings;
  size_t own_at;
} kv_coding;

/* One that rotates and shifts nothing. */
#define KV_CODING(of_format, of_settings, before_rope, of_sides)               \
  (kv_coding) {                                                                \
    .format = of_format, .settings = of_settings, .pre_rope = before_rope,     \
    .sides = of_sides                                                          \
  }

/* Does a coding change rows before it encodes them? */
static inline bool kv_coding_prepares(const kv_coding *c) {
  return c->pre_rope || c->rotate || c->shifted;
}

/* May K, or V, be put into it? */
static inline bool kv_codes_keys(const kv_coding *c) {
  return c->sides != KV_VALUES_ONLY;
}
static inline bool kv_codes_values(const kv_coding *c) {
  return c->sides != KV_KEYS_ONLY;
}

/* What a lane is charged for a group of `members` rows of `width` elements. A
 * layered block of n bytes is cut into `parts`: side K of lane g of the layer
 * is part 2 g, side V part 2 g + 1. A part is floor((part + 1) n / parts) -
 * floor(part n / parts) bytes, so that all parts add up to n. */
kv_coded_size kv_coding_size(const kv_coding *c, int part, int parts,
                             int members, int width);
/* Where a part begins, in a block of so many bytes. */
static inline size_t kv_part_begin(size_t bytes, int part, int parts) {
  return (size_t)part * bytes / (size_t)parts;
}

/* Most rows that one recode call of this coding may pass. */
int kv_coding_members(const kv_coding *c);
/* Do both have the same format, settings and sides, and prepare rows alike? */
bool kv_coding_alike(const kv_coding *a, const kv_coding *b);

/* Format number `index`, in the order of formats.mk; NULL past the end. */
const kv_format *kv_format_at(int index);
/* The format of that name, or NULL. */
const kv_format *kv_format_named(const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Storage formats: how a row of K or V may be held once a verb rewrites it.
 *
 * A format is a const table in a file of its own (formats.mk lists them,
 * ref/FORMATS.md defines each to the bit); with settings it is a kv_coding,
 * which is what a method's needs name. A recode call codes one group of each
 * side that it names: the rows of some entries, which share metadata. The
 * group's bytes are its block, which is held until its last member goes.
 * Decoding uses what the block holds and nothing else.
 *
 * Of a coding with pre_rope, keys are coded as they were before their
 * rotation: the lane turns a key back before it is encoded and forward after
 * it is decoded, by the RoPE position of the entry's own token (arithmetic 6;
 * at position 0 nothing is turned). Formats know nothing of it, and values
 * are never turned. Such a method's needs say `rope`.
 *
 * A block of a layered format is of one token in all lanes of a layer: what is
 * coded is the vector of all heads. The verb for it is kv_recode_token; what it
 * stands for stands in each lane as fp32 rows, which a real store would make
 * anew whenever they are read, and which nobody is charged for. What is charged
 * is the block, of which each side of each lane has its share.
 */
#ifndef KV_REF_FORMAT_H
#define KV_REF_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kv_kernels;

/* What merged rows, which no format codes, are stored as: rounded once a merge
 * to the trace's type, or as they are computed. */
typedef enum kv_means { KV_MEANS_TRACE, KV_MEANS_FP32 } kv_means;

/* Bytes, as the ledger tells them apart: payload, and scales and the like. */
typedef struct kv_coded_size {
  size_t codes, metadata;
} kv_coded_size;

/* Rules that define the parts of a block, sufficient together with
 * ref/ground/arith.h: formulas in x, min, max, scale, code, bits, group; h
 * rounds to fp16. */
typedef struct kv_format_rules {
  const char *code;    /* the code of x */
  const char *scale;   /* a scale, and which numbers share it */
  const char *min;     /* a minimum */
  const char *decoded; /* the number that a code stands for */
} kv_format_rules;

/* Of a layered format. A block names tokens that stay as they are while it
 * lives, and holds bytes beside their ids. */
typedef struct kv_layered {
  int (*named)(const void *settings);    /* how many ids it has room for */
  size_t (*bytes)(const void *settings); /* how many bytes beside them */
  /* Where another block names such a token: is K and V as it came held beside
   * its own block, and read? Else it is read decoded. NULL: no. */
  bool (*held)(const void *settings);
} kv_layered;

enum { KV_NO_TOKEN = -1 }; /* an id of a block that names fewer */

/* A format. `settings` is always a struct of the format's own. Functions
 * allocate nothing, and but for encode they cannot fail. */
typedef struct kv_format {
  const char *name; /* as in formats.mk */
  /* Bytes of that struct, which has no pointers and no padding: devices get a
   * copy, and codings whose bytes are equal are the same coding. */
  size_t settings_size;
  /* Most rows that one recode call may pass. */
  int (*members)(const void *settings);
  /* NULL, or what its blocks have more of: a layered format. Then `size` is of
   * a whole token whatever `width` is, there is no `encode`, and `decode` is
   * given fp32 rows. */
  const kv_layered *layered;
  /* Bytes of a group of `members` rows of `width` elements. */
  kv_coded_size (*size)(const void *settings, int members, int width);
  /* Codes row[0..members) into out; false where they cannot be coded, mostly as
   * a scale or minimum is not finite in its stored type: the cell fails. */
  bool (*encode)(const void *settings, int members, int width,
                 const float *const *row, void *out);
  /* One member of a group, `width` numbers; the same by any kernels. */
  void (*decode)(const struct kv_kernels *kernels, const void *settings,
                 int members, int width, const void *in, int member,
                 float *out);
  /* For inspection; all three or none: the number of scales (and of minima,
   * fp16) of a group of rows of `width` elements, 0: none to show under these
   * settings; these with the codes of one member, one code a byte; and the
   * rules that define them, NULL where there are none to show. */
  int (*scales)(const void *settings, int width);
  void (*parts)(const void *settings, int width, const void *in, int member,
                uint8_t *code, uint16_t *scale, uint16_t *min);
  kv_format_rules (*rules)(const void *settings);
  /* NULL, or the kind of row that kernels read as it is stored: codes of so
   * many bits, `run` elements of a row sharing scale and minimum, blocks and
   * numbers as those of the format token. False: not under these settings. */
  bool (*in_place)(const void *settings, int *bits, int *run);
} kv_format;

/* The sides of entries that recode may put into a coding: a lane takes no
 * memory for the other one. */
typedef enum kv_coded_sides {
  KV_BOTH_SIDES,
  KV_KEYS_ONLY,
  KV_VALUES_ONLY
} kv_coded_sides;

/* A format as a method uses it. The settings outlive the needs that name
 * them: they stand in the method's params. */
typedef struct kv_coding {
  const kv_format *format;
  const void *settings;
  bool pre_rope; /* keys are coded as before their rotation */
  kv_coded_sides sides;
} kv_coding;

/* May K, and may V, be put into it? */
static inline bool kv_codes_keys(const kv_coding *c) {
  return c->sides != KV_VALUES_ONLY;
}
static inline bool kv_codes_values(const kv_coding *c) {
  return c->sides != KV_KEYS_ONLY;
}

/* What a lane is charged for a group of `members` rows of `width` elements. A
 * layered block is cut into `parts`, of which side K of lane g of a layer's is
 * part 2 g and side V part 2 g + 1: floor((part + 1) n / parts) - floor(part n
 * / parts) of n bytes, so that parts add up to it. */
kv_coded_size kv_coding_size(const kv_coding *c, int part, int parts,
                             int members, int width);
/* Where part `part` begins, in bytes of a block of so many. */
static inline size_t kv_part_begin(size_t bytes, int part, int parts) {
  return (size_t)part * bytes / (size_t)parts;
}

/* Most rows that one recode call of this coding may pass. */
int kv_coding_members(const kv_coding *c);
/* True if both have one format, equal settings, and the same sides and
 * pre_rope. */
bool kv_coding_alike(const kv_coding *a, const kv_coding *b);

/* The one list of formats, in the order of formats.mk; NULL past the end. */
const kv_format *kv_format_at(int index);
/* By name; NULL: there is none. */
const kv_format *kv_format_named(const char *name);

#endif

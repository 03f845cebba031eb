/* SPDX-License-Identifier: Apache-2.0
 *
 * Asymmetric min-max codes, as KIVI and LeanKV have them: numbers that share
 * a scale and a minimum, both fp16, become integers of a few bits. What shares
 * them is the format's matter:
 *
 *   channel: up to `group` rows share scale and minimum in every channel
 *   token:   `group` neighbouring elements of one row share them; the last
 *            run is shorter where group does not divide the width
 *
 * With L = 2^bits - 1 and min, max over what shares (order: arithmetic 2):
 *   KV_RULE_STORED, KIVI's formula, h = rounding to fp16:
 *     s = h((max - min) / L), m = h(min)
 *     code = rint(clamp((x - m) / s, 0, L))
 *     (codes are chosen for the stored s and m, which decoding will use)
 *   KV_RULE_FP16, the arithmetic of KIVI's authors, x taken to h(x) first:
 *     s = h(h(max - min) / L), m = min
 *     code = rint(clamp(h(h(x - m) / s), 0, L))
 *   KV_RULE_UNROUNDED, of token alone, LeanKV's equation 2: codes are chosen by
 *   the scale and the minimum as they were before they were rounded:
 *     r = (max - min) / L, s = h(r), m = h(min)
 *     code = rint(clamp((x - min) * (1 / r), 0, L))
 * By each of them x^ = fma(code, s, m). Where s = 0 every code is 0. Encoding
 * fails where s or m leaves fp16.
 *
 * A block: scales, minima (fp16 each), then the codes row by row, each row
 * ceil(width * bits / 8) bytes. A row is cut into 8 / bits planes of equal
 * width; byte i holds element i of every plane, the first in its low bits, so
 * that decoding is loops over neighbouring floats.
 *
 * code * s is exact in binary32 (8 bits times 11), so a product and a sum are
 * the fused operation to the bit and need no hardware for it. For the same
 * reason h(fp32 operation on fp16 values) is the fp16 operation: 24 bits are
 * at least 2 * 11 + 2.
 * Nothing here allocates. Cost: O(members * width).
 */
#ifndef KV_REF_FORMATS_MINMAX_H
#define KV_REF_FORMATS_MINMAX_H

#include "ref/formats/format.h"

/* Which arithmetic; each format has some of them. */
typedef enum kv_rule {
  KV_RULE_STORED,
  KV_RULE_FP16,
  KV_RULE_UNROUNDED,
  KV_RULE_INTEGER, /* these three: ref/formats/absmax.h */
  KV_RULE_E4M3,
  KV_RULE_E5M2,
  KV_RULE_FRACTION, /* these two: ref/formats/zeropoint.h */
  KV_RULE_BASE
} kv_rule;

/* The settings of these two formats, and of absmax and zeropoint, for
 * needs.coding. */
typedef struct kv_minmax {
  int32_t bits;  /* a code: 1, 2, 4 or 8 */
  int32_t group; /* rows (channel) or elements (token) that share */
  int32_t rule;  /* of the arithmetic, a kv_rule */
} kv_minmax;

extern const kv_format kv_format_channel, kv_format_token;

/* --- for the formats alone ---------------------------------------------- */

enum { KV_MINMAX_TILE = 64 }; /* elements coded at once */

/* Scale and minimum of up to a tile of elements as codes are chosen by them:
 * those stored or, of KV_RULE_UNROUNDED, 1 / r and min (above). Where
 * the stored scale is 0, it stands here as 1 and the largest code as 0. */
typedef struct kv_minmax_ranges {
  float scale[KV_MINMAX_TILE], min[KV_MINMAX_TILE];
  float top[KV_MINMAX_TILE]; /* the largest code */
} kv_minmax_ranges;

/* Bytes of the codes of a row of `width` elements. */
size_t kv_minmax_row(const kv_minmax *c, int width);
/* Runs of `group` neighbouring elements of a row; the last may be shorter. */
int kv_minmax_runs(const kv_minmax *c, int width);
/* kv_format.members where a group is one row, and kv_format.size where, too,
 * two numbers of 2 bytes stand before its codes for each run. */
int kv_minmax_members_one(const void *settings);
kv_coded_size kv_minmax_size_one(const void *settings, int rows, int width);
/* Makes the range of numbers from min to max: into place i of *r, and to
 * scale_at and min_at, where the block has its scale and its minimum (fp16
 * each, unaligned). False where the group cannot be coded (above). */
bool kv_minmax_range(const kv_minmax *c, float min, float max, int i,
                     kv_minmax_ranges *r, char *scale_at, char *min_at);
/* Codes elements first..first+n-1 of a row whose codes of these were zero, n at
 * most a tile: x[0..n) by the ranges in places 0..n-1 of *r. */
void kv_minmax_codes(const kv_minmax *c, int width, int first, int n,
                     const float *x, const kv_minmax_ranges *r, char *row);
/* kv_format.parts, of a block with so many scales. */
void kv_minmax_parts(const kv_minmax *c, int scales, int width, const void *in,
                     int member, uint8_t *code, uint16_t *scale, uint16_t *min);
/* kv_format.rules of channel and token; settings is a kv_minmax. */
kv_format_rules kv_minmax_rules(const void *settings);

#endif

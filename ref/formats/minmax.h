/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of codes, for the formats channel and token. The two differ in which
 * elements share a scale and a minimum, or whatever a rule stores (rules.h):
 *
 *   channel: up to `group` rows share them in every channel
 *   token:   `group` neighboring elements of one row share them; the last
 *            run is shorter if group does not divide the width
 *
 * A block: scales, minima (fp16 each), then the codes row by row, each row
 * ceil(width * bits / 8) bytes. A row is cut into 8 / bits planes of equal
 * width; byte i holds element i of every plane, the first in its low bits, so
 * that decoding loops over neighboring floats.
 *
 * Nothing here allocates. Cost: O(members * width).
 */
#ifndef KV_REF_FORMATS_MINMAX_H
#define KV_REF_FORMATS_MINMAX_H

#include "ref/formats/format.h"
#include "ref/formats/rules.h"

extern const kv_format kv_format_channel, kv_format_token;

/* --- for the formats alone ---------------------------------------------- */

enum { KV_MINMAX_TILE = 64 }; /* elements coded at once */

/* Scale and minimum of up to a tile of elements as their codes are chosen: the
 * stored ones or, with KV_RULE_UNROUNDED, kv_minmax_unrounded. If the stored
 * scale is 0, it is 1 here and the largest code 0. */
typedef struct kv_minmax_ranges {
  float scale[KV_MINMAX_TILE], min[KV_MINMAX_TILE];
  float top[KV_MINMAX_TILE]; /* the largest code */
} kv_minmax_ranges;

/* Bytes of the codes of a row of `width` elements. */
size_t kv_minmax_row(const kv_minmax *c, int width);
/* Runs of `group` neighbouring elements of a row; the last may be shorter. */
int kv_minmax_runs(const kv_minmax *c, int width);
/* Computes the range of numbers from min to max. Stores it at index i of *r,
 * and at scale_at and min_at, the scale and minimum of the block (fp16 each,
 * unaligned). False if the group cannot be coded. */
bool kv_minmax_range(const kv_minmax *c, float min, float max, int i,
                     kv_minmax_ranges *r, char *scale_at, char *min_at);
/* Codes elements first..first+n-1 of a row, n at most a tile, x[0..n) by ranges
 * 0..n-1 of *r. Their codes must be zero before. */
void kv_minmax_codes(const kv_minmax *c, int width, int first, int n,
                     const float *x, const kv_minmax_ranges *r, char *row);
/* kv_format.parts, for a block with so many scales. */
void kv_minmax_parts(const kv_minmax *c, int scales, int width, const void *in,
                     int member, uint8_t *code, void *scale, uint16_t *min);
/* kv_format.rules of channel and token; settings is a kv_minmax. */
kv_format_rules kv_minmax_rules(const void *settings);

#endif

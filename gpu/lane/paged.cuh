/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds tokens in unified pages (gpu/shared/paged.h). Every function is called
 * by any single thread, for itself, has no barrier and cannot fail. lane: its
 * number in the layer; tier: KV_HIGH or KV_LOW; number: a token's in its tier.
 */
#ifndef KV_GPU_PAGED_CUH
#define KV_GPU_PAGED_CUH

#include "gpu/formats/format.cuh"
#include "gpu/shared/paged.h"

/* Index in a lane's row of the table of the id of a tier's page number x. */
KV_DEVICE int kv_paged_entry(const kv_gpu_paged &p, int lane, int tier, int x) {
  if (tier == KV_HIGH) return x;
  kv_pages_count held = p.held[lane];
  int beyond = x - held.of[KV_LOW];
  return beyond < 0 ? p.entries - 1 - x : held.of[KV_HIGH] - 1 - beyond;
}

/* True if the lane holds a page for that number of a tier; a low one may be in
 * any page that it holds, because those of a prompt are reserved as high ones.
 */
KV_DEVICE bool kv_paged_has(const kv_gpu_paged &p, int lane, int tier,
                            int number) {
  kv_pages_count held = p.held[lane];
  int page = number / p.tier[tier].tokens;
  return page < held.of[tier] ||
         (tier == KV_LOW && page < held.of[KV_HIGH] + held.of[KV_LOW]);
}

/* Where the metadata and the codes of one side of a token are. */
KV_DEVICE kv_gpu_block kv_paged_block(const kv_gpu_paged &p, int lane, int tier,
                                      int number, int side) {
  const kv_gpu_paged_tier &t = p.tier[tier];
  const kv_gpu_paged_side &s = t.side[side];
  int page = number / t.tokens, at = number - page * t.tokens;
  int32_t id =
      p.table[(int64_t)lane * p.entries + kv_paged_entry(p, lane, tier, page)];
  char *from = p.pool + id * p.page;
  return {from + s.meta_at + at * s.meta, from + s.codes_at + at * s.codes};
}

/* The tier of a side of an entry, by its reference; -1: it is not coded. */
KV_DEVICE int kv_paged_tier_of(const kv_gpu_paged &p, const kv_cell_ref &ref,
                               int side) {
  KV_UNROLL
  for (int t = 0; t < KV_TIERS; t++)
    if (p.tier[t].tokens && ref.format == p.tier[t].side[side].slab) return t;
  return -1;
}

/* Range g < s.ranges of a row: its scale and minimum; meta: its metadata. */
KV_DEVICE kv_gpu_range kv_paged_range(const kv_gpu_paged_side &s,
                                      const char *meta, int g) {
  const uint16_t *from = (const uint16_t *)meta + g;
  return {kv_half(from[0]), kv_half(from[s.ranges])};
}

#endif

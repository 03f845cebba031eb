/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads rows of tokens in unified pages (gpu/shared/paged.h). Every function is
 * called by a single thread and has no barrier.
 */
#ifndef KV_GPU_PAGED_CUH
#define KV_GPU_PAGED_CUH

#include "gpu/formats/format.cuh"
#include "gpu/shared/paged.h"

typedef struct kv_paged_row {
  const char *codes, *meta;
} kv_paged_row;

/* What an entry of kv_gpu_paged.order says. */
KV_DEVICE int kv_paged_tier(int32_t slot) { return slot & 1; }
KV_DEVICE int kv_paged_number(int32_t slot) { return slot >> 1; }

/* Where the logit of a token stands in a row of `stride`: as pages do in the
 * table, high ones from the left and low ones from the right. */
KV_DEVICE int kv_paged_place(int stride, int32_t slot) {
  int number = kv_paged_number(slot);
  return kv_paged_tier(slot) ? stride - 1 - number : number;
}

/* Token `number` of a tier of a lane. */
KV_DEVICE kv_paged_row kv_paged_row_of(const kv_gpu_paged &p, int lane,
                                       int tier, int number, int side) {
  const kv_gpu_paged_tier &t = p.tier[tier];
  const kv_gpu_paged_side &s = t.side[side];
  int page = number / t.tokens, at = number - page * t.tokens;
  const int32_t *ids = p.table + (int64_t)lane * p.entries;
  int32_t id = ids[tier == KV_LOW ? p.entries - 1 - page : page];
  const char *from = p.pool + id * p.page;
  return {from + s.codes_at + at * s.codes, from + s.meta_at + at * s.meta};
}

KV_DEVICE kv_gpu_range kv_paged_range(const kv_gpu_paged_side &s,
                                      const char *meta, int g) {
  const uint16_t *from = (const uint16_t *)meta + g;
  return {kv_half(from[0]), kv_half(from[s.ranges])};
}

/* Element x, whatever the geometry. */
KV_DEVICE float kv_paged_element(const kv_gpu_paged_side &s,
                                 const kv_paged_row &r, int x) {
  int plane = x / s.codes;
  uint32_t byte = (uint8_t)r.codes[x - plane * s.codes];
  uint32_t code = byte >> plane * s.how.bits & ((1u << s.how.bits) - 1);
  kv_gpu_range by = kv_paged_range(s, r.meta, x / s.how.group);
  return kv_minmax_number<false>((float)code, by.scale, by.least);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Unified pages, after LeanKV. All pages have one size; each holds tokens of
 * one configuration, high or low, which is chosen when the page is taken. A
 * page has six segments, in this order; a token has a row in each:
 *
 *   K codes | K metadata | V codes | V metadata | scores | positions
 *
 * Codes and metadata begin at multiples of 32 bytes, V at a multiple of 128.
 * For V, which is read two tokens at a time, tokens are padded to an even
 * number. Scores are fp32, positions int32. Metadata is a scale and a zero
 * point in fp16 for each group along d.
 *
 * Cheap integer formulas; ref/PAGES.md works examples.
 */
#ifndef KV_REF_PAGES_GEOMETRY_H
#define KV_REF_PAGES_GEOMETRY_H

#include <stdint.h>

/* The segments of a page. */
typedef enum kv_page_segment {
  KV_PAGE_K,
  KV_PAGE_K_META,
  KV_PAGE_V,
  KV_PAGE_V_META,
  KV_PAGE_SCORES,
  KV_PAGE_POSITIONS,
  KV_PAGE_SEGMENTS
} kv_page_segment;

/* How a page codes its tokens: bits of a code and groups along d, for K, V. */
typedef struct kv_page_config {
  int bits[2], groups[2];
} kv_page_config;

/* Bytes of one token in a page, for K and V. */
typedef struct kv_page_token {
  int64_t codes[2], meta[2];
} kv_page_token;

/* The layout of a page. */
typedef struct kv_page_map {
  int32_t tokens;                   /* capacity */
  int64_t at[KV_PAGE_SEGMENTS + 1]; /* byte offsets of the segments; last: the
                                       end of the positions */
} kv_page_map;

/* The bytes of a token; d, d_v: elements of a row of K and of V. */
kv_page_token kv_page_token_of(int d, int d_v, const kv_page_config *c);

/* Bytes of codes, metadata, score and position of one token. */
int64_t kv_page_payload(const kv_page_token *t);

/* The map of a page for exactly so many tokens, of any size. Tests use it to
 * see what one more token would take. */
kv_page_map kv_page_map_with(int32_t tokens, const kv_page_token *t);

/* The map of a page of `page` bytes, with as many tokens as fit, perhaps 0. */
kv_page_map kv_page_map_of(int64_t page, const kv_page_token *t);

/* The page size for rows of d and d_v elements. Of the multiples of 128 bytes
 * from 800 to 8,000, it leaves the smallest share of a page unused in the worst
 * of K8V4 with groups 1,1 and 1,2 and K4V2 with 1,1 and 2,4; among equals the
 * smallest. 0: some token fits no page. */
int64_t kv_page_bytes(int d, int d_v);

#endif

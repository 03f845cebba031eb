/* SPDX-License-Identifier: Apache-2.0
 *
 * Unified pages, after LeanKV: pages of one size, each of which holds tokens of
 * one configuration, high or low, and is told which when it is taken. A page
 * has six segments, in this order; a token has a row in each:
 *
 *   K codes | K metadata | V codes | V metadata | scores | positions
 *
 * Codes and metadata begin at multiples of 32 bytes, V at a multiple of 128,
 * and tokens are padded to an even number for V, of which two are read at once.
 * Scores are fp32 and positions int32. Metadata is a scale and a zero point in
 * fp16 for each group along d.
 *
 * Integer formulas of no cost; ref/PAGES.md has them worked out.
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

/* How tokens of a page are coded: bits of a code and groups along d, of K and
 * of V. */
typedef struct kv_page_config {
  int bits[2], groups[2];
} kv_page_config;

/* Bytes that a token has in a page, of K and of V. */
typedef struct kv_page_token {
  int64_t codes[2], meta[2];
} kv_page_token;

/* Where the segments of a page lie. */
typedef struct kv_page_map {
  int32_t tokens;                   /* that the page has room for */
  int64_t at[KV_PAGE_SEGMENTS + 1]; /* bytes from the page's begin; the last:
                                       where the positions end */
} kv_page_map;

/* The bytes of a token coded so; d, d_v: elements of a row of K and of V. */
kv_page_token kv_page_token_of(int d, int d_v, const kv_page_config *c);

/* Bytes of codes, metadata, score and position of a token. */
int64_t kv_page_payload(const kv_page_token *t);

/* The map of a page with just so many tokens, however large that makes it:
 * tests ask what one more would take. */
kv_page_map kv_page_map_with(int32_t tokens, const kv_page_token *t);

/* The map of a page with as many tokens as fit into so many bytes; tokens 0:
 * not one does. */
kv_page_map kv_page_map_of(int64_t page, const kv_page_token *t);

/* The size of pages for rows of d and d_v elements: of the multiples of 128
 * bytes from 800 to 8,000 the one that leaves the smallest share of a page
 * unused in the worst of K8V4 with groups 1,1 and 1,2 and K4V2 with 1,1 and
 * 2,4; the smallest of those that are alike. 0: a token of these has no room in
 * any. */
int64_t kv_page_bytes(int d, int d_v);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes whose coded rows lie in unified pages: how a kernel finds a token of a
 * tier (ref/pages/geometry.h has the bytes). A token's K and V are blocks of
 * one number in two slabs (kv_gpu_in_pages), and that is its number in its
 * tier. Entries that are not coded yet are rows of the lane's pool.
 */
#ifndef KV_GPU_PAGED_H
#define KV_GPU_PAGED_H

#include "gpu/shared/lane.h"
#include "gpu/shared/pages.h"

#ifdef __cplusplus
extern "C" {
#endif
#include "ref/formats/minmax.h"
#include "ref/lane/records.h" /* KV_SIDES */
#ifdef __cplusplus
}
#endif

/* K or V of a tier's tokens: segments of codes and of metadata, each token's
 * behind one another. */
typedef struct kv_gpu_paged_side {
  kv_minmax how;
  int32_t slab;              /* KV_CODED or more: which of the lane's it is */
  int32_t width, ranges;     /* elements of a row; its scales */
  int32_t codes, meta;       /* bytes of a token */
  int32_t codes_at, meta_at; /* of the first, from the page's begin */
} kv_gpu_paged_side;

typedef struct kv_gpu_paged_tier {
  int32_t tokens; /* of a page; 0: there is no such tier */
  kv_gpu_paged_side side[KV_SIDES];
} kv_gpu_paged_tier;

/* The lanes of a layer. Token number i of a tier is the i % tokens-th of that
 * tier's page number i / tokens. High pages stand in a lane's row of the table
 * from the left, low ones from the right; while a prompt compresses, which has
 * reserved pages before it is known what they will be, low pages beyond those
 * held stand from the right end of the reserved ones. */
typedef struct kv_gpu_paged {
  char *pool;                 /* pages by their ids */
  int64_t page;               /* bytes of one */
  int32_t entries;            /* of a lane's row of the table */
  int32_t *table;             /* [lanes][entries] ids: ref/pages/pages.h */
  const kv_pages_count *held; /* [lanes] pages */
  kv_pages_count *count;      /* [lanes] numbers in use, free ones among them */
  int32_t *where; /* [lanes][KV_TIERS][stride] entry of each number, -1: none */
  int walked;     /* are formats those that paged.cu reads? */
  kv_gpu_paged_tier tier[KV_TIERS];
} kv_gpu_paged;

/* When gpu/backend/place.cu counts. */
typedef enum kv_gpu_counting {
  KV_GPU_COUNT_STEP,      /* a step may come: what it may need */
  KV_GPU_COUNT_BLOCK,     /* tokens have entered, of any tier */
  KV_GPU_COUNT_COMPRESSED /* a prompt is compressed: what it needs */
} kv_gpu_counting;

#endif

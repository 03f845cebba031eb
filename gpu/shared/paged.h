/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes whose rows lie in unified pages: how a kernel finds a token of a tier
 * (ref/pages/geometry.h has the bytes), and where in its lane it stands. Read
 * by gpu/backend/paged.cu. Rows are of format token; of KV_RULE_FP16 is none.
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

/* K or V of a tier's tokens. A row's metadata are its scales and then its
 * minima, its codes lie in planes: together they are a block of the format. */
typedef struct kv_gpu_paged_side {
  kv_minmax how;
  int32_t width, ranges;     /* elements of a row; its scales */
  int32_t codes, meta;       /* bytes of a token */
  int32_t codes_at, meta_at; /* of the first, from the page's begin */
} kv_gpu_paged_side;

typedef struct kv_gpu_paged_tier {
  int32_t tokens; /* of a page */
  kv_gpu_paged_side side[KV_SIDES];
} kv_gpu_paged_tier;

/* The lanes of a layer; passed by value. Token number i of a tier is the
 * i % tokens-th of that tier's page number i / tokens. */
typedef struct kv_gpu_paged {
  const char *pool;            /* pages by their ids */
  int64_t page;                /* bytes of one */
  int32_t entries;             /* of a lane's row of the table */
  const int32_t *table;        /* [lanes][entries] ids: ref/pages/pages.h */
  const kv_pages_count *store; /* [lanes] tokens */
  const int32_t *order; /* [lanes][stride] of entry j of the lane: 2 * its
                           number in its tier + the tier */
  kv_gpu_paged_tier tier[KV_TIERS];
} kv_gpu_paged;

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes whose coded rows are in unified pages, for kernels: plain structs that
 * gpu/host/tiers.c fills. Pages of one size hold tokens of two precisions
 * (tiers, high and low); a page belongs to one lane and one tier. A coded
 * token's number in its tier is that of its block in both slabs
 * (kv_gpu_in_pages). gpu/lane/paged.cuh finds its bytes, which are laid out as
 * in ref/pages/geometry.h. Entries that are not coded yet are rows of the
 * lane's pool. Every pointer is a device pointer.
 */
#ifndef KV_GPU_PAGED_H
#define KV_GPU_PAGED_H

#include "gpu/shared/lane.h"

/* --- the page manager ----------------------------------------------------- */

/* The page manager of ref/pages/pages.h in device memory: which page of a pool
 * belongs to which head of which request, with the same ring of free pages,
 * tables and counts under the same names. gpu/host/unified.h allocates and
 * empties it; kv_device.compact (gpu/backend/pages.cu) changes it, in one
 * launch a step. Heads here are all heads of a request over its layers; in a
 * replay the lanes of one layer. Every pointer is a device pointer. */

#ifdef __cplusplus
extern "C" {
#endif
#include "ref/pages/plan.h"
#ifdef __cplusplus
}
#endif

/* Heads of a part, which one block plans and moves. */
enum { KV_GPU_PART = 128 };

/* The manager's single numbers. */
typedef struct kv_gpu_pages_front {
  int32_t start, count; /* free ids are ring[start], .., count of them, wrapping
                           around */
  int32_t refused;      /* requests of the last call that found too few pages */
  kv_pages_books books; /* since the manager was opened or reset */
  /* Of the current call; 0 between calls, except give and take. */
  unsigned ticket;                /* blocks that have begun */
  unsigned planned, given, taken; /* parts that finished this phase; planned is
                                     one more when places are known */
  int64_t give, take;             /* pages of requests that are not refused */
  unsigned long long turned;      /* reserved high pages that became low ones */
} kv_gpu_pages_front;

/* The manager; passed to the kernel by value. */
typedef struct kv_gpu_pages {
  kv_pages_shape shape;
  kv_gpu_pages_front *front;
  int32_t *ring;         /* [shape.pages] ids of free pages */
  int32_t *table;        /* [requests][heads][shape.table] ids of held ones */
  kv_pages_count *held;  /* [requests][heads] pages, by tier */
  kv_pages_count *store; /* [requests][heads] tokens, by tier */
  kv_pages_job *job;     /* [requests] a call's jobs, one each; `count` is also
                            a device pointer */
  /* Scratch of a call. */
  kv_pages_count *goal; /* [requests][heads] pages that a head will hold */
  kv_pages_part *part;  /* [requests][parts] pages given and taken by a part,
                           then by all parts before it */
  kv_pages_part *sum;   /* [requests] the same for a request */
  int parts;            /* of a request: heads / KV_GPU_PART, rounded up */
} kv_gpu_pages;

#ifdef __cplusplus
extern "C" {
#endif
#include "ref/formats/minmax.h"
#include "ref/lane/records.h" /* KV_SIDES */
#ifdef __cplusplus
}
#endif

/* K or V of a tier. In a page the codes of its tokens are contiguous, and so is
 * their metadata (scales and minima); kv_gpu_paged_tier_of makes it. */
typedef struct kv_gpu_paged_side {
  kv_minmax how;             /* how a row is coded */
  int32_t slab;              /* the lane's slab of it, KV_CODED or more */
  int32_t width, ranges;     /* elements of a row; its scales, as many minima */
  int32_t codes, meta;       /* bytes of a token */
  int32_t codes_at, meta_at; /* byte offsets in the page of the first token's */
} kv_gpu_paged_side;

/* A tier: how its tokens are laid out in a page. */
typedef struct kv_gpu_paged_tier {
  int32_t tokens; /* of a page; 0: no such tier */
  kv_gpu_paged_side side[KV_SIDES];
} kv_gpu_paged_tier;

/* All lanes of a layer. Token number i of a tier is the i % tokens-th in that
 * tier's page number i / tokens. A lane's row of the table has ids of high
 * pages from the left and of low ones from the right. Exception: while a prompt
 * compresses, whose pages were reserved as high ones, low pages beyond those
 * held are at the right end of the reserved ones. */
typedef struct kv_gpu_paged {
  char *pool;                 /* page id begins at byte id * page */
  int64_t page;               /* bytes of a page */
  int32_t entries;            /* of a lane's row of the table */
  int32_t *table;             /* [lanes][entries] page ids */
  const kv_pages_count *held; /* [lanes] pages; both are the page manager's */
  kv_pages_count *count;      /* [lanes] tokens that the lane may need, which
                                 kv_device.count writes for the manager */
  int32_t *where; /* [lanes][KV_TIERS][stride] entry of each number, -1: none;
                     attend_paged writes it at each step */
  int walked;     /* 1: attend_paged can read these formats; 0: attention reads
                     entry by entry */
  kv_gpu_paged_tier tier[KV_TIERS];
} kv_gpu_paged;

/* What kv_device.count counts (gpu/backend/place.cu has the rules). */
typedef enum kv_gpu_counting {
  KV_GPU_COUNT_STEP,      /* most needed in a decode step, whose token is in */
  KV_GPU_COUNT_BLOCK,     /* most needed when a block of a prompt, which has
                             entered, is compressed */
  KV_GPU_COUNT_COMPRESSED /* after a prompt's compression: what it uses; also
                             moves its low pages right behind its high ones */
} kv_gpu_counting;

#endif

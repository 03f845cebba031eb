/* SPDX-License-Identifier: Apache-2.0
 *
 * The coded rows of a store in unified pages (ref/PAGES.md), where the plan
 * asks for it and its formats allow: each coded token is coded by itself, K and
 * V by formats of their own that come in one or two pairs, and nothing is
 * merged. Else the slabs hold them. Which it is changes no bit of any result.
 *
 * Pages are reserved before tokens enter, by what they may need at most, and
 * what a prompt did not need goes back when it is compressed; as variant code
 * has it. The pool has as many pages as the slabs' blocks would fill, so no
 * lane is ever refused.
 */
#ifndef KV_GPU_TIERS_H
#define KV_GPU_TIERS_H

#include "gpu/host/store.h"
#include "gpu/host/unified.h"

/* What the page manager is told to do, on the device. */
typedef enum kv_gpu_tiers_job {
  KV_GPU_JOB_PROMPT,
  KV_GPU_JOB_STEP,
  KV_GPU_JOB_COMPRESSED,
  KV_GPU_JOBS
} kv_gpu_tiers_job;

struct kv_gpu_tiers {
  kv_gpu_unified u;
  kv_gpu_paged rows;   /* as kernels are given it */
  kv_gpu_paged *there; /* on the device, for slabs */
  kv_pages_job *job;   /* [KV_GPU_JOBS] on the device */
};

/* Sets s->tiers, or leaves it NULL where rows stay in slabs; errors in
 * s->fault. The lanes' mirrors are there. */
void kv_gpu_tiers_take(kv_store *s);
void kv_gpu_tiers_give(kv_store *s);
/* A layer begins: all pages are free. */
void kv_gpu_tiers_begin(kv_store *s);
/* Where the blocks of a lane's slab lie. */
kv_gpu_in_pages kv_gpu_tiers_of(const kv_store *s, int lane, int side,
                                int slab);
/* Does attention walk the pages? */
bool kv_gpu_tiers_walked(const kv_store *s);

/* Starts what reserves pages for the tokens that have entered, .. */
void kv_gpu_seq_reserve(const kv_store *s, void *stream);
/* .. and gives back what a prompt that is compressed did not need. */
void kv_gpu_seq_compressed(const kv_store *s, void *stream);

#endif

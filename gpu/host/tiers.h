/* SPDX-License-Identifier: Apache-2.0
 *
 * A replay's coded rows in unified pages (gpu/shared/paged.h, ref/PAGES.md).
 * Used if the plan asks for it (`--layout unified`) and its formats allow: each
 * token is coded by itself, K and V by formats of their own that come in one or
 * two pairs, and nothing is merged. Otherwise slabs hold the rows. The choice
 * changes no bit of any result. Called by gpu/host/store.c and step.c.
 *
 * Pages are reserved after tokens have entered and before any is coded, for the
 * most that they may need. What a prompt did not need is returned when it is
 * compressed, as in LeanKV's code. The pool has as many pages as the slabs'
 * blocks would fill plus one a lane and tier, so no lane is ever refused.
 */
#ifndef KV_GPU_TIERS_H
#define KV_GPU_TIERS_H

#include "gpu/host/store.h"
#include "gpu/host/unified.h"

/* The jobs of the page manager: the kv_pages_phase of that name. */
typedef enum kv_gpu_tiers_job {
  KV_GPU_JOB_PROMPT,
  KV_GPU_JOB_STEP,
  KV_GPU_JOB_COMPRESSED,
  KV_GPU_JOBS
} kv_gpu_tiers_job;

/* kv_store.tiers. */
struct kv_gpu_tiers {
  kv_gpu_unified u;    /* the page manager, of one request */
  kv_gpu_paged rows;   /* as kernels get it */
  kv_gpu_paged *there; /* its copy on the device, to which slabs point */
  kv_pages_job *job;   /* [KV_GPU_JOBS] on the device */
};

/* When a store opens and has its mirror: sets s->tiers, or leaves it NULL if
 * rows stay in slabs. Lack of memory sets s->fault. */
void kv_gpu_tiers_take(kv_store *s);
void kv_gpu_tiers_give(kv_store *s); /* when it closes */
/* A layer begins: all pages are free. Sets s->fault if the host lacks memory
 * for that; does nothing if s->tiers is NULL. */
void kv_gpu_tiers_begin(kv_store *s);
/* Where the blocks of a slab of a lane and side (KV_SIDE_K, KV_SIDE_V) are;
 * zeroed: in its own data. slab: KV_CODED or more. */
kv_gpu_in_pages kv_gpu_tiers_of(const kv_store *s, int lane, int side,
                                int slab);
/* Does attention use kv_device.attend_paged? */
bool kv_gpu_tiers_walked(const kv_store *s);

/* Starts, in a sequence, that do nothing if s->tiers is NULL: reserves pages
 * for the tokens that have entered; .. */
void kv_gpu_seq_reserve(const kv_store *s, void *stream);
/* .. returns what a prompt or a block of one did not need, after its
 * compression; does nothing in decoding. */
void kv_gpu_seq_compressed(const kv_store *s, void *stream);

#endif

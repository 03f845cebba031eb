/* SPDX-License-Identifier: Apache-2.0
 *
 * The page manager of ref/pages/pages.h in device memory: which page of a pool
 * belongs to which head of which request, with the same ring of free pages,
 * tables and counts under the same names. gpu/host/unified.h takes and gives
 * the memory and empties it; kv_device.compact (gpu/backend/pages.cu) changes
 * it, in one launch a step. Heads here are all heads of a request over its
 * layers, in a replay the lanes of one layer. Every pointer is a device
 * pointer.
 */
#ifndef KV_GPU_PAGES_H
#define KV_GPU_PAGES_H

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
  int32_t start, count; /* free are the ids ring[start], .., count of them,
                           round the ring's end */
  int32_t refused;      /* requests of the last call that found too few pages */
  kv_pages_books books; /* since the manager was opened or reset */
  /* Of the call in flight; 0 between calls, but for give and take. */
  unsigned ticket;                /* blocks that have begun */
  unsigned planned, given, taken; /* parts that are through this phase; planned
                                     is one more when places are known */
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
  kv_pages_job *job;     /* [requests] what a call is to do, a request each; its
                            `count` is a device pointer, too */
  /* Scratch of a call. */
  kv_pages_count *goal; /* [requests][heads] pages that a head will hold */
  kv_pages_part *part;  /* [requests][parts] pages given and taken by a part,
                           then by all parts before it */
  kv_pages_part *sum;   /* [requests] the same by a request */
  int parts;            /* of a request: heads / KV_GPU_PART, rounded up */
} kv_gpu_pages;

#endif

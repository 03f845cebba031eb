/* SPDX-License-Identifier: Apache-2.0
 *
 * The page manager of ref/pages/pages.h in device memory: the same ring, tables
 * and counts under the same names, written by gpu/backend/pages.cu in one
 * launch a step. Every pointer is a device pointer; who takes and gives their
 * memory is gpu/host/unified.h.
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

enum { KV_GPU_PART = 128 }; /* heads that a block plans and moves */

/* What one number is enough for. All of a call in flight is zero between
 * calls. */
typedef struct kv_gpu_pages_front {
  int32_t start, count; /* ids ring[start], ... are free, count of them */
  int32_t refused;      /* requests, of the last call */
  kv_pages_books books;
  /* Of the call in flight. */
  unsigned ticket;                /* how many blocks have one */
  unsigned planned, given, taken; /* parts whose phase is over; planned is one
                                     more when all know their places */
  int64_t give, take;             /* pages of those that are served */
  unsigned long long turned;
} kv_gpu_pages_front;

/* Passed to the kernel by value. */
typedef struct kv_gpu_pages {
  kv_pages_shape shape;
  kv_gpu_pages_front *front;
  int32_t *ring;         /* [pages] */
  int32_t *table;        /* [requests][heads][shape.table] */
  kv_pages_count *held;  /* [requests][heads] pages */
  kv_pages_count *store; /* [requests][heads] tokens */
  kv_pages_job *job;     /* [requests] of a call; counts on the device, too */
  /* Scratch of a call. */
  kv_pages_count *goal; /* [requests][heads] pages after it */
  kv_pages_part *part;  /* [requests][parts] */
  kv_pages_part *sum;   /* [requests] of a job's parts */
  int parts;            /* of the heads of a request, a block each */
} kv_gpu_pages;

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The page manager on a device (gpu/shared/paged.h) for the host: its memory,
 * one call a step, and how tokens are stored in its pages. open and reset may
 * fail; other failures are the device's failed(). Device memory: that of
 * ref/pages/pages.h, and for each request its job and sums.
 */
#ifndef KV_GPU_UNIFIED_H
#define KV_GPU_UNIFIED_H

#include "gpu/shared/device.h"

#ifdef __cplusplus
extern "C" {
#endif
#include "ref/pages/geometry.h"

typedef struct kv_gpu_unified {
  const kv_device *device; /* NULL: it has no memory */
  kv_gpu_pages p;          /* as kernels get it */
} kv_gpu_unified;

/* Allocates its memory; all pages are free, no request has any. KV_RESOURCE: no
 * memory, and *out is closed. */
kv_rc kv_gpu_unified_open(const kv_device *device, const kv_pages_shape *shape,
                          kv_gpu_unified *out, kv_err *e);
/* The same state again; KV_RESOURCE: no memory on the host. */
kv_rc kv_gpu_unified_reset(kv_gpu_unified *u, kv_err *e);
/* Frees the memory and zeroes *u; accepts a zeroed one. */
void kv_gpu_unified_close(kv_gpu_unified *u);

/* One step of n requests, at most shape.requests: uploads job [n], whose
 * `count` are device pointers, does them, reads the answers back into job and
 * waits. Returns how many were refused. For tests and benchmarks: a replay
 * starts kv_device.compact itself. */
int kv_gpu_unified_compact(kv_gpu_unified *u, int n, kv_pages_job *job);

/* A side of a tier. */
typedef struct kv_gpu_tier_side {
  kv_minmax how;   /* how a row is coded; its group is 1 or more */
  int width, slab; /* elements of a row; number of the lane's slab with such
                      rows, KV_CODED or more */
} kv_gpu_tier_side;

/* How a tier's tokens are stored in pages of `page` bytes. t: bytes of a
 * token's codes and metadata; side: K, then V. tokens 0 in it: none fits. */
kv_gpu_paged_tier kv_gpu_paged_tier_of(int64_t page, const kv_page_token *t,
                                       const kv_gpu_tier_side side[KV_SIDES]);

#ifdef __cplusplus
}
#endif

#endif

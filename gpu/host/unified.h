/* SPDX-License-Identifier: Apache-2.0
 *
 * The page manager on a device, as its host sees it: memory, and one call a
 * step, of a launch between copies of the jobs (gpu/backend/pages.cu). open may
 * fail, and says why; after it the device's failed() does. Memory: that of
 * ref/pages/pages.h, and a job and its sums a request. And how tokens lie in
 * its pages.
 */
#ifndef KV_GPU_UNIFIED_H
#define KV_GPU_UNIFIED_H

#include "gpu/shared/device.h"

#ifdef __cplusplus
extern "C" {
#endif
#include "ref/pages/geometry.h"

typedef struct kv_gpu_unified {
  const kv_device *device;
  kv_gpu_pages p;
} kv_gpu_unified;

/* All pages free, no request has any. */
kv_rc kv_gpu_unified_open(const kv_device *device, const kv_pages_shape *shape,
                          kv_gpu_unified *out, kv_err *e);
/* The same again. */
kv_rc kv_gpu_unified_reset(kv_gpu_unified *u, kv_err *e);
void kv_gpu_unified_close(kv_gpu_unified *u); /* accepts zeroed */

/* One step of n requests, whose counts are in device memory. Returns how many
 * were refused. */
int kv_gpu_unified_compact(kv_gpu_unified *u, int n, kv_pages_job *job);

/* A side of a tier: how it is coded, by groups that divide a row or but one of
 * them; elements of a row; the lane's slab. */
typedef struct kv_gpu_tier_side {
  kv_minmax how;
  int width, slab;
} kv_gpu_tier_side;

/* How a tier's tokens lie in pages of so many bytes, t bytes each. tokens 0:
 * not one fits. */
kv_gpu_paged_tier kv_gpu_paged_tier_of(int64_t page, const kv_page_token *t,
                                       const kv_gpu_tier_side side[KV_SIDES]);

#ifdef __cplusplus
}
#endif

#endif

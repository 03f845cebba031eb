/* SPDX-License-Identifier: Apache-2.0
 *
 * A store of regular indices on a device, as its host sees it: memory for both
 * halves, taken once and never moved, so that what was recorded over it stays
 * right; kernels are the device's `regular`. Memory: twice what the lanes
 * have room for, as a rewrite holds both copies while it copies.
 */
#ifndef KV_GPU_HOST_REGULAR_H
#define KV_GPU_HOST_REGULAR_H

#include "gpu/shared/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kv_gpu_regular_store {
  const kv_device *device;
  kv_gpu_regular r;
} kv_gpu_regular_store;

/* Empty lanes of `room` places each, for rows as the shape has them. */
kv_rc kv_gpu_regular_open(const kv_device *device, const kv_shape *shape,
                          int lanes, int room, kv_gpu_regular_store *out,
                          kv_err *e);
void kv_gpu_regular_close(kv_gpu_regular_store *s); /* accepts zeroed */

#ifdef __cplusplus
}
#endif

#endif

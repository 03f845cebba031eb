/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of a store of regular indices (gpu/shared/regular.h) on a device:
 * both halves, taken once and never moved, so that what was recorded over it
 * stays right. What is done with it is kv_device.regular. Twice what the lanes
 * have room for, as a rewrite holds both copies while it copies.
 */
#ifndef KV_GPU_HOST_REGULAR_H
#define KV_GPU_HOST_REGULAR_H

#include "gpu/shared/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kv_gpu_regular_store {
  const kv_device *device; /* NULL: closed */
  kv_gpu_regular r;        /* as kernels are given it */
} kv_gpu_regular_store;

/* Takes it for `lanes` empty lanes of `room` tokens each, with rows of the
 * shape's d, d_v and dtype, and a mask each or, shared, one for all.
 * KV_RESOURCE: no memory, and *out is closed. */
kv_rc kv_gpu_regular_open(const kv_device *device, const kv_shape *shape,
                          int lanes, int room, bool shared,
                          kv_gpu_regular_store *out, kv_err *e);
/* Gives it back; accepts a zeroed store. */
void kv_gpu_regular_close(kv_gpu_regular_store *s);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of a store of regular indices (gpu/shared/regular.h) on a device:
 * both halves, allocated once and never moved, so that recorded sequences stay
 * valid. kv_device.regular works on it. It is twice the capacity of the lanes,
 * because a rewrite holds both copies.
 */
#ifndef KV_GPU_HOST_REGULAR_H
#define KV_GPU_HOST_REGULAR_H

#include "gpu/shared/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kv_gpu_regular_store {
  const kv_device *device; /* NULL: closed */
  kv_gpu_regular r;        /* as kernels get it */
} kv_gpu_regular_store;

/* Allocates it for `lanes` empty lanes of `room` tokens each, with rows of the
 * shape's d, d_v and dtype, and a mask each or, if shared, one for all.
 * KV_RESOURCE: no memory, and *out is closed. */
kv_rc kv_gpu_regular_open(const kv_device *device, const kv_shape *shape,
                          int lanes, int room, bool shared,
                          kv_gpu_regular_store *out, kv_err *e);
/* Frees it; accepts a zeroed store. */
void kv_gpu_regular_close(kv_gpu_regular_store *s);

#ifdef __cplusplus
}
#endif

#endif

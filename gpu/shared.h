/* SPDX-License-Identifier: Apache-2.0
 *
 * What all stores of a trace on a device read and none writes: the rows of
 * the layers in flight, uploaded once whatever the number of methods, and the
 * rotations of those that re-index. A pool lives as long as a store uses it;
 * its memory is kept from layer to layer.
 */
#ifndef KV_GPU_SHARED_H
#define KV_GPU_SHARED_H

#include "gpu/device.h"
#include "ref/backend.h"

/* K, V and queries of one layer, on the device. */
typedef struct kv_gpu_loaded {
  const kv_layer_data *of; /* NULL: nobody's */
  int users;
  char *k, *v, *q;
  size_t q_size;
  struct kv_gpu_loaded *next;
} kv_gpu_loaded;

typedef struct kv_gpu_pool {
  const kv_device *device;
  kv_shape shape;
  const kv_rope *rope;
  int stores;
  kv_gpu_loaded *rows;
  float *rotation; /* as in kv_gpu_layer, or NULL */
  int32_t *position;
  int range;
  struct kv_gpu_pool *next;
} kv_gpu_pool;

/* n zeroed bytes on the device, or NULL and the sentence. */
void *kv_gpu_room(const kv_device *device, size_t n, kv_err *e);

/* The pool for a plan, rotations included where it re-indexes. */
kv_rc kv_gpu_pool_open(const kv_device *device, const kv_plan *plan,
                       kv_gpu_pool **out, kv_err *e);
void kv_gpu_pool_close(kv_gpu_pool *p); /* accepts NULL */

/* Rows of a layer, uploaded if nobody has them in use. */
kv_rc kv_gpu_loaded_open(kv_gpu_pool *p, const kv_layer_data *data,
                         kv_gpu_loaded **out, kv_err *e);
void kv_gpu_loaded_close(kv_gpu_loaded *r); /* accepts NULL */

#endif

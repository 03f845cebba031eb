/* SPDX-License-Identifier: Apache-2.0
 *
 * Device data that stores share. All stores of a trace read the rows of the
 * layers in flight, which are uploaded once for any number of methods, and the
 * rotations for methods that re-index or code keys before RoPE. All stores of
 * one plan write one log. Opened data is shared with everyone who opened the
 * same, and lives until the last one closes it. The memory of rows is reused
 * from layer to layer, until the trace is closed. Opening and closing hold a
 * lock; one thread at a time uses the device that they call.
 */
#ifndef KV_GPU_SHARED_H
#define KV_GPU_SHARED_H

#include "gpu/shared/device.h"
#include "ref/backend/backend.h"

/* One layer's rows on the device. */
typedef struct kv_gpu_loaded {
  const kv_layer_data *of; /* the layer that was uploaded last */
  int users;               /* stores that use it; 0: another layer may use it */
  char *k, *v, *q; /* device memory, as kv_gpu_layer.k, v and query have it */
  size_t q_size;   /* capacity of q in bytes */
  struct kv_gpu_loaded *next;
} kv_gpu_loaded;

/* What stores of a trace share. */
typedef struct kv_gpu_trace {
  const kv_device *device;
  kv_shape shape;
  const kv_rope *rope;
  int stores;                  /* that use it */
  kv_gpu_loaded *rows;         /* memory of all its layers, a list */
  float *back, *forth, *turns; /* as in kv_gpu_layer; NULL: no store has needed
                                  it */
  int ahead;                   /* needs.ahead of `turns` */
  int32_t *position;           /* as in kv_gpu_layer; NULL also if tokens are at
                                  0, 1, .. */
  void *room;                  /* kv_gpu_trace_room; NULL: not yet */
  struct kv_gpu_trace *next;
} kv_gpu_trace;

/* Where the verbs of a step leave the rows that they rewrote, for the host to
 * hash. Its size is for the largest compression, far more than a layer holds.
 * The host reads a layer's rows before another layer of the plan compresses, so
 * all stores of a plan share one. */
typedef struct kv_gpu_log {
  const kv_device *device;
  const kv_plan *of;  /* the plan of its stores */
  int users;          /* stores that use it */
  size_t cap, width;  /* rows of a lane; floats of a row: d + d_v */
  uint32_t *id;       /* [lanes][cap] */
  float *row;         /* [lanes][cap][width] */
  const void *holder; /* the store that last started a compression */
  struct kv_gpu_log *next;
} kv_gpu_log;

/* n zeroed bytes on the device, which the caller frees; NULL: e says why
 * (KV_RESOURCE). */
void *kv_gpu_room(const kv_device *device, size_t n, kv_err *e);
/* Writes to e why take or pin has just returned NULL (KV_RESOURCE), and notes
 * it for kv_gpu_lacked. */
void kv_gpu_none(const kv_device *device, kv_err *e);
/* device->failed(), noted for kv_gpu_lacked: lack of memory may be the cause.
 */
const char *kv_gpu_failed(const kv_device *device);
/* kv_backend.lacked: has a device lacked memory since the last call, and does
 * this device work? */
bool kv_gpu_lacked(const kv_device *device);

/* Opens a trace's data on the device, for a store of the plan: with rotations
 * if needs.reindex, and turns, copied from `turns`, if needs.rope. KV_RESOURCE:
 * *out is NULL. When its last store closes it, the device is informed that the
 * trace has ended. */
kv_rc kv_gpu_trace_open(const kv_device *device, const kv_plan *plan,
                        const kv_turns *turns, kv_gpu_trace **out, kv_err *e);
void kv_gpu_trace_close(kv_gpu_trace *p); /* accepts NULL */
/* n bytes on the device, the same for all stores of the trace, which ask for
 * the same n. What a store writes there lasts until another store starts. NULL:
 * e says why (KV_RESOURCE). */
void *kv_gpu_trace_room(kv_gpu_trace *p, size_t n, kv_err *e);

/* Opens the rows of a layer; uploads them unless another store uses them.
 * KV_RESOURCE: *out is NULL. */
kv_rc kv_gpu_loaded_open(kv_gpu_trace *p, const kv_layer_data *data,
                         kv_gpu_loaded **out, kv_err *e);
void kv_gpu_loaded_close(kv_gpu_loaded *r); /* accepts NULL */

/* Opens the log of a plan whose method rewrites rows; NULL: e says why
 * (KV_RESOURCE). */
kv_gpu_log *kv_gpu_log_open(const kv_device *device, const kv_plan *plan,
                            kv_err *e);
void kv_gpu_log_close(kv_gpu_log *log); /* accepts NULL */

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Device data that stores share. All stores of a trace read the rows of the
 * layers in flight, uploaded once for any number of methods, and the rotations
 * for methods that re-index or code keys before RoPE. All stores that were
 * opened for one plan write one log. What is opened is shared with whoever
 * opened the same, and lives until the last has closed it; the memory of rows
 * is reused from layer to layer, until the trace is closed. Opening and closing
 * is behind a lock; the device that it calls is used by one thread at a time.
 */
#ifndef KV_GPU_SHARED_H
#define KV_GPU_SHARED_H

#include "gpu/shared/device.h"
#include "ref/backend/backend.h"

/* One layer's rows on the device. */
typedef struct kv_gpu_loaded {
  const kv_layer_data *of; /* the layer that was uploaded last */
  int users;       /* stores that have it open; 0: another layer may have it */
  char *k, *v, *q; /* device memory, as kv_gpu_layer.k, v and query have it */
  size_t q_size;   /* bytes that q has room for */
  struct kv_gpu_loaded *next;
} kv_gpu_loaded;

/* What stores of a trace share. */
typedef struct kv_gpu_trace {
  const kv_device *device;
  kv_shape shape;
  const kv_rope *rope;
  int stores;                  /* that have it open */
  kv_gpu_loaded *rows;         /* all its layers' memory, a list */
  float *back, *forth, *turns; /* what kv_gpu_layer has by these names; NULL: no
                                  store has needed it */
  int ahead;                   /* needs.ahead that `turns` were made for */
  int32_t *position;           /* the same of position; NULL, too: tokens stand
                                  at 0, 1, .. */
  struct kv_gpu_trace *next;
} kv_gpu_trace;

/* Where the verbs of a step leave the rows that they rewrote, for the host to
 * hash: as long as a compression may need, which is far more than a layer
 * holds. The host has read a layer's before another layer of the plan
 * compresses, so that all stores of a plan share one. */
typedef struct kv_gpu_log {
  const kv_device *device;
  const kv_plan *of;  /* which the stores were opened for */
  int users;          /* stores that have it open */
  size_t cap, width;  /* rows of a lane; floats of a row: d + d_v */
  uint32_t *id;       /* [lanes][cap] */
  float *row;         /* [lanes][cap][width] */
  const void *holder; /* the store whose compression was started last */
  struct kv_gpu_log *next;
} kv_gpu_log;

/* n zeroed bytes on the device, which the caller gives back; NULL: e says why
 * (KV_RESOURCE). */
void *kv_gpu_room(const kv_device *device, size_t n, kv_err *e);
/* Says in e why take or pin returned NULL just now (KV_RESOURCE), and notes it
 * for kv_gpu_lacked. */
void kv_gpu_none(const kv_device *device, kv_err *e);
/* device->failed(), noted for kv_gpu_lacked: it may be that memory lacked. */
const char *kv_gpu_failed(const kv_device *device);
/* kv_backend.lacked: true if memory of a device was lacking since the last
 * call, and this device works. */
bool kv_gpu_lacked(const kv_device *device);

/* Opens what a trace has on the device, for a store of the plan: with rotations
 * if needs.reindex, and turns, copied from `turns`, if needs.rope. KV_RESOURCE:
 * *out is NULL. When no store has it open any more, the device is told that the
 * trace has ended. */
kv_rc kv_gpu_trace_open(const kv_device *device, const kv_plan *plan,
                        const kv_turns *turns, kv_gpu_trace **out, kv_err *e);
void kv_gpu_trace_close(kv_gpu_trace *p); /* accepts NULL */

/* Opens the rows of a layer; uploads them if no other store has them open.
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

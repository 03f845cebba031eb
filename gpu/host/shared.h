/* SPDX-License-Identifier: Apache-2.0
 *
 * Device data that stores share. All stores of a trace read the rows of the
 * layers in flight, uploaded once for any number of methods, and the rotations
 * for methods that re-index or code keys before RoPE. They live as long as a
 * store uses them; memory is reused from layer to layer. All stores of a cell
 * write one log. Opening and closing is thread-safe.
 */
#ifndef KV_GPU_SHARED_H
#define KV_GPU_SHARED_H

#include "gpu/shared/device.h"
#include "ref/backend/backend.h"

/* K, V and queries of one layer, on the device. */
typedef struct kv_gpu_loaded {
  const kv_layer_data *of; /* NULL: free */
  int users;
  char *k, *v, *q;
  size_t q_size;
  struct kv_gpu_loaded *next;
} kv_gpu_loaded;

/* What stores of a trace share. */
typedef struct kv_gpu_trace {
  const kv_device *device;
  kv_shape shape;
  const kv_rope *rope;
  int stores;
  kv_gpu_loaded *rows;
  float *back;  /* kv_gpu_layer.back, or NULL */
  float *forth; /* the same of forth */
  float *turns; /* the same of turns */
  int ahead;    /* needs.ahead of whom they were made for */
  int32_t *position;
  struct kv_gpu_trace *next;
} kv_gpu_trace;

/* Where the verbs of a step leave what they rewrote, for the host to hash: as
 * long as a compression may need, which is far more than a layer holds. The
 * host has read a layer's before another layer of the cell compresses, so that
 * all stores of a plan share one. */
typedef struct kv_gpu_log {
  const kv_device *device;
  const kv_plan *of; /* which the stores were opened for */
  int users;
  size_t cap, width;  /* rows of a lane; floats of a row: d + d_v */
  uint32_t *id;       /* [lanes][cap] */
  float *row;         /* [lanes][cap][width] */
  const void *holder; /* the store whose compression was started last */
  struct kv_gpu_log *next;
} kv_gpu_log;

/* n zeroed bytes on the device; NULL on failure, with the sentence in e. */
void *kv_gpu_room(const kv_device *device, size_t n, kv_err *e);
/* Says in e why take or pin returned NULL. */
void kv_gpu_none(const kv_device *device, kv_err *e);
/* The device's failed(), which may be that memory was lacking. */
const char *kv_gpu_failed(const kv_device *device);
/* True if memory was lacking since the last call, and the device works. */
bool kv_gpu_lacked(const kv_device *device);

/* Opens what a trace has on the device, for a plan: with rotations if the
 * method re-indexes, and rotations of the tokens' positions if needs.rope. */
kv_rc kv_gpu_trace_open(const kv_device *device, const kv_plan *plan,
                        const kv_turns *turns, kv_gpu_trace **out, kv_err *e);
void kv_gpu_trace_close(kv_gpu_trace *p); /* accepts NULL */

/* The rows of a layer; uploads them if no other store is using them. */
kv_rc kv_gpu_loaded_open(kv_gpu_trace *p, const kv_layer_data *data,
                         kv_gpu_loaded **out, kv_err *e);
void kv_gpu_loaded_close(kv_gpu_loaded *r); /* accepts NULL */

/* The log of a plan whose method rewrites; NULL: no memory, and e says so. */
kv_gpu_log *kv_gpu_log_open(const kv_device *device, const kv_plan *plan,
                            kv_err *e);
void kv_gpu_log_close(kv_gpu_log *log); /* accepts NULL */

#endif

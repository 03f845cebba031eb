/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the device backends (store.c, mirror.c, replay.c): one method on
 * one layer in flight. The device holds the truth; the host keeps a mirror of
 * every lane, rewritten rows included, and brings it up to date once a step
 * where a verb changed something, so that the engine reads, prices and hashes
 * it exactly as it does a lane of the reference.
 */
#ifndef KV_GPU_STORE_H
#define KV_GPU_STORE_H

#include "gpu/device.h"
#include "ref/backend.h"
#include "ref/leaves.h"
#include <pthread.h>

/* What a step starts on the device, in order; each is recorded once a layer
 * and replayed at every decode step. */
typedef enum kv_gpu_part {
  KV_GPU_ENTER,
  KV_GPU_ATTEND,
  KV_GPU_OBSERVE,
  KV_GPU_SETTLE,
  KV_GPU_SETTLE_LAYER,
  KV_GPU_PARTS
} kv_gpu_part;

struct kv_store {
  const kv_device *device;
  const kv_plan *plan;
  const kv_layer_data *data;
  const kv_gpu_hooks *hooks;
  int lanes, queries; /* query heads of a lane */
  int tile_rows;      /* prompt rows at once */
  bool own_views;     /* the method chooses what is seen */
  kv_gpu_layer layer; /* device pointers */
  kv_gpu_clock clock;
  kv_gpu_lane *head; /* [lanes] host copies of the lanes' structs */
  kv_lane *mirror;   /* [lanes] */
  uint64_t *bad;     /* [lanes] */
  kv_digest *state;  /* [lanes] */
  kv_leaves leaves;
  /* Of the step, by query head of the layer. */
  float *q, *s, *out, *lse, *both; /* [tile][heads][d], [heads][stride],
                                      [heads][d_v], [heads],
                                      [heads][d_v + 1] */
  int32_t *runs, *entries;
  kv_view *view;
  float *row; /* room for rewritten rows on their way to a digest */
  /* What is done for the block that ends at `end` tokens; the lock is held
   * while it is looked up and done. */
  pthread_mutex_t lock;
  int end;
  bool entered, seen, attended, settled;
  kv_err fault;
  void *recorded[KV_GPU_PARTS];
  void **taken; /* device memory to give back */
  int n_taken, cap_taken;
};

struct kv_scratch {
  int nothing; /* a store has all it needs */
};

/* store.c */
kv_rc kv_gpu_open(const kv_device *device, const kv_plan *plan, kv_store **out,
                  kv_err *e);
void kv_gpu_close(kv_store *s);
void kv_gpu_begin(kv_store *s, const kv_layer_data *data);

/* mirror.c */
/* After a block entered: the mirror's lanes grow as the device's did. */
void kv_gpu_mirror_append(kv_store *s, int first, int count);
/* The columns, before a settling is hashed. */
void kv_gpu_mirror_columns(kv_store *s);
/* Everything that verbs of this step changed. */
void kv_gpu_mirror_verbs(kv_store *s);
/* The faults that kernels noticed; `prompt`: in rows of the prompt. */
void kv_gpu_mirror_faults(kv_store *s, bool prompt);

#endif

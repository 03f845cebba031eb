/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the device backends: one method on one layer in flight. The
 * device holds the truth; the host keeps a mirror of every lane, rewritten
 * rows included, so that the engine reads, prices and hashes it exactly as it
 * does a lane of the reference.
 *
 * A decode step is one start, one recorded sequence, one copy and one wait,
 * whatever the number of lanes and heads: the sequence ends with a report of
 * all that the host must know (gpu/report.cu), and the calls of kv_backend
 * take it up piece by piece. A copy is as long as the last report of its kind
 * was, and a bit; what a longer one has beyond that costs a second copy.
 *
 * When the device is lost the store goes on without it: lanes that hold every
 * token, views of all of it, outputs of zeros, and the fault.
 */
#ifndef KV_GPU_STORE_H
#define KV_GPU_STORE_H

#include "gpu/device.h"
#include "gpu/shared.h"
#include "ref/backend.h"
#include "ref/leaves.h"
#include <pthread.h>

/* Rows that the verbs of one step may rewrite in a lane. */
#define KV_GPU_LOG(n_tokens) (2 * (size_t)(n_tokens) + 64)

/* Reports of different lengths. */
typedef enum kv_gpu_kind_of_step {
  KV_GPU_STEP, /* a decode step without a settling */
  KV_GPU_DUE,  /* with one */
  KV_GPU_PROMPT,
  KV_GPU_LAST, /* the end of a layer */
  KV_GPU_STEPS
} kv_gpu_step;

struct kv_store {
  const kv_device *device;
  const kv_plan *plan;
  const kv_layer_data *data;
  const kv_gpu_hooks *hooks;
  kv_gpu_pool *pool;
  kv_gpu_loaded *rows; /* of the layer, between begin and finish */
  int lanes, queries;  /* query heads of a lane */
  int tile_rows;       /* prompt rows at once */
  bool own_views;      /* the method chooses what is seen */
  kv_gpu_layer layer;  /* device pointers */
  kv_gpu_clock clock;
  kv_gpu_lane *head; /* [lanes] host copies of the lanes' structs */
  char *own;         /* on the device: [lanes] of lane_state */
  size_t own_size;   /* of one, rounded up */
  kv_lane *mirror;   /* [lanes] */
  uint64_t *bad;     /* [lanes] */
  kv_digest *state;  /* [lanes] */
  kv_leaves leaves;
  /* Of the step, by query head of the layer. */
  float *s, *out, *lse, *both; /* [heads][stride] or NULL: not asked for;
                                  [heads][d_v], [heads], [heads][d_v + 1] */
  kv_view *view;
  int64_t *sums;   /* [heads][stride] recorded ones, or NULL */
  float *row;      /* a rewritten row on its way to a digest */
  int32_t *list;   /* [cap_log] numbers of a report */
  uint32_t *next;  /* [n_tokens] */
  char *report;    /* pinned: front, pieces, data */
  uint64_t window; /* byte of the data where what is here begins */
  uint64_t expected[KV_GPU_STEPS]; /* bytes of data */
  /* What is done for the block that ends at `end` tokens; the lock is held
   * while it is looked up and done. */
  pthread_mutex_t lock;
  int end;
  bool seen, attended, lost;
  kv_err fault;
  void *recorded[2];             /* KV_GPU_STEP, KV_GPU_DUE */
  const kv_decisions *decisions; /* that the method follows, or NULL */
  void **taken;                  /* device memory to give back */
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

/* take.c: all device memory of a store, and its report; s->fault. */
void kv_gpu_take_all(kv_store *s);

/* step.c */
bool kv_gpu_due(const kv_store *s);
/* Tells the device what comes; in the prompt, tokens enter. */
void kv_gpu_enter(kv_store *s, int first, int count);
/* Query rows of the block's prompt to the method's observe. */
void kv_gpu_show_prompt(kv_store *s, int first, int count);
/* Each starts its work and reads the report. A whole decode step: */
void kv_gpu_run_step(kv_store *s);
void kv_gpu_run_settling(kv_store *s); /* of a block of the prompt */
void kv_gpu_run_last(kv_store *s);     /* columns at the end of a layer */

/* read.c */
/* The report to the host; false: the device is lost. */
bool kv_gpu_read(kv_store *s, kv_gpu_step kind);
/* Piece j of a stage; it has elements of `size` bytes, at most `most`, or the
 * store has a fault and NULL is returned. */
const kv_gpu_piece *kv_gpu_piece_of(kv_store *s, kv_gpu_stage stage, int j,
                                    size_t size, size_t most);
/* Elements first..first+n-1 of it to `to`; false: the device is lost. */
bool kv_gpu_pull(kv_store *s, const kv_gpu_piece *p, size_t first, size_t n,
                 void *to);
/* All of it; how many elements, -1: there is a fault. */
int kv_gpu_pull_all(kv_store *s, kv_gpu_stage stage, int j, size_t size,
                    size_t most, void *to);

/* mirror.c: the report's stages to the mirror. */
void kv_gpu_mirror_views(kv_store *s);
void kv_gpu_mirror_columns(kv_store *s);
void kv_gpu_mirror_lanes(kv_store *s);

/* lost.c */
/* Is there a fault of the device? Then the store goes on without it. */
bool kv_gpu_lost(kv_store *s);
/* Views and outputs of a step that it does not make any more. */
void kv_gpu_lost_views(kv_store *s);

#endif

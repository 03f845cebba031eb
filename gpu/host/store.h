/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the device backends: one method on one layer in flight. The device
 * holds the data; the host keeps a mirror of every lane, rewritten rows
 * included, which the engine reads, measures and hashes exactly like a lane of
 * the reference.
 *
 * A decode step is one start of one recorded sequence, one copy and one wait,
 * for any number of lanes and heads: the sequence ends with a report of
 * everything that the host must know (gpu/backend/report.cu), and the calls of
 * kv_backend read it piece by piece. The copy is a little longer than the last
 * report of its kind; a report that is longer still needs a second copy.
 *
 * If the device is lost, the store continues without it, so that the engine can
 * end the layer: lanes hold every token, views see all of them, outputs are
 * zero, and the fault is reported.
 */
#ifndef KV_GPU_STORE_H
#define KV_GPU_STORE_H

#include "gpu/host/shared.h"
#include "gpu/shared/device.h"
#include "ref/backend/backend.h"
#include "ref/backend/leaves.h"
#include "ref/ground/places.h"
#include "ref/lane/compose.h"
#include <pthread.h>

/* Sequences that are recorded once a layer and replayed. */
typedef enum kv_gpu_recording {
  KV_GPU_RECORD_STEP,  /* a decode step without a compression */
  KV_GPU_RECORD_DUE,   /* and with one */
  KV_GPU_RECORD_BLOCK, /* a block of the prompt without observation */
  KV_GPU_RECORD_SEEN,  /* and with that of all its rows */
  KV_GPU_RECORDS
} kv_gpu_recording;

/* Kinds of reports, which differ in length. */
typedef enum kv_gpu_kind_of_step {
  KV_GPU_STEP, /* a decode step without a compression */
  KV_GPU_DUE,  /* a decode step with a compression */
  KV_GPU_PROMPT,
  KV_GPU_LAST, /* the end of a layer */
  KV_GPU_STEPS
} kv_gpu_step;

struct kv_store {
  const kv_device *device;
  const kv_plan *opened; /* for all layers */
  const kv_plan *plan;   /* of the layer in flight */
  kv_shape shape; /* the plan's, with the prompt_len of the last prompt */
  const kv_layer_data *data;
  int parts; /* one method, or two on the same lanes */
  kv_method_part part[KV_MOST_PARTS];
  const kv_gpu_hooks *hooks[KV_MOST_PARTS];
  kv_gpu_trace *trace;
  kv_gpu_log *log;            /* NULL where the method never rewrites */
  struct kv_gpu_tiers *tiers; /* gpu/host/tiers.h; NULL: rows lie in slabs */
  struct kv_gpu_indexed *indexed; /* gpu/host/indexed.h; NULL: in pools */
  kv_gpu_rebuilt *rebuilt;        /* gpu/host/rebuilt.h; NULL: rows are read */
  kv_gpu_loaded *rows; /* rows of the layer, between begin and finish */
  int lanes, queries;  /* query heads of a lane */
  int tile_rows;       /* prompt rows at once */
  bool own_views;      /* one of the methods has a view hook */
  kv_gpu_layer layer;  /* device pointers */
  kv_gpu_clock clock;
  kv_gpu_lane *head;    /* [lanes] host copies of the lanes' structs */
  char **page, **paged; /* [lanes][2][pages of n_tokens] addresses of the pages
                           of K's and V's pools; where the device has them */
  int *pages;           /* [lanes][2] how many there are */
  char *own;            /* device memory: [lanes] lane states */
  size_t own_size;      /* bytes of one lane state, rounded up */
  kv_lane *mirror;      /* [lanes] */
  kv_turns turns;       /* rotations of its keys, if needs.rope */
  kv_places *places;    /* and to other places, if needs.reindex; else NULL */
  uint64_t *bad;        /* [lanes] */
  kv_digest *state;     /* [lanes] */
  kv_leaves leaves;
  kv_shows shows;      /* zeroed: not asked for */
  kv_gpu_shown *shown; /* [lanes + 1] copy of the device's */
  uint32_t *words;     /* words of one of them */
  /* Of the step, by query head of the layer. */
  float *s, *out, *lse, *both; /* [heads][stride] or NULL: not asked for;
                                  [heads][d_v], [heads], [heads][d_v + 1] */
  kv_view *view;
  int64_t *sums;   /* [heads][stride] recorded ones, or NULL */
  float *row;      /* scratch: a rewritten row to be hashed */
  int32_t *list;   /* [cap_log] numbers of a report */
  uint32_t *next;  /* [n_tokens] */
  char *report;    /* pinned: front, pieces, data */
  uint64_t window; /* offset of the data that `report` holds now */
  uint64_t expected[KV_GPU_STEPS]; /* bytes of data */
  /* What is done already for the block that ends at `end` tokens. Hold the lock
   * while looking it up and doing it. */
  pthread_mutex_t lock;
  int end;
  bool seen, attended, lost;
  bool waiting; /* a block of the prompt has entered the mirror; the device is
                   asked for all of it when it compresses */
  kv_err fault;
  char *message;   /* one to or from the device, its head first; or NULL */
  kv_message said; /* what the layer publishes at the step, */
  bool published;  /* if it does */
  void *recorded[KV_GPU_RECORDS];
  kv_tensor *asset; /* [asked] where the device has the method's tensors */
  void **taken;     /* device memory to give back */
  int n_taken, cap_taken;
  void *settings[KV_MAX_CODINGS]; /* of codings, of these; NULL: none yet */
};

struct kv_scratch {
  int nothing; /* a store needs none */
};

/* store.c */
kv_rc kv_gpu_open(const kv_device *device, const kv_plan *plan, kv_store **out,
                  kv_err *e);
void kv_gpu_close(kv_store *s);
void kv_gpu_begin(kv_store *s, const kv_layer_data *data);
void kv_gpu_prompt(kv_store *s, int end);

/* take.c: allocates all device memory of a store, and its report; errors in
 * s->fault. */
void kv_gpu_take_all(kv_store *s);

/* room.c */
/* n zeroed bytes on the device, given back by close; NULL and s->fault. */
void *kv_gpu_take_room(kv_store *s, size_t n);
/* What was recorded is another now. */
void kv_gpu_forget(kv_store *s);

/* pages.c: the lanes' pools of rows */
/* Takes what they need beside pages; errors in s->fault. */
void kv_gpu_pages_take(kv_store *s);
/* Adds the pages that `count` more tokens need; errors in s->fault. */
void kv_gpu_pages_grow(kv_store *s, int count);

/* sequence.c: what is started, in which order, within a recording or not */
static inline bool kv_gpu_in_prompt(const kv_store *s) {
  return s->end <= s->shape.prompt_len;
}
/* True if a method observes rows of this phase, prompt or decoding. */
bool kv_gpu_observed(const kv_store *s);
/* The clock's tokens, `count` of them, enter. */
void kv_gpu_seq_enter(const kv_store *s, int count, void *stream);
/* Observation of a tile of `rows` prompt rows, shown to who observes. */
void kv_gpu_seq_tile(const kv_store *s, int rows, void *stream);
void kv_gpu_seq_observe(const kv_store *s, void *stream);
/* What lanes hold before and after they compress; `first` begins a report. */
void kv_gpu_seq_compress(const kv_store *s, void *stream, int first);
/* Of the i-th method on the lanes. */
void kv_gpu_seq_publish(const kv_store *s, int i, void *stream);
extern kv_gpu_sequence *const kv_gpu_sequences[KV_GPU_RECORDS]; /* of a store */

/* step.c */
bool kv_gpu_due(const kv_store *s);
/* The next tokens enter. Of a prompt that is taken in blocks the device is told
 * when the block compresses. */
void kv_gpu_enter(kv_store *s, int first, int count);
/* Runs observe on the query rows of a whole prompt, tile by tile. */
void kv_gpu_show_prompt(kv_store *s, int first, int count);
/* Each starts its work and reads the report: a whole decode step, .. */
void kv_gpu_run_step(kv_store *s);
void kv_gpu_run_compression(kv_store *s); /* a block of the prompt compresses */
void kv_gpu_run_last(kv_store *s);        /* columns at the end of a layer */
/* Messages of layers, where needs.across is KV_DOWN: that of those above to the
 * device (NULL: there is none), and what this one publishes to the host. */
void kv_gpu_receive(kv_store *s, const kv_message *above);
const kv_message *kv_gpu_publish(kv_store *s);

/* read.c */
/* Copies the report to the host. False: the device is lost. */
bool kv_gpu_read(kv_store *s, kv_gpu_step kind);
/* Piece j of a stage, which has elements of `size` bytes, at most `most`;
 * otherwise NULL and s->fault. */
const kv_gpu_piece *kv_gpu_piece_of(kv_store *s, kv_gpu_stage stage, int j,
                                    size_t size, size_t most);
/* Copies elements first..first+n-1 of a piece. False: the device is lost. */
bool kv_gpu_pull(kv_store *s, const kv_gpu_piece *p, size_t first, size_t n,
                 void *to);
/* Copies a whole piece; returns its number of elements, -1: s->fault. */
int kv_gpu_pull_all(kv_store *s, kv_gpu_stage stage, int j, size_t size,
                    size_t most, void *to);

/* mirror.c: copy the report's stages into the mirror. */
void kv_gpu_mirror_views(kv_store *s);
void kv_gpu_mirror_columns(kv_store *s);
void kv_gpu_mirror_lanes(kv_store *s);

/* shows.c: what selections are shown, where the plan asks (ref/lane/shown.h) */
/* Allocates its memory on device and host; errors in s->fault. */
void kv_gpu_shows_take(kv_store *s);
void kv_gpu_shows_give(kv_store *s);
/* The most bytes of a report that it can take. */
size_t kv_gpu_shows_bytes(const kv_store *s);
/* A new layer begins. */
void kv_gpu_shows_begin(kv_store *s);
/* Reads it from the report of a step. */
void kv_gpu_mirror_shows(kv_store *s);

/* lost.c */
/* True if the device has failed; the store then continues without it. */
bool kv_gpu_lost(kv_store *s);
/* Makes views and outputs of a step after the device was lost. */
void kv_gpu_lost_views(kv_store *s);

#endif

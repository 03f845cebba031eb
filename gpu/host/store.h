/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to gpu/host: a store, kv_backend's state of one method on one layer
 * in flight. The device holds the data. The host keeps a mirror of every lane,
 * rewritten rows included, which the engine reads, measures and hashes like a
 * lane of the reference. gpu/host/replay.c is the table of kv_backend; the
 * files named by the sections below are its parts.
 *
 * A decode step sets the clock, starts one recorded sequence, copies once and
 * waits once, for any number of lanes and heads. The sequence ends with a
 * report of everything that the host needs (gpu/shared/lane.h), and the calls
 * of kv_backend read it piece by piece. The copy is a little longer than the
 * last report of its kind; a longer report needs a second copy.
 *
 * Functions leave the first failure in s->fault, and then do nothing. After a
 * fault in a layer, including a lost device, the store continues without the
 * device, so that the engine can end the layer: lanes hold every token, views
 * see all of them, outputs are zero, and the fault is reported. A failure of
 * one lane is in the mirror's fault instead.
 */
#ifndef KV_GPU_STORE_H
#define KV_GPU_STORE_H

#include "gpu/host/shared.h"
#include "gpu/shared/device.h"
#include "ref/backend/backend.h"
#include "ref/backend/future.h"
#include "ref/backend/leaves.h"
#include "ref/ground/places.h"
#include "ref/lane/compose.h"
#include <pthread.h>

/* Sequences that are recorded when a layer first runs them, and replayed. */
typedef enum kv_gpu_recording {
  KV_GPU_RECORD_STEP,  /* a decode step without a compression */
  KV_GPU_RECORD_DUE,   /* and with one */
  KV_GPU_RECORD_ROW,   /* a row of a later chunk of the prompt */
  KV_GPU_RECORD_BLOCK, /* a block of the prompt that compresses, unobserved */
  KV_GPU_RECORD_SEEN,  /* the same with all its rows observed */
  KV_GPU_RECORDS
} kv_gpu_recording;

/* Kinds of reports, which differ in length. */
typedef enum kv_gpu_step {
  KV_GPU_STEP,   /* a decode step without a compression */
  KV_GPU_DUE,    /* a decode step with a compression */
  KV_GPU_PROMPT, /* a compression of the prompt, or of a block of it */
  KV_GPU_LAST,   /* the end of a layer */
  KV_GPU_STEPS
} kv_gpu_step;

struct kv_store {
  const kv_device *device;
  const kv_plan *opened; /* for all layers */
  const kv_plan *plan;   /* of the current layer */
  kv_shape shape; /* the plan's, with the prompt_len of the last prompt */
  const kv_layer_data *data;                /* of the current layer */
  int parts;                                /* methods on the lanes, 1 or 2 */
  kv_method_part part[KV_MOST_PARTS];       /* [parts] */
  const kv_gpu_hooks *hooks[KV_MOST_PARTS]; /* [parts] the device's */
  kv_gpu_trace *trace;
  kv_gpu_log *log;            /* NULL if the method never rewrites */
  struct kv_gpu_tiers *tiers; /* gpu/host/tiers.h; NULL: rows are in slabs */
  struct kv_gpu_indexed *indexed; /* gpu/host/indexed.h; NULL: in pools */
  kv_gpu_rebuilt *rebuilt;        /* gpu/host/rebuilt.h; NULL: rows are read */
  kv_gpu_loaded *rows;  /* rows of the layer, between begin and finish */
  int lanes, queries;   /* query heads of a lane */
  int tile_rows;        /* prompt rows at once */
  bool own_views;       /* one of the methods has a view hook */
  kv_gpu_layer layer;   /* what kernels get: device pointers */
  kv_gpu_clock clock;   /* the device's current clock */
  kv_gpu_lane *head;    /* [lanes] host copies of the lanes' structs */
  char **page, **paged; /* [lanes][2][pages of n_tokens] device addresses of the
                           pages of K's and V's pools; the same array on the
                           device */
  int *pages;           /* [lanes][2] number of these pages */
  char *own;            /* device memory: [lanes] lane states */
  size_t own_size;      /* bytes of one lane state, rounded up */
  kv_lane *mirror;      /* [lanes] */
  kv_future *future;    /* of the mirror, with needs.future; else NULL */
  kv_turns turns;       /* rotations of its keys, with needs.rope */
  kv_places *places;    /* and to other places, with needs.reindex; else NULL */
  uint64_t *bad;        /* [lanes] kv_gpu_layer.bad, as read */
  kv_digest *state;     /* [lanes] before the step's compression, or at the
                           layer's end */
  kv_leaves leaves;     /* the layer's digests */
  kv_shows shows;      /* hashes of what selections saw; zeroed: switched off */
  kv_gpu_shown *shown; /* [lanes + 1] copy of the device's */
  uint32_t *words;     /* words of one of them */
  /* The step's, by query head of the layer. */
  float *s, *out, *lse, *both; /* [heads][stride] or NULL: not requested;
                                  [heads][d_v], [heads], [heads][d_v + 1] */
  kv_view *view;               /* [heads] */
  int64_t *sums;   /* [heads][stride] the trace's recorded sums, or NULL */
  float *sinks;    /* [heads] on the device: a layer's learned sinks */
  float *k_bias;   /* [n_kv_heads][d] its key biases, with needs.key_bias */
  float *row;      /* [d + d_v] scratch: a rewritten row to be hashed */
  int32_t *list;   /* [cap_log] scratch: numbers of a report */
  uint32_t *next;  /* [n_tokens] scratch: the same of KV_GPU_SAY_NEXT */
  char *report;    /* pinned: front, pieces, data */
  uint64_t window; /* offset of the data that `report` holds now */
  uint64_t expected[KV_GPU_STEPS]; /* bytes of data that are copied at first */
  /* What is already done for the block that ends at `end` tokens. Hold the lock
   * while reading it and doing the work. */
  pthread_mutex_t lock;
  int end;         /* tokens seen */
  bool seen;       /* its prompt rows were observed */
  bool attended;   /* its decode step was run */
  bool lost;       /* there was a fault: the device is no longer used */
  bool waiting;    /* a block of the prompt has entered the mirror; the device
                      does all its work when it compresses */
  kv_err fault;    /* the first failure */
  char *message;   /* one to or from the device, its head first; or NULL */
  kv_message said; /* what the layer publishes at the step, */
  bool published;  /* if it does */
  void *recorded[KV_GPU_RECORDS]; /* by kv_device.record; NULL: not yet */
  kv_tensor *asset; /* [asked] the method's tensors on the device; NULL: none */
  void **taken;     /* device memory to free */
  int n_taken, cap_taken;
  void *settings[KV_MAX_CODINGS]; /* on the device, by coding; NULL: not yet */
};

/* kv_backend's scratch of a thread; a device's store needs none. */
struct kv_scratch {
  int nothing;
};

/* --- store.c: kv_backend's open, close (accepts NULL), begin and prompt --- */
kv_rc kv_gpu_open(const kv_device *device, const kv_plan *plan, kv_store **out,
                  kv_err *e);
void kv_gpu_close(kv_store *s);
void kv_gpu_begin(kv_store *s, const kv_layer_data *data);
void kv_gpu_prompt(kv_store *s, int end);

/* --- memory of a store -------------------------------------------------------
 * For open: allocates a store's device memory, except the pages of its pools,
 * and its report. */
void kv_gpu_take_all(kv_store *s);

/* --- room.c --------------------------------------------------------------- */
/* n zeroed bytes on the device, freed by close; NULL: s->fault says why, or was
 * set before. */
void *kv_gpu_take_room(kv_store *s, size_t n);
/* Drops the recorded sequences because what they contain has changed; they are
 * recorded anew when they next run. */
void kv_gpu_forget(kv_store *s);

/* --- pages.c: the lanes' pools of rows ------------------------------------ */
/* For open: allocates what they need besides pages. */
void kv_gpu_pages_take(kv_store *s);
/* Before tokens enter: adds the pages that `count` more tokens need, and lets
 * the pools of s->head take their rows, as append will on the device. */
void kv_gpu_pages_grow(kv_store *s, int count);

/* --- what a step starts ------------------------------------------------------
 * The starts of a step in order, in a recording or at once. */
/* Are the tokens seen within the prompt? */
static inline bool kv_gpu_in_prompt(const kv_store *s) {
  return s->end <= s->shape.prompt_len;
}
/* Does the row that ends there attend: of decoding, or of a later chunk of the
 * prompt? */
static inline bool kv_gpu_attends(const kv_store *s) {
  return kv_row_attends(&s->shape, s->end);
}
/* Does a method observe rows of this phase, prompt or decoding? */
bool kv_gpu_observed(const kv_store *s);
/* The clock's `count` tokens enter, with pages or places if needed; hook
 * arrive. */
void kv_gpu_seq_enter(const kv_store *s, int count, void *stream);
/* Observes a tile of `rows` prompt rows: logits and probabilities, if a method
 * wants them, and .. */
void kv_gpu_seq_tile(const kv_store *s, int rows, void *stream);
/* .. hook observe, for the methods that observe rows of this phase. */
void kv_gpu_seq_observe(const kv_store *s, void *stream);
/* Columns are reported, entries leave that a window has passed, lanes compress,
 * and scores and lanes are reported. first 1: begins a report. */
void kv_gpu_seq_compress(const kv_store *s, void *stream, int first);
/* Hook publish of the i-th method on the lanes. */
void kv_gpu_seq_publish(const kv_store *s, int i, void *stream);
/* The recorded sequences; self: a store. */
extern kv_gpu_sequence *const kv_gpu_sequences[KV_GPU_RECORDS];

/* --- step.c --------------------------------------------------------------- */
/* Do lanes change at the tokens seen: is a compression due, or does a window
 * move over the layer (kv_plan_window)? */
bool kv_gpu_due(const kv_store *s);
/* `count` tokens from `first` on enter the mirror. On the device a prompt's
 * enter at once, those of a block of a prompt when it compresses, a decode
 * step's in kv_gpu_run_step. */
void kv_gpu_enter(kv_store *s, int first, int count);
/* Then, in a prompt: runs observe on the query rows of these tokens, tile by
 * tile, or on recorded sums. Returns early if the plan's stop() says so. For a
 * block that compresses (s->waiting) this happens then. */
void kv_gpu_show_prompt(kv_store *s, int first, int count);
/* Each starts its work and reads the report: a whole decode step, or the row of
 * a chunk of the prompt without its observation, .. */
void kv_gpu_run_step(kv_store *s);
void kv_gpu_run_compression(kv_store *s); /* a block of the prompt compresses */
void kv_gpu_run_last(kv_store *s);        /* columns at the end of a layer */
/* Messages of layers, if needs.across is KV_DOWN: puts the message of the
 * layers above to the device (NULL: none), .. */
void kv_gpu_receive(kv_store *s, const kv_message *above);
/* .. and gets this layer's, the store's until the next receive; NULL: it
 * publishes none, or there is a fault. */
const kv_message *kv_gpu_publish(kv_store *s);

/* --- read.c --------------------------------------------------------------- */
/* Copies the report of what was started to the host, as far as its area holds
 * it. False: the device is lost. */
bool kv_gpu_read(kv_store *s, kv_gpu_step kind);
/* Piece j of a stage, checked: it is empty, or has elements of `size` bytes, at
 * most `most`. NULL: it has not (KV_INTERNAL), or there was a fault before. */
const kv_gpu_piece *kv_gpu_piece_of(kv_store *s, kv_gpu_stage stage, int j,
                                    size_t size, size_t most);
/* Copies elements first..first+n-1 of a piece to `to`: from the report or, if
 * that is longer than its area, from the device. False: the device is lost. */
bool kv_gpu_pull(kv_store *s, const kv_gpu_piece *p, size_t first, size_t n,
                 void *to);
/* kv_gpu_piece_of, and copies all of it to `to`; returns its number of
 * elements, -1: s->fault. */
int kv_gpu_pull_all(kv_store *s, kv_gpu_stage stage, int j, size_t size,
                    size_t most, void *to);

/* --- mirror.c -------------------------------------------------------------
 * Each copies a stage of the report into the mirror, and views into s->view. */
void kv_gpu_mirror_views(kv_store *s);
void kv_gpu_mirror_columns(kv_store *s);
void kv_gpu_mirror_lanes(kv_store *s);

/* --- shows.c --------------------------------------------------------------
 * The scores that selections see, if the plan asks for them (ref/lane/shown.h).
 */
/* For open: allocates its memory on device and host. */
void kv_gpu_shows_take(kv_store *s);
void kv_gpu_shows_give(kv_store *s);
/* Most bytes of a report that they take; 0: not requested. */
size_t kv_gpu_shows_bytes(const kv_store *s);
/* A layer begins: nothing was shown. */
void kv_gpu_shows_begin(kv_store *s);
/* Copies the stage of scores into s->shows, which hashes it. */
void kv_gpu_mirror_shows(kv_store *s);

/* --- lost.c --------------------------------------------------------------- */
/* Is there a fault: was s->fault set, or has the device failed, which becomes
 * s->fault? The first time, lanes are made to hold every token. */
bool kv_gpu_lost(kv_store *s);
/* Makes views and outputs of a step after the device was lost. */
void kv_gpu_lost_views(kv_store *s);

#endif

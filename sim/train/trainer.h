/* SPDX-License-Identifier: Apache-2.0
 *
 * A trainer: what makes the file that a method reads (ref/lane/asset.h) from
 * recorded traces. It is a const table in sim/train/NAME.c, declared below and
 * named in trainers.c; the loop over pieces of traces, AdamW, checkpoints,
 * resuming, held-out loss, progress and the file are everybody's
 * (sim/train/train.h).
 *
 * A trainer declares arrays in `open`: floats that the file will hold, of each
 * layer alike, and a number of sums (binary64, never in the file). `learn`
 * looks at one layer of one piece: it adds to the gradient, by which AdamW
 * moves the arrays after each step, or to the sums, of which `finish` makes the
 * arrays after the last.
 *
 * Layers are independent of each other, and learned by one thread each; so no
 * weight depends on the number of threads. Weights are no part of the promise
 * of the same bits everywhere: they depend on the kernel set, and on the
 * library that multiplies.
 */
#ifndef KV_SIM_TRAINER_H
#define KV_SIM_TRAINER_H

#include "ref/kernels/kernels.h"
#include "ref/lane/method.h"
#include "sim/train/data.h"
#include "sim/train/draw.h"
#include "sim/train/scratch.h"
#include "traces/container/writer.h"

enum { KV_TRAIN_ARRAYS = 16, KV_TRAIN_RANK = 3 };

/* One array, of every layer alike. */
typedef struct kv_train_array {
  const char *name; /* of its tensors in the file: `*` stands for the layer's
                       number; without it there is one tensor, whose first
                       dimension are all layers of the model */
  int rank;
  int64_t dim[KV_TRAIN_RANK]; /* [rank] of one layer */
  size_t offset, count;       /* where it is among a layer's floats; how many */
} kv_train_array;

/* What is being trained; the trainer's `open` declares arrays and sums in it.
 */
typedef struct kv_training {
  const struct kv_trainer *of;
  void *params; /* the trainer's own struct, as typed until open resolves it */
  const kv_kernels *kernels;
  const kv_train_data *data;             /* traces and their shape */
  kv_train_array array[KV_TRAIN_ARRAYS]; /* [arrays] */
  int arrays;
  size_t floats, sums; /* of one layer: floats of all arrays; sums */
} kv_training;

/* One layer of a piece, to learn from or to be judged by. */
typedef struct kv_train_task {
  const kv_training *t;
  const kv_train_piece *piece;
  int at;    /* the layer's index among those the piece's trace records */
  int layer; /* the model's number of the layer */
  const float *value;  /* [floats] the layer's arrays */
  float *gradient;     /* [floats] zeroed; NULL: only the loss is asked for */
  double *sum;         /* [sums] the layer's; NULL with the gradient */
  kv_scratch *scratch; /* the calling thread's */
} kv_train_task;

/* Sums over what was looked at; a loss is loss / weight. */
typedef struct kv_train_loss {
  double loss, weight; /* weight: of how many numbers or, where a loss is a
                          share of squares, their sum */
  double without;      /* the loss without what is learned, to compare with */
} kv_train_loss;

/* How the rate falls once it has risen (kv_train_pace.rise). */
typedef enum kv_train_fall {
  KV_FALL_LINEAR, /* to 0 at the end */
  KV_FALL_HALF    /* halved after each `every` passes */
} kv_train_fall;

/* How long and how fast is learned, unless it is asked for. */
typedef struct kv_train_pace {
  double rate; /* of AdamW; 0: nothing is learned by gradients */
  double rise; /* share of the steps in which the rate rises to `rate` */
  kv_train_fall fall;
  int every;  /* passes, of KV_FALL_HALF */
  int passes; /* over all pieces, unless steps are given */
} kv_train_pace;

/* A trainer. Its calls return KV_USAGE where a parameter does not fit, KV_INPUT
 * where a trace cannot be learned from, KV_RESOURCE for memory, or for a
 * library that this kvreplay was built without. */
typedef struct kv_trainer {
  const char *name;       /* the method's */
  const char *title;      /* one line, for help */
  const char *format;     /* of the file's metadata; NULL: none */
  const kv_param *params; /* ends with name NULL */
  size_t params_size;
  kv_train_pace pace;
  kv_st_dtype dtype; /* of the file, unless it is asked for */
  bool turns;   /* reads keys before their rotation: kv_train_trace.turns */
  bool answers; /* learns from recorded answers alone */

  /* Resolves params, declares arrays and sums. */
  kv_rc (*open)(kv_training *t, kv_err *e);
  /* Writes the first values of a layer to value[floats], which is zeroed, by a
   * stream of the layer's own; NULL: zeros. */
  void (*begin)(const kv_training *t, kv_draw *draw, float *value);
  /* Learns from a layer of a piece, or is judged by it; *out is its loss.
   * Called by several threads at once, for other layers each. */
  kv_rc (*learn)(const kv_train_task *task, kv_train_loss *out, kv_err *e);
  /* After the last step: makes value[floats] of a layer (the model's number)
   * from its sum[sums]; NULL: nothing is left to do. */
  kv_rc (*finish)(const kv_training *t, int layer, const double *sum,
                  float *value, kv_err *e);
  /* Writes metadata of its own into the file; NULL: none. */
  kv_rc (*tell)(const kv_training *t, kv_st_writer *w, kv_err *e);
} kv_trainer;

extern const kv_trainer kv_trainer_deltakv, kv_trainer_duoattention,
    kv_trainer_headkv, kv_trainer_less, kv_trainer_palu;

/* The name of the index-th trainer; NULL past the last. */
const char *kv_trainer_name(int index);
/* Finds the trainer of NAME:key=value:key=value and reads its parameters into a
 * new struct; free() *params, also after a failure. KV_USAGE: no such trainer
 * or parameter, or not its value; KV_RESOURCE: memory. */
kv_rc kv_trainer_parse(const char *text, const kv_trainer **out, void **params,
                       kv_err *e);

/* --- for open ------------------------------------------------------------ */

/* Declares the next array, whose name outlives t; returns its index. Asserts
 * that there are at most KV_TRAIN_ARRAYS, of at most KV_TRAIN_RANK dimensions
 * dim. */
int kv_train_declare(kv_training *t, const char *name, int rank,
                     const int64_t *dim);
/* A parameter that was not given (KV_UNSET) gets the value. */
static inline void kv_train_resolve(int *param, int value) {
  if (*param == KV_UNSET) *param = value;
}

#endif

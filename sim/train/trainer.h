/* SPDX-License-Identifier: Apache-2.0
 *
 * A trainer: what makes the file that a method reads (ref/lane/asset.h) from
 * recorded traces. One entry of the table in trainers.c and a file of its own;
 * the loop over pieces of traces, AdamW, checkpoints, resuming, held-out loss,
 * progress and the file are everybody's (sim/train/train.h).
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

/* One array of every layer. In a name `*` stands for the layer's number;
 * without it the file has one tensor, whose first dimension are all layers of
 * the model. */
typedef struct kv_train_array {
  const char *name;
  int rank;
  int64_t dim[KV_TRAIN_RANK]; /* of one layer */
  size_t offset, count;       /* floats, within a layer's */
} kv_train_array;

/* What is being trained. */
typedef struct kv_training {
  const struct kv_trainer *of;
  void *params;
  const kv_kernels *kernels;
  const kv_train_data *data;
  kv_train_array array[KV_TRAIN_ARRAYS];
  int arrays;
  size_t floats, sums; /* of a layer */
} kv_training;

/* One layer of a piece, to learn from or to be judged by. */
typedef struct kv_train_task {
  const kv_training *t;
  const kv_train_piece *piece;
  int at;             /* the layer's index in the piece's trace */
  int layer;          /* the model's number of the layer */
  const float *value; /* [floats] the layer's arrays */
  float *gradient;    /* [floats] zeroed; NULL: only the loss is asked for */
  double *sum;        /* [sums] the layer's; NULL with the gradient */
  kv_scratch *scratch;
} kv_train_task;

/* Sums over what was looked at; a loss is loss / weight. */
typedef struct kv_train_loss {
  double loss, weight;
  double without; /* the same without weights, to compare with */
} kv_train_loss;

/* How the rate runs, from a rise over a share of all steps on. */
typedef enum kv_train_fall {
  KV_FALL_LINEAR, /* to 0 at the end */
  KV_FALL_HALF    /* halved after each `every` passes */
} kv_train_fall;

typedef struct kv_train_pace {
  double rate; /* of AdamW; 0: nothing is learned by gradients */
  double rise; /* share of the steps that the rate rises in */
  kv_train_fall fall;
  int every;  /* passes, of KV_FALL_HALF */
  int passes; /* over all pieces, unless steps are given */
} kv_train_pace;

typedef struct kv_trainer {
  const char *name;       /* the method's */
  const char *title;      /* one line */
  const char *format;     /* of the file's metadata; NULL: none */
  const kv_param *params; /* ends with name NULL */
  size_t params_size;
  kv_train_pace pace;
  kv_st_dtype dtype; /* of the file, unless it is asked for */
  bool turns;   /* reads keys before their rotation: data->turns is there */
  bool answers; /* learns from recorded answers alone */

  /* Resolves params, declares arrays and sums. */
  kv_rc (*open)(kv_training *t, kv_err *e);
  /* First values of a layer; NULL: zeros. */
  void (*begin)(const kv_training *t, kv_draw *draw, float *value);
  kv_rc (*learn)(const kv_train_task *task, kv_train_loss *out, kv_err *e);
  /* Arrays of a layer from its sums; NULL: nothing is left to do. */
  kv_rc (*finish)(const kv_training *t, int layer, const double *sum,
                  float *value, kv_err *e);
  /* Metadata of its own; NULL: none. */
  kv_rc (*tell)(const kv_training *t, kv_st_writer *w, kv_err *e);
} kv_trainer;

/* The index-th trainer; NULL past the last. */
const kv_trainer *kv_trainer_at(int index);
const char *kv_trainer_name(int index);
/* Reads NAME:key=value:key=value into a new struct of parameters; free() it.
 * KV_USAGE with one sentence. */
kv_rc kv_trainer_parse(const char *text, const kv_trainer **out, void **params,
                       kv_err *e);

/* --- for open ------------------------------------------------------------ */

/* Declares an array; returns its index. */
int kv_train_declare(kv_training *t, const char *name, int rank,
                     const int64_t *dim);
/* A parameter that was not given gets the value. */
static inline void kv_train_resolve(int *param, int value) {
  if (*param == KV_UNSET) *param = value;
}

#endif

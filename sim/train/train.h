/* SPDX-License-Identifier: Apache-2.0
 *
 * Training, whatever is trained (sim/train/trainer.h): pieces of traces in an
 * order of their own each pass, one a step, all layers at once; AdamW; a
 * checkpoint every so many seconds beside the result, from which the same
 * command goes on; the loss on traces that are held out; and the file.
 *
 *   kv_train_open(&ask, &x, e);
 *   kv_train_run(x, stop, &stopped, e);      from the checkpoint on
 *   kv_train_judge(x, i, &loss, e);          any trace
 *   kv_train_write(x, e);                    and the checkpoint goes
 *
 * What is learned depends on what is asked, the traces, the kernel set and who
 * multiplies (sim/train/product.h), not on threads, interrupts or kills.
 */
#ifndef KV_SIM_TRAIN_H
#define KV_SIM_TRAIN_H

#include "sim/train/trainer.h"

typedef struct kv_train_ask {
  const char *spec; /* NAME:key=value */
  const kv_trainer *of;
  void *params; /* resolved by open; the caller's */
  int traces, held;
  const char *const *path, *const *held_path;
  const char *output;
  int64_t steps; /* 0: the trainer's passes */
  double rate;   /* 0: the trainer's */
  uint64_t seed;
  int most; /* tokens of a piece */
  int keep; /* seconds between checkpoints */
  int threads;
  kv_st_dtype dtype; /* of the file: F16, BF16 or F32 */
  const kv_kernels *kernels;
  /* After each step; loss is a running mean. May be NULL. */
  void (*tick)(void *self, double loss);
  void *self;
} kv_train_ask;

typedef struct kv_train {
  kv_train_ask ask;
  kv_train_data data;
  kv_training t;
  int64_t step, steps, resumed;    /* done; all; done by the checkpoint */
  double seen, weight;             /* running sums of losses */
  float *value, *m, *v, *gradient; /* [layers][floats] */
  double *sum;                     /* [layers][sums] */
  kv_train_loss *loss;             /* [layers] of one look */
  double *square;                  /* [layers] of the gradient */
  kv_scratch *scratch;             /* [threads] */
  int *order;                      /* [pieces] of pass `ordered` */
  int64_t ordered;
  char *checkpoint; /* path */
} kv_train;

/* Opens and checks everything, reads the checkpoint if there is one, and writes
 * one, so that what cannot be written fails now. One sentence each. */
kv_rc kv_train_open(const kv_train_ask *ask, kv_train **out, kv_err *e);
void kv_train_close(kv_train *x); /* accepts NULL */
/* Until the last step, or stop() says true: *stopped, with a checkpoint. */
kv_rc kv_train_run(kv_train *x, bool (*stop)(void), bool *stopped, kv_err *e);
/* Of the i-th trace, learned or held out, with the arrays as they are: sums of
 * all its pieces and layers. */
kv_rc kv_train_judge(kv_train *x, int i, kv_train_loss *out, kv_err *e);
kv_rc kv_train_write(kv_train *x, kv_err *e);

/* A running mean of the loss of a layer, the last hundred steps or so. */
static inline double kv_train_running(const kv_train *x) {
  return x->weight > 0 ? x->seen / x->weight : 0;
}

/* --- train_step.c --------------------------------------------------------- */

/* Learns from one piece, all layers at once, and moves what was learned. */
kv_rc kv_train_step(kv_train *x, kv_err *e);
/* The same without moving; judged: without gradients and sums, too. Adds to
 * *out. */
kv_rc kv_train_look(kv_train *x, const kv_train_piece *piece, bool judged,
                    kv_train_loss *out, kv_err *e);

/* --- train_keep.c: checkpoints ------------------------------------------- */

/* KV_USAGE: there is one of another training. */
kv_rc kv_train_recall(kv_train *x, kv_err *e);
kv_rc kv_train_keep(const kv_train *x, kv_err *e);

#endif

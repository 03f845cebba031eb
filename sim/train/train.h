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

/* What is asked for; all that it points to is the caller's and outlives the
 * training. */
typedef struct kv_train_ask {
  const char *spec;     /* as typed, NAME:key=value */
  const kv_trainer *of; /* what is trained */
  void *params;         /* of->params as parsed; kv_train_open resolves them */
  int traces, held;     /* how many are learned from, and held out */
  const char *const *path, *const *held_path; /* [traces], [held] */
  const char *output; /* path of the file; the checkpoint lies beside it */
  int64_t steps;      /* of training; 0: as many as the trainer's passes take */
  double rate;        /* of AdamW; 0: the trainer's */
  uint64_t seed;      /* of first weights and of the order of pieces */
  int most;           /* tokens of a piece */
  int keep;           /* seconds between checkpoints; 0: after each step */
  int threads;        /* 1 or more */
  kv_st_dtype dtype;  /* of the file: F16, BF16 or F32 */
  const kv_kernels *kernels; /* that compute */
  /* Called with self after each step; loss is a running mean. May be NULL. */
  void (*tick)(void *self, double loss);
  void *self;
} kv_train_ask;

/* A training, from open to close: one thread calls it, and it uses
 * ask.threads. */
typedef struct kv_train {
  kv_train_ask ask;    /* as given, with the trainer's rate where none was */
  kv_train_data data;  /* traces and pieces */
  kv_training t;       /* arrays and sums, for the trainer */
  int64_t step, steps; /* done; all */
  int64_t resumed;     /* steps that the checkpoint had done */
  double seen, weight; /* sums over steps of the loss, and of 1, in which a step
                          counts .99 as much as the one after it */
  float *value, *m, *v, *gradient; /* [layers][t.floats] what is learned, its
                                      moments, its gradient */
  double *sum;                     /* [layers][t.sums] */
  kv_train_loss *loss;             /* [layers] of one look */
  double *square;      /* [layers] squares of the gradient, summed */
  kv_scratch *scratch; /* [ask.threads] */
  int *order;          /* [pieces] the order of pass `ordered` */
  int64_t ordered;     /* -1: of none */
  char *checkpoint;    /* path */
} kv_train;

/* Opens and checks everything, reads the checkpoint if there is one, and writes
 * one, so that what cannot be written fails now. KV_INPUT: a trace is bad, or
 * of another model, or the checkpoint is damaged; KV_USAGE: a parameter does
 * not fit, or the checkpoint is of another training; KV_RESOURCE: memory or
 * disk. Close it, also after a failure. */
kv_rc kv_train_open(const kv_train_ask *ask, kv_train **out, kv_err *e);
void kv_train_close(kv_train *x); /* accepts NULL */
/* Learns, from the step of the checkpoint on, until the last step, after which
 * the trainer's `finish` is called, or until stop(), asked after each step,
 * says true: *stopped then, and a checkpoint is written. stop may be NULL.
 * KV_INPUT: a logit of a trace is not finite; KV_RESOURCE: memory, or a
 * checkpoint cannot be written. */
kv_rc kv_train_run(kv_train *x, bool (*stop)(void), bool *stopped, kv_err *e);
/* Computes the loss on the i-th trace, those learned from first, then those
 * held out, with what is learned so far: sums over all its pieces and layers.
 * Learns nothing. KV_INPUT: a logit is not finite; KV_RESOURCE: memory. */
kv_rc kv_train_judge(kv_train *x, int i, kv_train_loss *out, kv_err *e);
/* Call it after the last step: writes what was learned to ask.output, whole or
 * not at all, and removes the checkpoint. KV_INPUT: a weight is not finite, as
 * after too large a rate; KV_RESOURCE: disk or memory. */
kv_rc kv_train_write(kv_train *x, kv_err *e);

/* The running mean of the loss over about the last hundred steps; 0 before the
 * first. */
static inline double kv_train_running(const kv_train *x) {
  return x->weight > 0 ? x->seen / x->weight : 0;
}

/* --- train_step.c --------------------------------------------------------- */

/* One step: gradients of one piece, all layers at once, and AdamW's change of
 * x->value by them. KV_INPUT: a logit of the trace is not finite; KV_RESOURCE:
 * memory. */
kv_rc kv_train_step(kv_train *x, kv_err *e);
/* The same without the change, for one piece; judged: without gradients and
 * sums, too. Adds the piece's loss over all layers to *out. */
kv_rc kv_train_look(kv_train *x, const kv_train_piece *piece, bool judged,
                    kv_train_loss *out, kv_err *e);

/* --- train_keep.c: checkpoints ------------------------------------------- */

/* Reads the checkpoint, if there is one, into x. KV_USAGE: it is of another
 * training (parameters, traces, kernels, who multiplies); KV_INPUT: it is
 * damaged, or cannot be read; KV_RESOURCE: memory. */
kv_rc kv_train_recall(kv_train *x, kv_err *e);
/* Writes it, in place of the one before, whole or not at all. KV_RESOURCE: disk
 * or memory. */
kv_rc kv_train_keep(const kv_train *x, kv_err *e);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The two small networks of DeltaKV's compressor, forward and backward:
 *
 *   z = f_c(x) - f_c(mean)     y = f_d(z) + mean
 *   alone: z = f_c(x)          y = f_d(z)
 *
 *   swiglu  f_c(x) = (SiLU(x W1') * (x W2')) W3', f_d(z) = z W4'; no biases
 *   gelu    f_c and f_d two layers each, GELU between them, with biases
 *
 * Matrices are [out][in], W1 and W2 one [2 hidden][in]. The rows of tokens and
 * of their means go through f_c in one product, one below the other. Forward,
 * then backward while the scratch is as it was. One thread a network; nothing
 * fails. Cost: a product with every matrix forward and two backward, one for
 * the matrix that x is multiplied with.
 */
#ifndef KV_SIM_TRAIN_NET_H
#define KV_SIM_TRAIN_NET_H

#include "ref/kernels/kernels.h"
#include "sim/train/scratch.h"

/* One linear layer; everything is borrowed. */
typedef struct kv_dense {
  int in, out;         /* elements of a row before and after it */
  const float *weight; /* [out][in] */
  const float *bias;   /* [out]; NULL: none */
  float *weight_gradient, *bias_gradient; /* of the same sizes, added to by the
                                             way back */
} kv_dense;

/* Writes y[n][out] of x[n][in]. */
void kv_dense_run(const kv_dense *layer, int n, const float *x, float *y);
/* The way back: adds the gradients of weight and bias, from d_y[n][out] and the
 * x of the way there, and writes that of x to d_x[n][in], unless that is NULL.
 */
void kv_dense_back(const kv_dense *layer, int n, const float *x,
                   const float *d_y, float *d_x);

/* Both networks of one layer of the model. */
typedef struct kv_net {
  bool gelu;                  /* else swiglu */
  bool alone;                 /* there are no means */
  int width;                  /* elements of x: K and V of a token */
  int hidden;                 /* units of f_c */
  int latent;                 /* elements of z */
  int back;                   /* units of f_d; 0: it is one layer */
  kv_dense in, out;           /* of f_c */
  kv_dense back_in, back_out; /* of f_d; back_in only where back > 0 */
  const kv_kernels *kernels;  /* whose exponential SiLU takes */
} kv_net;

/* One run over n tokens, with what the way back needs; in the scratch. */
typedef struct kv_net_run {
  int n, rows;               /* through f_c: 2 n, or n alone */
  const float *both;         /* [rows][width]: tokens, then their means */
  float *before, *after;     /* [rows][..] at the activation of f_c */
  float *latent, *z;         /* f_c's [rows][latent]; z, [n][latent] */
  float *back_before, *back; /* [n][back] at the activation of f_d */
  float *y;                  /* [n][width] */
  float *d_before, *d_after, *d_latent; /* for the way back */
} kv_net_run;

/* Floats of scratch that a run over n tokens takes. */
size_t kv_net_room(const kv_net *net, int n);
/* Forward: both[2 n][width], tokens, then their means ([n] if alone); *out->y
 * is what is rebuilt. both outlives *out. */
void kv_net_forth(const kv_net *net, int n, const float *both, kv_scratch *s,
                  kv_net_run *out);
/* Backward: adds the gradients of all layers; d_y[n][width] is that of y. */
void kv_net_back(const kv_net *net, const kv_net_run *run, const float *d_y);

#endif

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
 * of their means go through f_c in one product, one below the other.
 */
#ifndef KV_SIM_TRAIN_NET_H
#define KV_SIM_TRAIN_NET_H

#include "ref/kernels/kernels.h"
#include "sim/train/scratch.h"

/* One layer: its matrix and, or NULL, its bias, and their gradients, which are
 * added to. */
typedef struct kv_dense {
  int in, out;
  const float *weight, *bias;
  float *weight_gradient, *bias_gradient;
} kv_dense;

/* y[n][out] of x[n][in]. */
void kv_dense_run(const kv_dense *layer, int n, const float *x, float *y);
/* Adds the gradients; d_x [n][in], or NULL: nobody asks. */
void kv_dense_back(const kv_dense *layer, int n, const float *x,
                   const float *d_y, float *d_x);

typedef struct kv_net {
  bool gelu;                  /* else swiglu */
  bool alone;                 /* there are no means */
  int width, hidden, latent;  /* hidden: units of f_c */
  int back;                   /* units of f_d; 0: it is one layer */
  kv_dense in, out;           /* of f_c */
  kv_dense back_in, back_out; /* of f_d; back_in only where back > 0 */
  const kv_kernels *kernels;
} kv_net;

/* One run over n tokens, with what the way back needs. */
typedef struct kv_net_run {
  int n, rows;               /* through f_c: 2 n, or n alone */
  const float *both;         /* [rows][width]: tokens, then their means */
  float *before, *after;     /* [rows]: at the activation of f_c */
  float *latent, *z;         /* [rows] and their differences [n] */
  float *back_before, *back; /* [n]: at the activation of f_d */
  float *y;                  /* [n][width] */
  float *d_before, *d_after, *d_latent; /* for the way back */
} kv_net_run;

/* Elements of scratch that a run over n tokens takes. */
size_t kv_net_room(const kv_net *net, int n);
void kv_net_forth(const kv_net *net, int n, const float *both, kv_scratch *s,
                  kv_net_run *out);
/* Adds the gradients of all layers; d_y [n][width] is that of y. */
void kv_net_back(const kv_net *net, const kv_net_run *run, const float *d_y);

#endif

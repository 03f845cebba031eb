/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations of training and their derivatives. They are near those of the
 * arithmetic that a replay computes, not of the same bits: what is trained
 * differs by less than what fp16 leaves of it. For net.c and less_features.c.
 * Cannot fail.
 */
#ifndef KV_SIM_TRAIN_NET_BEND_H
#define KV_SIM_TRAIN_NET_BEND_H

#include "ref/kernels/kernels.h"

/* GELU of n numbers: y[i] = x[i] / 2 (1 + erf(x[i] / sqrt 2)); and back: d_x[i]
 * is its derivative at x[i] times d_y[i]. y may be x, d_x may be d_y. */
void kv_gelu_forth(size_t n, const float *x, float *y);
void kv_gelu_back(size_t n, const float *x, const float *d_y, float *d_x);

/* SwiGLU of n rows x[n][2 hidden], a and b: y[n][hidden] = a / (1 + e^-a) * b;
 * and back: d_x[n][2 hidden] from d_y[n][hidden]. kernels: whose exponential is
 * taken. */
void kv_swiglu_forth(const kv_kernels *kernels, int n, int hidden,
                     const float *x, float *y);
void kv_swiglu_back(const kv_kernels *kernels, int n, int hidden,
                    const float *x, const float *d_y, float *d_x);

#endif

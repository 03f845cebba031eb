/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations of training and their derivatives. They are near those of the
 * arithmetic that a replay computes, not of the same bits: what is trained
 * differs by less than what fp16 leaves of it.
 */
#ifndef KV_SIM_TRAIN_NET_BEND_H
#define KV_SIM_TRAIN_NET_BEND_H

#include "ref/kernels/kernels.h"

/* y[i] = x / 2 (1 + erf(x / sqrt 2)), and the derivative times d_y. */
void kv_gelu_forth(size_t n, const float *x, float *y);
void kv_gelu_back(size_t n, const float *x, const float *d_y, float *d_x);

/* Rows x of 2 hidden, a and b: y[hidden] = a / (1 + e^-a) * b, and back. */
void kv_swiglu_forth(const kv_kernels *kernels, int n, int hidden,
                     const float *x, float *y);
void kv_swiglu_back(const kv_kernels *kernels, int n, int hidden,
                    const float *x, const float *d_y, float *d_x);

#endif

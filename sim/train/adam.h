/* SPDX-License-Identifier: Apache-2.0
 *
 * AdamW (Loshchilov and Hutter 2019) as DeltaKV trains: betas .9 and .999, eps
 * 1e-8, no weight decay, the gradient's norm over everything that is learned
 * clipped to 1 before. A step of training (train_step.c) adds up kv_adam_square
 * over its layers, asks kv_adam_clip once, then moves each layer. Cannot fail.
 */
#ifndef KV_SIM_TRAIN_ADAM_H
#define KV_SIM_TRAIN_ADAM_H

#include <stddef.h>
#include <stdint.h>

/* The sum of the squares of gradient[n]. */
double kv_adam_square(size_t n, const float *gradient);
/* What to multiply all gradients by, so that their norm is at most 1: `square`
 * is the sum of all their squares. At most 1. */
float kv_adam_clip(double square);
/* Moves value[n] by what gradient[n], times clip, says. step: counted from 1;
 * rate: of this step. m, v: [n] moments, which are 0 before the first step and
 * kept from one to the next. */
void kv_adam_step(int64_t step, double rate, float clip, size_t n,
                  const float *gradient, float *m, float *v, float *value);

#endif

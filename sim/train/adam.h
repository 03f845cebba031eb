/* SPDX-License-Identifier: Apache-2.0
 *
 * AdamW (Loshchilov and Hutter 2019) as DeltaKV trains: betas .9 and .999, eps
 * 1e-8, no weight decay, the gradient's norm over everything that is learned
 * clipped to 1 before.
 */
#ifndef KV_SIM_TRAIN_ADAM_H
#define KV_SIM_TRAIN_ADAM_H

#include <stddef.h>
#include <stdint.h>

/* The sum of the squares. */
double kv_adam_square(size_t n, const float *gradient);
/* What gradients are multiplied by, whose squares add up to `square`. */
float kv_adam_clip(double square);
/* One step, counted from 1: moves value by what the gradient, times clip, says.
 * m and v are 0 before the first. */
void kv_adam_step(int64_t step, double rate, float clip, size_t n,
                  const float *gradient, float *m, float *v, float *value);

#endif

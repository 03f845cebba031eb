/* SPDX-License-Identifier: Apache-2.0
 *
 * Seeded pseudo-random numbers for training (SplitMix64): where weights begin,
 * and the order of pieces. Integers and sums alone, so they are the same
 * everywhere. A stream is used by one thread; nothing fails.
 */
#ifndef KV_SIM_TRAIN_DRAW_H
#define KV_SIM_TRAIN_DRAW_H

#include <stddef.h>
#include <stdint.h>

typedef struct kv_draw {
  uint64_t state;
} kv_draw;

/* Begins a stream: another one for each pair of seed and number. */
kv_draw kv_draw_open(uint64_t seed, uint64_t stream);
/* The next 64 bits. */
uint64_t kv_draw_next(kv_draw *d);
/* Writes n numbers of mean 0 and this standard deviation, normal but for their
 * tails, which end at six deviations: sums of twelve. */
void kv_draw_normal(kv_draw *d, double deviation, size_t n, float *out);
/* Writes the numbers 0 .. n - 1 to out[n] in a drawn order. */
void kv_draw_order(kv_draw *d, int n, int *out);

#endif

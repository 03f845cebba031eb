/* SPDX-License-Identifier: Apache-2.0
 *
 * Seeded numbers for training: where weights begin, and the order of pieces.
 * Integers and sums alone, so they are the same everywhere.
 */
#ifndef KV_SIM_TRAIN_DRAW_H
#define KV_SIM_TRAIN_DRAW_H

#include <stddef.h>
#include <stdint.h>

typedef struct kv_draw {
  uint64_t state;
} kv_draw;

/* Independent streams for each seed and number. */
kv_draw kv_draw_open(uint64_t seed, uint64_t stream);
uint64_t kv_draw_next(kv_draw *d);
/* 0 .. n - 1; n far below 2^32, so that what is left over does not show. */
int kv_draw_below(kv_draw *d, int n);
/* n numbers that are normal but for their tails, which end at six deviations:
 * sums of twelve. */
void kv_draw_normal(kv_draw *d, double deviation, size_t n, float *out);
/* The numbers 0 .. n - 1 in an order of their own. */
void kv_draw_order(kv_draw *d, int n, int *out);

#endif

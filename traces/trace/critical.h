/* SPDX-License-Identifier: Apache-2.0
 *
 * How many tokens a row of attention cannot do without: the least number whose
 * probabilities, in fixed point, make up 95 % of the row's. Sums are of
 * integers, so that the number is exact.
 */
#ifndef KV_TRACES_CRITICAL_H
#define KV_TRACES_CRITICAL_H

#include <stdbool.h>
#include <stdint.h>

/* Probabilities by size: eight steps an octave, the last one for 1. */
enum { KV_CRITICAL_STEPS = (0x3f800000 >> 20) + 1 };

/* Room for rows of n tokens; one a thread. */
typedef struct kv_critical {
  float *part;                      /* [tokens] */
  int32_t count[KV_CRITICAL_STEPS]; /* probabilities of a step, */
  int64_t mass[KV_CRITICAL_STEPS];  /* and theirs at 2^-40 */
} kv_critical;

/* false: no memory. Release accepts what failed. */
bool kv_critical_init(kv_critical *x, int tokens);
void kv_critical_release(kv_critical *x);

/* Of n probabilities. Cost: one pass, and a sort of those of one step. */
int kv_critical_tokens(kv_critical *x, int n, const float *p);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The fewest tokens that together have 95 % of the mass of a row of attention.
 * Masses are RN(P * 2^40), whole numbers, so that the result is exact.
 *
 *   init once a thread, kv_critical_tokens for each row, release
 */
#ifndef KV_TRACES_CRITICAL_H
#define KV_TRACES_CRITICAL_H

#include <stdbool.h>
#include <stdint.h>

/* Probabilities are sorted by size into this many steps, eight an octave: all
 * binary32 from 0 to 1 that share their upper twelve bits are one step. */
enum { KV_CRITICAL_STEPS = (0x3f800000 >> 20) + 1 };

/* Memory for one row at a time. */
typedef struct kv_critical {
  float *part;                      /* [tokens] the probabilities of one step */
  int32_t count[KV_CRITICAL_STEPS]; /* how many probabilities each step has */
  int64_t mass[KV_CRITICAL_STEPS];  /* their sum, in units of 2^-40 */
} kv_critical;

/* Allocates for rows of at most `tokens` tokens. False: no memory. Release
 * frees it, also after a failure or if *x is zeroed. */
bool kv_critical_init(kv_critical *x, int tokens);
void kv_critical_release(kv_critical *x);

/* The number for the probabilities p[n], each from 0 to 1, n at most `tokens`.
 * Cost: two passes, and a sort of one step. */
int kv_critical_tokens(kv_critical *x, int n, const float *p);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Long binary64 sums for the measures: plain additions in index order from +0,
 * as arithmetic 10 requires. Each addition waits for the one before it, so the
 * sums of KV_TOGETHER query heads run in parallel to fill the pipeline. A
 * caller with fewer heads passes one of them again and ignores its sums.
 * Nothing fails or allocates.
 */
#ifndef KV_SIM_CHAIN_H
#define KV_SIM_CHAIN_H

#include "sim/replay/measure/truth.h"

/* sum[i] = p[i][0] + .. + p[i][n - 1] */
void kv_chain_sum(int n, const float *const p[KV_TOGETHER],
                  double sum[KV_TOGETHER]);

/* sum[i] = |p[i][0] - q[i][0]| + .. + |p[i][n - 1] - q[i][n - 1]| */
void kv_chain_gap(int n, const float *const p[KV_TOGETHER],
                  const double *const q[KV_TOGETHER], double sum[KV_TOGETHER]);

/* Sums of the walk below for one head. p: exact probabilities; p^: those of the
 * compressed attention (sim/replay/measure/fidelity.h). */
typedef struct kv_walked {
  double mass; /* of p over the tokens of the view */
  double kl;   /* of p^ (log p^ - log p) over tokens with p^ >= 2^-126 */
  double gap;  /* of |p - p^| over all tokens; p^ is 0 outside the view */
} kv_walked;

/* One walk over tokens 0..n-1 for heads that view the same m of them, token[m]
 * ascending. share[m] and log_share[m]: p^ and its log by index in the view;
 * p[n] and log_p[n] by token. sum is overwritten. */
void kv_chain_walk(int n, int m, const int32_t *token,
                   const float *const share[KV_TOGETHER],
                   const float *const log_share[KV_TOGETHER],
                   const float *const p[KV_TOGETHER],
                   const float *const log_p[KV_TOGETHER],
                   kv_walked sum[KV_TOGETHER]);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Long binary64 sums for the measures: plain additions in index order from +0,
 * as arithmetic 10 requires. Each addition waits for the one before it, so
 * KV_TOGETHER independent sums run side by side to fill the pipeline.
 */
#ifndef KV_SIM_CHAIN_H
#define KV_SIM_CHAIN_H

#include "sim/measure/truth.h"

/* sum[i] = p[i][0] + p[i][1] + .. */
void kv_chain_sum(int n, const float *const p[KV_TOGETHER],
                  double sum[KV_TOGETHER]);

/* sum[i] = |p[i][0] - q[i][0]| + |p[i][1] - q[i][1]| + .. */
void kv_chain_gap(int n, const float *const p[KV_TOGETHER],
                  const double *const q[KV_TOGETHER], double sum[KV_TOGETHER]);

#endif

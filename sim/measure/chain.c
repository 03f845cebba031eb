/* SPDX-License-Identifier: Apache-2.0
 *
 * Four sums side by side in named variables: an array would live in memory, and
 * each addition would wait for a store.
 */
#include "sim/measure/chain.h"
#include <math.h>

_Static_assert(KV_TOGETHER == 4, "the sums below are written out");

void kv_chain_sum(int n, const float *const p[KV_TOGETHER],
                  double sum[KV_TOGETHER]) {
  const float *p0 = p[0], *p1 = p[1], *p2 = p[2], *p3 = p[3];
  double a = 0, b = 0, c = 0, d = 0;
  for (int t = 0; t < n; t++) {
    a += (double)p0[t];
    b += (double)p1[t];
    c += (double)p2[t];
    d += (double)p3[t];
  }
  sum[0] = a;
  sum[1] = b;
  sum[2] = c;
  sum[3] = d;
}

void kv_chain_gap(int n, const float *const p[KV_TOGETHER],
                  const double *const q[KV_TOGETHER], double sum[KV_TOGETHER]) {
  const float *p0 = p[0], *p1 = p[1], *p2 = p[2], *p3 = p[3];
  const double *q0 = q[0], *q1 = q[1], *q2 = q[2], *q3 = q[3];
  double a = 0, b = 0, c = 0, d = 0;
  for (int t = 0; t < n; t++) {
    a += fabs((double)p0[t] - q0[t]);
    b += fabs((double)p1[t] - q1[t]);
    c += fabs((double)p2[t] - q2[t]);
    d += fabs((double)p3[t] - q3[t]);
  }
  sum[0] = a;
  sum[1] = b;
  sum[2] = c;
  sum[3] = d;
}

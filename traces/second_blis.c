/* SPDX-License-Identifier: Apache-2.0
 *
 * The second opinion through BLIS: S = Q K' and O = P V by its sgemm, the
 * softmax between them in binary64. Nothing of the canonical arithmetic is
 * used, so a mistake there shows. Single-threaded: BLIS' barriers spin, which
 * shared processors do not forgive. Its figures are for people; no decision
 * and no digest depends on them.
 */
#define _GNU_SOURCE 1
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* BLIS' header warns under -Wconversion. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wpedantic"
#include KV_BLIS_H
#pragma GCC diagnostic pop

#include "traces/check.h"
#include "traces/recompute.h"

enum { SAMPLE = 2048 }; /* rows a KV head, at most, spread evenly */

typedef struct work {
  const kv_trace *t;
  const kv_layer_data *data;
  const kv_kernels *kernel;
  kv_recompute own;
  float *k, *v;  /* [T][d], [T][d_v] of one KV head, binary32 */
  float *s, *o;  /* [queries][T], [queries][d_v] */
  rntm_t single; /* one thread */
  double difference, norm, most;
} work;

/* c = a b, row-major; b transposed where `columns` says so. */
static void multiply(work *w, int m, int n, int k, float *a, float *b,
                     inc_t row_b, inc_t column_b, float *c, inc_t row_c) {
  float one = 1.0f, zero = 0.0f;
  bli_sgemm_ex(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, m, n, k, &one, a, k > n
               ? (row_c == n ? k : k) : k, 1, b, row_b, column_b, &zero, c,
               row_c, 1, NULL, &w->single);
}

static void softmax(int n, double scale, float *s) {
  double most = -INFINITY, sum = 0;
  for (int j = 0; j < n; j++) most = fmax(most, (double)s[j] * scale);
  for (int j = 0; j < n; j++) sum += exp((double)s[j] * scale - most);
  for (int j = 0; j < n; j++) {
    s[j] = (float)(exp((double)s[j] * scale - most) / sum);
  }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The weighted sum for many heads over few rows: what tiles of decode steps ask
 * for. Queries of several steps go through the same 32 value rows, decoded or
 * widened to fp32, so rows and sums stay in the caches and arithmetic binds.
 */
#include "tests/bench/ceiling.h"
#include "tests/bench/rowbench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  ROWS = 32, /* of a call */
  LDP = 128, /* floats a row of weights */
  CALLS = 16 /* under one look at the clock */
};

typedef struct weights {
  const kv_kernels *k;
  int heads;
  const float *p;
  const void **value;
  float *a;
} weights;

static void run_weigh(void *v) {
  weights *x = v;
  for (int i = 0; i < CALLS; i++)
    x->k->weigh(x->heads, ROWS, D, x->p, LDP, x->value, KV_F32, x->a);
}

static int weigh_agrees(weights x) {
  size_t n = (size_t)x.heads * D;
  weights other = x;
  other.k = portable;
  other.a = bench_take(n, sizeof *x.a);
  run_weigh(&x);
  run_weigh(&other);
  int same = memcmp(x.a, other.a, n * sizeof *x.a) == 0;
  free(other.a);
  return same;
}

/* Sums grow from call to call, linearly: they stay finite and normal. */
static int bench_weigh(double peak, int heads) {
  float *rows = bench_take(ROWS * D, sizeof *rows);
  char what[64];
  float *p = bench_take((size_t)heads * LDP, sizeof *p);
  bench_fill(KV_F32, ROWS * D, rows);
  bench_fill(KV_F32, (size_t)heads * LDP, p);
  weights x = {kernels, heads, p, bench_rows(rows, ROWS, D * sizeof *rows),
               bench_take((size_t)heads * D, 4)};
  int same = weigh_agrees(x);
  if (same) {
    double flop = 2.0 * D * ROWS * heads * CALLS * 1e-9;
    snprintf(what, sizeof what, "weigh fp32, %d heads x %d rows", heads, ROWS);
    bench_report(what, flop / best_of(run_weigh, &x), "GFLOP/s", peak, 70);
  }
  free(rows), free(p), free(x.value), free(x.a);
  return same;
}

int bench_weighs(double peak) {
  return bench_weigh(peak, 64) && bench_weigh(peak, 128) &&
         bench_weigh(peak, 256);
}

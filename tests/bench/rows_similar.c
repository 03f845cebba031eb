/* SPDX-License-Identifier: Apache-2.0
 *
 * Cosines of every two keys of a lane, as R-KV sums them: of the FMA peak, the
 * rounding, adding and comparing included.
 */
#include "tests/bench/ceiling.h"
#include "tests/bench/rowbench.h"

#include <stdlib.h>
#include <string.h>

enum { KEYS = 1024 };

typedef struct alike {
  const kv_kernels *k;
  const float *unit;
  float *pack;
  int64_t *sum;
  int32_t *last;
} alike;

static void run_similar(void *v) {
  alike *a = v;
  memset(a->sum, 0, KEYS * sizeof *a->sum);
  memset(a->last, 0xff, KEYS * sizeof *a->last);
  for (int j = 0; j < KEYS; j += KV_PACK)
    a->k->similar(j, KV_PACK, D, a->unit, 0.01f, a->sum, a->last, a->pack);
}

int bench_similar(double peak) {
  float *unit = bench_take((size_t)KEYS * D, sizeof *unit);
  alike a = {portable, unit, bench_take((size_t)KV_PACK * D, sizeof *unit),
             bench_take(KEYS, sizeof *a.sum), bench_take(KEYS, sizeof *a.last)};
  alike b = a;
  b.k = kernels;
  b.sum = bench_take(KEYS, sizeof *b.sum);
  b.last = bench_take(KEYS, sizeof *b.last);
  bench_fill(KV_F32, (size_t)KEYS * D, unit);
  for (int i = 0; i < KEYS * D; i++) unit[i] *= 0.15f; /* about as long as 1 */
  run_similar(&a);
  double time = best_of(run_similar, &b);
  double work = (double)KEYS * (KEYS + KV_PACK) * D * 1e-9;
  bench_report("cosines of 1024 keys, each pair once", work / time, "GFLOP/s",
               peak, 60);
  int same = memcmp(a.sum, b.sum, KEYS * sizeof *a.sum) == 0 &&
             memcmp(a.last, b.last, KEYS * sizeof *a.last) == 0;
  free(unit);
  free(a.pack);
  free(a.sum);
  free(a.last);
  free(b.sum);
  free(b.last);
  return same;
}

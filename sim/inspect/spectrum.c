/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/inspect/spectrum.h"

#include <stdlib.h>

#include "ref/ground/float.h"

kv_rc kv_gram_open(int width, int threads, kv_gram *out, kv_err *e) {
  size_t n = (size_t)width * (size_t)width;
  *out = (kv_gram){width, threads, kv_zalloc(n, sizeof *out->sum)};
  return out->sum ? KV_OK
                  : kv_no_memory(e, "outer products", n * sizeof *out->sum);
}

void kv_gram_close(kv_gram *g) {
  free(g->sum);
  g->sum = NULL;
}

void kv_gram_add(kv_gram *g, int n, const double *rows) {
  size_t width = (size_t)g->width;
#pragma omp parallel num_threads(g->threads)
  {
    kv_float_ground();
#pragma omp for schedule(dynamic, 8)
    for (int i = 0; i < g->width; i++)
      for (int r = 0; r < n; r++) {
        const double *x = rows + (size_t)r * width;
        double *to = g->sum + (size_t)i * width;
        for (int j = 0; j <= i; j++) to[j] += x[i] * x[j];
      }
  }
}

/* 1, 2, 3, 4, 6, 8, 12 .. */
static int next(int direction) {
  int octave = 1;
  while (2 * octave <= direction) octave *= 2;
  if (direction == octave && octave > 1) return octave + octave / 2;
  return 2 * octave;
}

/* Eigenvalues ascend; what rounding left below zero is zero. */
static void take(int width, const double *value, kv_spectrum *out) {
  double all = 0, sum = 0;
  int wanted = 1;
  for (int i = 0; i < width; i++) all += value[i] > 0 ? value[i] : 0;
  for (int i = 0; i < width && all > 0; i++) {
    double share = value[width - 1 - i];
    share = share > 0 ? share / all : 0;
    sum += share;
    if (i + 1 < wanted && i + 1 < width) continue;
    wanted = next(wanted);
    out->direction[out->n] = i + 1;
    out->share[out->n] = share;
    out->sum[out->n++] = sum;
  }
}

kv_rc kv_spectrum_of(kv_gram *g, kv_spectrum *out, kv_err *e) {
  double *value = kv_zalloc((size_t)g->width, sizeof *value);
  kv_rc rc = value ? kv_eigenvalues(g->width, g->sum, value, e)
                   : kv_no_memory(e, "eigenvalues", 0);
  out->n = 0;
  if (!rc) take(g->width, value, out);
  free(value);
  return rc;
}

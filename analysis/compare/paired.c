/* SPDX-License-Identifier: Apache-2.0
 *
 * Bootstrap and sign flips of analysis/compare/paired.h. Each of them restarts
 * the generator (draw.h).
 */
#include "analysis/compare/paired.h"
#include "analysis/compare/draw.h"
#include "analysis/database/results.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

static double sum(int n, const double *d) {
  double s = 0;
  for (int i = 0; i < n; i++) s += d[i];
  return s;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* --- bootstrap ------------------------------------------------------------ */

static bool interval(int n, const double *d, kv_paired *out) {
  double *mean = malloc(KV_RESAMPLES * sizeof *mean);
  uint64_t state = 1;
  if (!mean) return false;
  for (int r = 0; r < KV_RESAMPLES; r++) {
    double s = 0;
    for (int i = 0; i < n; i++) s += d[kv_draw_below(&state, n)];
    mean[r] = s / n;
  }
  qsort(mean, KV_RESAMPLES, sizeof *mean, ascending);
  out->low = mean[KV_RESAMPLES / 40 - 1];
  out->high = mean[KV_RESAMPLES - KV_RESAMPLES / 40];
  free(mean);
  return true;
}

/* --- sign flips ----------------------------------------------------------- */

/* Is the sum as far from 0 as the observed one? Rounding in another order of
 * signs makes no difference. */
static bool as_far(double s, double found) {
  return fabs(s) >= fabs(found) * (1 - 1e-12);
}

/* The sum with the signs of `flip`, one bit per pair from bit 0 on. */
static double flipped(int n, const double *d, uint64_t flip) {
  double s = 0;
  for (int i = 0; i < n; i++) s += flip >> i & 1 ? -d[i] : d[i];
  return s;
}

static double exact(int n, const double *d, double found) {
  int far = 0, all = 1 << n;
  for (int f = 0; f < all; f++)
    far += as_far(flipped(n, d, (uint64_t)f), found);
  return (double)far / all;
}

static double drawn(int n, const double *d, double found) {
  uint64_t state = 2;
  int far = 1; /* the observed pattern counts, too */
  for (int r = 0; r < KV_RESAMPLES; r++) {
    double s = 0;
    for (int i = 0; i < n; i += 64)
      s += flipped(n - i < 64 ? n - i : 64, d + i, kv_draw(&state));
    far += as_far(s, found);
  }
  return (double)far / (KV_RESAMPLES + 1);
}

/* --- power ---------------------------------------------------------------- */

/* The probability that a standard normal number exceeds z, 0 <= z <= 6, by the
 * series of Marsaglia (2004), without libm: the same bits everywhere. */
static double above(double z) {
  double term = z, sum = z, one = 1, density = 1;
  for (int i = 3; i < 400; i += 2) sum += term *= z * z / i;
  for (int i = 1; i < 24; i++) density += one *= -z * z / 128 / i;
  for (int i = 0; i < 6; i++) density *= density; /* exp(-z^2 / 2) */
  return 0.5 - 0.3989422804014327 * density * sum;
}

double kv_paired_needed(const kv_paired *x, int m) {
  double low = 0, high = 6, z_power = 0.8416212335729143;
  for (int i = 0; i < 60; i++) {
    double z = (low + high) / 2;
    *(above(z) > 0.025 / m ? &low : &high) = z;
  }
  return (low + z_power) * (low + z_power) * x->noise;
}

static double noise(int n, const double *d, double mean) {
  double squares = 0;
  if (n < 2) return NAN;
  for (int i = 0; i < n; i++) squares += (d[i] - mean) * (d[i] - mean);
  if (mean == 0) return squares > 0 ? INFINITY : NAN;
  return squares / (n - 1) / (mean * mean);
}

bool kv_paired_find(int n, const double *d, kv_paired *out) {
  double total = sum(n, d);
  *out = (kv_paired){.n = n, .mean = total / n};
  for (int i = 0; i < n; i++) {
    out->above += d[i] > 0;
    out->below += d[i] < 0;
  }
  out->ties = n - out->above - out->below;
  out->noise = noise(n, d, out->mean);
  if (n <= KV_FLIPS_EXACT) {
    out->p = exact(n, d, total);
    out->p_least = 2.0 / (1 << n);
  } else {
    out->p = drawn(n, d, total);
    out->p_least = 1.0 / (KV_RESAMPLES + 1);
  }
  out->low = out->high = NAN;
  return n < KV_INTERVAL_LEAST || interval(n, d, out);
}

bool kv_paired_holm(int m, const double *p, double *holm) {
  int *order = malloc(((size_t)m + 1) * sizeof *order);
  double most = 0;
  if (!order) return false;
  for (int i = 0; i < m; i++) { /* by insertion: m is a handful */
    int at = i;
    for (; at && p[order[at - 1]] > p[i]; at--) order[at] = order[at - 1];
    order[at] = i;
  }
  for (int i = 0; i < m; i++) {
    double level = p[order[i]] * (m - i);
    most = level > most ? level : most;
    holm[order[i]] = most < 1 ? most : 1;
  }
  free(order);
  return true;
}

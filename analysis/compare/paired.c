/* SPDX-License-Identifier: Apache-2.0
 *
 * Bootstrap and sign flips of analysis/compare/paired.h. The generator (draw.h)
 * begins anew for each of the two.
 */
#include "analysis/compare/paired.h"
#include "analysis/compare/draw.h"

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

/* Is that sum as far from 0 as the one that was found? What is rounded away in
 * one order of signs and not in another makes no difference. */
static bool as_far(double s, double found) {
  return fabs(s) >= fabs(found) * (1 - 1e-12);
}

/* The sum with the signs of `flip`, a bit a pair from bit 0 on. */
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
  int far = 1; /* the pattern that was found is one of them */
  for (int r = 0; r < KV_RESAMPLES; r++) {
    double s = 0;
    for (int i = 0; i < n; i += 64)
      s += flipped(n - i < 64 ? n - i : 64, d + i, kv_draw(&state));
    far += as_far(s, found);
  }
  return (double)far / (KV_RESAMPLES + 1);
}

/* --- all of it ------------------------------------------------------------ */

/* (z_0.975 + z_0.8)^2 of the standard normal distribution. */
#define POWER 7.848879734349089

static double needed(int n, const double *d, double mean) {
  double squares = 0;
  if (n < 2) return NAN;
  for (int i = 0; i < n; i++) squares += (d[i] - mean) * (d[i] - mean);
  if (mean == 0) return squares > 0 ? INFINITY : NAN;
  return POWER * (squares / (n - 1)) / (mean * mean);
}

bool kv_paired_find(int n, const double *d, kv_paired *out) {
  double total = sum(n, d);
  *out = (kv_paired){.n = n, .mean = total / n};
  for (int i = 0; i < n; i++) {
    out->above += d[i] > 0;
    out->below += d[i] < 0;
  }
  out->ties = n - out->above - out->below;
  out->needed = needed(n, d, out->mean);
  if (n <= KV_FLIPS_EXACT) {
    out->p = exact(n, d, total);
    out->p_least = 2.0 / (1 << n);
  } else {
    out->p = drawn(n, d, total);
    out->p_least = 1.0 / (KV_RESAMPLES + 1);
  }
  return interval(n, d, out);
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

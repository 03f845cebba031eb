/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/page/plot.h"

#include <math.h>
#include <stdlib.h>

/* 1, 2 or 5 times a power of ten, not below x. */
static double round_step(double x) {
  double ten = pow(10, floor(log10(x)));
  for (int i = 0; i < 3; i++) {
    static const double step[] = {1, 2, 5};
    if (x <= step[i] * ten * 1.0000001) return step[i] * ten;
  }
  return 10 * ten;
}

static void fit_log(kv_axis *a) {
  double ratio = a->hi / a->lo;
  if (ratio < 2) {
    a->lo /= 1.5;
    a->hi *= 1.5;
    return;
  }
  a->lo /= pow(ratio, .04);
  a->hi *= pow(ratio, .04);
}

static void fit_linear(kv_axis *a) {
  double step;
  if (a->hi <= a->lo) a->hi = a->lo + (a->lo != 0 ? fabs(a->lo) : 1);
  step = round_step((a->hi - a->lo) / 6);
  a->lo = floor(a->lo / step) * step;
  a->hi = ceil(a->hi / step) * step;
}

bool kv_axis_takes(const kv_axis *a, double value) {
  return fabs(value) <= 1e30 && (!a->log || value >= 1e-30);
}

static void fit(kv_axis *a, int n, const kv_mark *mark, bool is_y,
                double most) {
  double lo = HUGE_VAL, hi = -HUGE_VAL;
  for (int i = 0; i < n; i++) {
    double v = is_y ? mark[i].y : mark[i].x;
    if (!kv_axis_takes(a, v) || v > most) continue;
    lo = fmin(lo, v);
    hi = fmax(hi, v);
  }
  if (lo > hi) lo = hi = 1;
  a->lo = lo;
  a->hi = hi;
  if (a->log)
    fit_log(a);
  else
    fit_linear(a);
}

void kv_axis_fit(kv_axis *a, int n, const kv_mark *mark, bool is_y) {
  fit(a, n, mark, is_y, HUGE_VAL);
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Ten times the median of the accepted values, if few are above. */
static double bound(const kv_axis *a, int n, const kv_mark *mark) {
  double *y = calloc((size_t)n + 1, sizeof *y), most = HUGE_VAL;
  int m = 0, above = 0;
  for (int i = 0; y && i < n; i++)
    if (kv_axis_takes(a, mark[i].y)) y[m++] = mark[i].y;
  if (m) {
    qsort(y, (size_t)m, sizeof *y, by_size);
    most = 10 * y[m / 2];
    for (int i = 0; i < m; i++) above += y[i] > most;
  }
  free(y);
  return most > 0 && 4 * above <= m ? most : HUGE_VAL;
}

bool kv_axis_fit_most(kv_axis *a, int n, const kv_mark *mark) {
  bool beyond = false;
  fit(a, n, mark, true, bound(a, n, mark));
  for (int i = 0; i < n; i++)
    beyond |= kv_axis_takes(a, mark[i].y) && mark[i].y > a->hi;
  return beyond;
}

static int ticks_log(const kv_axis *a, double tick[16]) {
  static const double dense[] = {1, 2, 5}, sparse[] = {1};
  static const double narrow[] = {1, 1.5, 2, 3, 4, 5, 7};
  double ratio = a->hi / a->lo;
  const double *step = ratio > 2000 ? sparse : ratio < 8 ? narrow : dense;
  int n = 0, steps = ratio > 2000 ? 1 : ratio < 8 ? 7 : 3;
  for (double ten = pow(10, floor(log10(a->lo))); ten <= a->hi; ten *= 10)
    for (int i = 0; i < steps && n < 16; i++)
      if (step[i] * ten >= a->lo && step[i] * ten <= a->hi)
        tick[n++] = step[i] * ten;
  return n;
}

int kv_axis_ticks(const kv_axis *a, double tick[16]) {
  double step;
  int n = 0;
  if (a->log) return ticks_log(a, tick);
  step = round_step((a->hi - a->lo) / 6);
  for (; n < 16 && a->lo + n * step <= a->hi + step * 1e-6; n++) {
    tick[n] = a->lo + n * step;
    if (fabs(tick[n]) < step * 1e-6) tick[n] = 0;
  }
  return n;
}

double kv_axis_place(const kv_axis *a, double v) {
  if (a->log) return v <= 0 ? 0 : log(v / a->lo) / log(a->hi / a->lo);
  return (v - a->lo) / (a->hi - a->lo);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Bootstrap and sign flips of analysis/database/paired.h. Each of them restarts
 * the generator (draw.h).
 */
#include "analysis/database/paired.h"
#include "analysis/database/draw.h"
#include "analysis/database/results.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* The end of the task that begins at `first`, and its sums. */
static int task_of(int n, const kv_cluster *c, int first, int *values,
                   double *sum) {
  int i = first;
  *values = 0;
  *sum = 0;
  for (; i < n && c[i].task == c[first].task; i++) {
    *values += c[i].n;
    *sum += c[i].sum;
  }
  return i;
}

/* Adds a task's clusters, c[k] with so many values and such a sum. */
static void add_task(int k, const kv_cluster *c, double values, double sum,
                     kv_paired *out, double *weights) {
  double apart = 0;
  for (int i = 0; i < k; i++) {
    double weight = c[i].n / values, off = c[i].sum / values;
    *weights += weight * weight;
    out->square += off * off;
    off -= weight * (sum / values);
    apart += off * off;
  }
  out->spread += k > 1 ? apart * k / (k - 1) : NAN;
  out->mean += sum / values;
  out->tasks++;
}

static void moments(int n, const kv_cluster *c, kv_paired *out) {
  double weights = 0, sum;
  *out = (kv_paired){.n = n, .low = NAN, .high = NAN, .p = NAN};
  for (int first = 0, end, values; first < n; first = end) {
    end = task_of(n, c, first, &values, &sum);
    add_task(end - first, c + first, values, sum, out, &weights);
    out->values += values;
  }
  for (int i = 0; i < n; i++) {
    out->above += c[i].above;
    out->below += c[i].below;
  }
  out->ties = out->values - out->above - out->below;
  out->mean /= out->tasks;
  out->equal = (double)out->tasks * out->tasks / weights;
  out->spread /= weights;
  out->square /= weights;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* --- bootstrap ------------------------------------------------------------ */

static double resampled(int n, const kv_cluster *c, uint64_t *state) {
  double all = 0;
  int tasks = 0;
  for (int first = 0, end; first < n; first = end, tasks++) {
    double sum = 0;
    int values = 0;
    for (end = first; end < n && c[end].task == c[first].task;) end++;
    for (int k = end - first, i = 1; i < k; i++) {
      const kv_cluster *x = &c[first + kv_draw_below(state, k)];
      sum += x->sum;
      values += x->n;
    }
    all += sum / values;
  }
  return all / tasks;
}

bool kv_paired_interval(int n, const kv_cluster *c, kv_paired *out) {
  uint64_t state = 1;
  moments(n, c, out);
  if (n < KV_INTERVAL_LEAST || isnan(out->spread)) return true;
  double *mean = malloc(KV_RESAMPLES * sizeof *mean);
  if (!mean) return false;
  for (int r = 0; r < KV_RESAMPLES; r++) mean[r] = resampled(n, c, &state);
  qsort(mean, KV_RESAMPLES, sizeof *mean, ascending);
  out->low = mean[KV_RESAMPLES / 40 - 1];
  out->high = mean[KV_RESAMPLES - KV_RESAMPLES / 40];
  free(mean);
  return true;
}

void kv_wilson(double x, double n, double *low, double *high) {
  const double z = 1.959963984540054;
  double middle = (x + z * z / (2 * n)) / (1 + z * z / n);
  double half =
      z / (1 + z * z / n) * sqrt(x * (1 - x) / n + z * z / (4 * n * n));
  *low = fmax(middle - half, 0);
  *high = fmin(middle + half, 1);
}

bool kv_paired_right(int n, const kv_cluster *c, kv_paired *out) {
  moments(n, c, out);
  bool single = out->tasks == 1 && out->n == out->values;
  if (n < KV_INTERVAL_LEAST || !(single || out->mean <= 0 || out->mean >= 1))
    return kv_paired_interval(n, c, out);
  kv_wilson(out->mean, out->equal, &out->low, &out->high);
  return true;
}

/* --- sign flips ----------------------------------------------------------- */

/* Is the sum as far from 0 as the observed one? Rounding in another order of
 * signs makes no difference. */
static bool as_far(double s, double found) {
  return fabs(s) >= fabs(found) * (1 - 1e-12);
}

/* The sum with the signs of `flip`, one bit per cluster from bit 0 on. */
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

/* z + 0.84 of m tests. */
static double reach(int m) {
  double low = 0, high = 6, z_power = 0.8416212335729143;
  for (int i = 0; i < 60; i++) {
    double z = (low + high) / 2;
    *(above(z) > KV_LEVEL / 2 / m ? &low : &high) = z;
  }
  return low + z_power;
}

double kv_paired_needed(const kv_paired *x, int m) {
  double k = reach(m);
  return k * k * (x->spread / (x->mean * x->mean));
}

/* The probability that a binomial number of n trials is below j. */
static double fewer(int n, double p, int j) {
  double term = 1, sum = 0;
  for (int i = 0; i < n; i++) term *= 1 - p;
  for (int i = 0; i < j; i++) {
    sum += term;
    term *= p / (1 - p) * (n - i) / (i + 1);
  }
  return sum;
}

double kv_paired_detectable(int n, int m, double square) {
  double k = reach(m), low = 0, high = 1, least = 2;
  int j = 0;
  for (; least * m >= KV_LEVEL; j++) least /= 2;
  if (n < j) return INFINITY;
  for (int i = 0; i < 50; i++) {
    double d = (low + high) / 2;
    *(fewer(n, d, j) > 0.2 ? &low : &high) = d;
  }
  return fmax(fmin(k * sqrt(square / (n + k * k)), 1), high);
}

/* --- non-inferiority ------------------------------------------------------ */

double kv_paired_margin_least(const kv_paired *x, double margin) {
  double p = 1;
  for (int i = 1; i <= x->equal + 1e-6; i++) p *= 1 - margin;
  return p;
}

/* The variance of one difference if the mean is -m, for values -1, 0 and 1:
 * then a share w wins, and w + m loses, by maximum likelihood (Tango,
 * Statistics in Medicine 17, 1998). */
static double expected(const kv_paired *x, double m) {
  double win = fmax((x->square + x->mean) / 2, 0);
  double lose = fmax((x->square - x->mean) / 2, 0);
  double b = (lose + win) * (1 - m) - 2 * m * (1 - lose);
  double w = (b + sqrt(b * b + 8 * win * m * (1 - m))) / 4;
  return 2 * w + m - m * m;
}

double kv_paired_margin(const kv_paired *x, double margin) {
  double off = x->mean + margin, least = kv_paired_margin_least(x, margin);
  double one = fmax(x->spread + off * off, expected(x, margin));
  if (isnan(x->spread) || off <= 0) return 1;
  return fmax(above(fmin(off / sqrt(one / x->equal), 6)), least);
}

/* --- all of it ------------------------------------------------------------ */

bool kv_paired_find(int n, const kv_cluster *c, kv_paired *out) {
  double *d = malloc((size_t)n * sizeof *d), total = 0, sum;
  bool good = d && kv_paired_interval(n, c, out);
  for (int first = 0, end, values; good && first < n; first = end) {
    end = task_of(n, c, first, &values, &sum);
    for (int i = first; i < end; i++) d[i] = c[i].sum / values;
    total += sum / values;
  }
  if (good && n <= KV_FLIPS_EXACT) {
    out->p = exact(n, d, total);
    out->p_least = 2.0 / (1 << n);
  } else if (good) {
    out->p = drawn(n, d, total);
    out->p_least = 1.0 / (KV_RESAMPLES + 1);
  }
  free(d);
  return good;
}

void kv_paired_holm(int m, double **p) {
  double most = 0;
  for (int i = 1; i < m; i++) /* by insertion: m is at most hundreds */
    for (int at = i; at && *p[at - 1] > *p[at]; at--) {
      double *swap = p[at];
      p[at] = p[at - 1];
      p[at - 1] = swap;
    }
  for (int i = 0; i < m; i++) {
    most = fmax(most, *p[i] * (m - i));
    *p[i] = fmin(most, 1);
  }
}

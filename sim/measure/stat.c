/* SPDX-License-Identifier: Apache-2.0
 *
 * Mean, nearest-rank percentiles and maximum of a set of values: O(n), without
 * memory. The mean, and the squares about it, are added in the order given
 * before anything is reordered.
 */
#include "sim/measure/stat_part.h"
#include <math.h>

static void swap(double *a, double *b) {
  double t = *a;
  *a = *b;
  *b = t;
}

static double middle(double a, double b, double c) {
  if (a > b) swap(&a, &b);
  if (b > c) swap(&b, &c);
  return a > b ? a : b;
}

/* Partitions v[from..n) so that v[k] is the k-th smallest (k counts from v[0]),
 * with no larger value before it and no smaller one behind it. */
static double select_rank(double *v, int64_t from, int64_t n, int64_t k) {
  int64_t low = from, high = n - 1;
  while (low < high) {
    double pivot = middle(v[low], v[low + (high - low) / 2], v[high]);
    int64_t i = low, j = high;
    while (i <= j) {
      while (v[i] < pivot) i++;
      while (v[j] > pivot) j--;
      if (i <= j) swap(&v[i++], &v[j--]);
    }
    if (k <= j)
      high = j;
    else if (k >= i)
      low = i;
    else
      break;
  }
  return v[k];
}

kv_stat kv_stat_of(double *value, int64_t n) {
  kv_stat s = {0};
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    double x = value[i];
    if (isnan(x)) continue;
    if (s.count == 0 || x > s.max) s.max = x;
    sum += x;
    value[s.count++] = x;
  }
  if (s.count == 0) return s;
  s.mean = sum / (double)s.count;
  for (int64_t i = 0; i < s.count; i++)
    s.squares += kv_square(value[i] - s.mean);
  int64_t a = kv_rank_of(s.count, 50), b = kv_rank_of(s.count, 95);
  s.p50 = select_rank(value, 0, s.count, a);
  s.p95 = select_rank(value, a, s.count, b);
  s.p99 = select_rank(value, b, s.count, kv_rank_of(s.count, 99));
  return s;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of measures, from the list in measure.h, and values derived from
 * two of them.
 */
#include "sim/replay/measure/measure.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum { LESS = -1, MORE = 1, NEITHER = 0, SIZE = 0 };

#define ROW(NAME, name, of, better, unit, columns, title, phrase)              \
  [KV_##NAME] = {#name, title, unit, better, KV_OF_##of},
const kv_measure_info kv_measure_table[KV_MEASURES] = {
    KV_MEASURES_EACH(ROW, KV_MEASURE_NONE)};

double kv_needle_share(const kv_stat *s) {
  const kv_stat *got = &s[KV_NEEDLE_MASS], *dense = &s[KV_NEEDLE_DENSE];
  bool there = got->count && dense->count && dense->mean > 0;
  return there ? got->mean / dense->mean : (double)NAN;
}

double kv_kept_share(int n, const kv_kept *lane) {
  double kept = 0, dense = 0;
  for (int i = 0; i < n; i++) {
    kept += lane[i].kept;
    dense += lane[i].dense;
  }
  return dense > 0 ? kept / dense : (double)NAN;
}

/* A lane without mass has no share: it counts nothing, wherever it is. */
static double share_of(const kv_kept *x) {
  return x->dense > 0 ? x->kept / x->dense : 1;
}

static int by_share(const void *a, const void *b) {
  const kv_kept *x = a, *y = b;
  double p = share_of(x), q = share_of(y);
  return p != q ? (p > q) - (p < q) : (x->lane > y->lane) - (x->lane < y->lane);
}

double kv_kept_worst(int n, kv_kept *lane) {
  double all = 0, kept = 0, dense = 0;
  qsort(lane, (size_t)n, sizeof *lane, by_share);
  for (int i = 0; i < n; i++) all += lane[i].dense;
  for (int i = 0; i < n && dense < all / 10; i++) {
    double left = all / 10 - dense;
    double part = lane[i].dense < left ? lane[i].dense : left;
    kept += share_of(&lane[i]) * part;
    dense += part;
  }
  return dense > 0 ? kept / dense : (double)NAN;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Where several top-k sets of a row end. The sets are nested, so the largest is
 * selected from all tokens and each smaller one from the one before. Selecting
 * is narrowing: a sample of the values, in order, says between which two the
 * k-th largest lies; one pass counts what is above and collects what is between
 * them. Cost: O(n) plus O(k), one pass over all tokens.
 */
#include "ref/ground/arith.h"
#include "sim/measure/truth.h"

#include <math.h>
#include <string.h>

enum {
  SAMPLE = 64,
  MARGIN = 6 /* places of the sample: about twice what chance moves them */
};

/* n <= SAMPLE values in descending order. */
static void sort(int n, float *x) {
  for (int i = 1; i < n; i++) {
    float v = x[i];
    int j = i;
    for (; j > 0 && x[j - 1] < v; j--) x[j] = x[j - 1];
    x[j] = v;
  }
}

/* Two values with, most likely, the k-th largest of a[0..n), n > SAMPLE, from
 * the one to the other. */
static void bracket(const float *a, int n, int k, float *low, float *high) {
  float x[SAMPLE];
  for (int i = 0; i < SAMPLE; i++) x[i] = a[(size_t)i * (size_t)n / SAMPLE];
  sort(SAMPLE, x);
  int at = (int)((int64_t)k * SAMPLE / n);
  *high = at < MARGIN ? INFINITY : x[at - MARGIN];
  *low = at + MARGIN >= SAMPLE ? -INFINITY : x[at + MARGIN];
}

/* The k-th largest of n values of which too many are equal for brackets: by
 * halving the range of keys in rule 2's order. */
static float nth_by_key(const float *a, int n, int k) {
  uint32_t low = 0, high = UINT32_MAX;
  while (low < high) {
    uint32_t middle = high - (high - low) / 2;
    int there = 0;
    for (int i = 0; i < n; i++) there += kv_key(a[i]) >= middle;
    if (there >= k)
      low = middle;
    else
      high = middle - 1;
  }
  return kv_float(low >> 31 ? low ^ 0x80000000u : ~low);
}

/* The k-th largest of a[0..n), 1 <= k <= n; x: n floats of scratch. */
static float nth(const float *a, int n, int k, float *x) {
  while (n > SAMPLE) {
    float low, high;
    int above = 0, m = 0;
    bracket(a, n, k, &low, &high);
    for (int i = 0; i < n; i++) {
      float v = a[i];
      above += v > high;
      x[m] = v;
      m += v >= low && v <= high;
    }
    if (k <= above || k > above + m || m == n) return nth_by_key(a, n, k);
    a = x;
    n = m;
    k -= above;
  }
  memmove(x, a, (size_t)n * sizeof *x);
  sort(n, x);
  return x[k - 1];
}

/* Tokens that are still in question, ascending. */
typedef struct list {
  int n;
  const float *value;
  const int32_t *token; /* NULL: 0, 1, 2 .. */
} list;

/* Those of at least `least`, into value and token, which may be the list's. */
static list at_least(list from, float least, float *value, int32_t *token) {
  int m = 0;
  for (int i = 0; i < from.n; i++) {
    float v = from.value[i];
    value[m] = v;
    token[m] = from.token ? from.token[i] : i;
    m += v >= least;
  }
  return (list){m, value, token};
}

/* Of the list, those that are likely to hold its k largest, and do. */
static list likely(list from, int k, float *value, int32_t *token) {
  float low = -INFINITY, high;
  int there = 0;
  if (from.n > SAMPLE) bracket(from.value, from.n, k, &low, &high);
  if (!from.token) {
    list some = at_least(from, low, value, token);
    return some.n < k ? at_least(from, -INFINITY, value, token) : some;
  }
  for (int i = 0; i < from.n; i++) there += from.value[i] >= low;
  return at_least(from, there < k ? -INFINITY : low, value, token);
}

/* The k largest of the list, in place; of equals the lower tokens. */
static list largest(list from, int k, float *value, int32_t *token, float *x,
                    kv_top_cut *cut) {
  int above = 0, m = 0;
  cut->least = nth(value, from.n, k, x);
  for (int i = 0; i < from.n; i++) above += value[i] > cut->least;
  for (int i = 0; m < k; i++) {
    bool equal = value[i] == cut->least, in = value[i] > cut->least;
    if (equal && above < k) {
      above++;
      in = true;
      cut->last = token[i];
    }
    value[m] = value[i];
    token[m] = token[i];
    m += in;
  }
  return (list){m, value, token};
}

void kv_rank_top(int n, const float *s, int n_top, const int32_t *top,
                 int32_t *token, float *value, float *x, kv_top_cut *cut) {
  list l = {n, s, NULL};
  for (int j = n_top - 1; j >= 0; j--) {
    cut[j] = (kv_top_cut){-INFINITY, INT32_MAX}; /* everything */
    if (top[j] >= l.n) continue;
    l = likely(l, top[j], value, token);
    l = largest(l, top[j], value, token, x, &cut[j]);
  }
}

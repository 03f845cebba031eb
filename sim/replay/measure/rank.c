/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds where several top-k sets of a row end. The sets are nested, so the
 * largest is selected from all tokens and each smaller one from the one before.
 * Selection narrows: a sorted sample of the values gives two bounds around the
 * k-th largest; one pass counts the values above and collects those between.
 * Cost: O(n) plus O(k), one pass over all tokens.
 */
#include "ref/ground/arith.h"
#include "sim/replay/measure/truth.h"

#include <math.h>
#include <string.h>

enum {
  SAMPLE = 32,
  MARGIN = 4 /* sample ranks: about twice the random error */
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

/* Two values of a[0..n), n > SAMPLE, that most likely enclose the k-th largest.
 */
static void bracket(const float *a, int n, int k, float *low, float *high) {
  float x[SAMPLE];
  for (int i = 0; i < SAMPLE; i++) x[i] = a[(size_t)i * (size_t)n / SAMPLE];
  sort(SAMPLE, x);
  int at = (int)((int64_t)k * SAMPLE / n);
  *high = at < MARGIN ? INFINITY : x[at - MARGIN];
  *low = at + MARGIN >= SAMPLE ? -INFINITY : x[at + MARGIN];
}

/* The k-th largest of n values, by halving the range of keys in rule 2's order.
 * For values with too many equals to bracket. */
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

/* Scratch of n elements each. */
typedef struct room {
  float *value;   /* of the candidate tokens, ascending */
  int32_t *token; /* the candidates */
  float *x;
  int32_t *place;
} room;

/* The k-th largest of all[0..of), 1 <= rank <= of. If the bounds miss it, the
 * narrowed values may be overwritten, so all values are searched again. */
static float nth(const kv_kernels *kernel, const float *all, int of, int rank,
                 const room *w) {
  const float *a = all;
  int n = of, k = rank;
  while (n > SAMPLE) {
    float low, high;
    bracket(a, n, k, &low, &high);
    int m = kernel->at_least(a, n, low, w->x, w->place), above = 0, between = 0;
    for (int i = 0; i < m; i++) {
      float v = w->x[i];
      above += v > high;
      w->x[between] = v;
      between += v <= high;
    }
    if (k <= above || k > m || between == n) return nth_by_key(all, of, rank);
    a = w->x;
    n = between;
    k -= above;
  }
  memmove(w->x, a, (size_t)n * sizeof *a);
  sort(n, w->x);
  return w->x[k - 1];
}

/* Collects candidates that include the k largest of n values; returns how many.
 */
static int likely(const kv_kernels *kernel, int n, const float *s, int k,
                  const room *w) {
  float low = -INFINITY, high;
  if (n > SAMPLE) bracket(s, n, k, &low, &high);
  int m = kernel->at_least(s, n, low, w->value, w->token);
  if (m < k) m = kernel->at_least(s, n, -INFINITY, w->value, w->token);
  return m;
}

/* Keeps k of the n candidates: those above the k-th largest, then the lowest
 * tokens equal to it. */
static kv_top_cut cut_off(const kv_kernels *kernel, int n, int k,
                          const room *w) {
  kv_top_cut cut = {nth(kernel, w->value, n, k, w), 0};
  int m = kernel->at_least(w->value, n, cut.least, w->value, w->place), kept;
  int equals = k;
  for (int i = 0; i < m; i++) {
    w->token[i] = w->token[w->place[i]];
    equals -= w->value[i] > cut.least;
  }
  kept = m > k ? 0 : m;
  for (int i = 0; i < m && equals > 0; i++)
    if (w->value[i] == cut.least && equals-- > 0) cut.last = w->token[i];
  for (int i = 0; m > k && i < m; i++) {
    w->value[kept] = w->value[i];
    w->token[kept] = w->token[i];
    kept += kv_top_has(cut, w->value[i], w->token[i]);
  }
  return cut;
}

void kv_rank_top(const kv_kernels *kernel, int n, const float *s, int n_top,
                 const int32_t *top, int32_t *token, int32_t *place,
                 float *value, float *x, kv_top_cut *cut) {
  const room w = {value, token, x, place};
  int left = 0; /* candidates; 0: all n tokens */
  for (int j = n_top - 1; j >= 0; j--) {
    cut[j] = (kv_top_cut){-INFINITY, INT32_MAX}; /* all tokens */
    if (top[j] >= n) continue;
    if (left == 0) left = likely(kernel, n, s, top[j], &w);
    cut[j] = cut_off(kernel, left, top[j], &w);
    left = top[j];
  }
}

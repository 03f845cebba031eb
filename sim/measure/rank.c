/* SPDX-License-Identifier: Apache-2.0
 *
 * Where several top-k sets of a row end. The sets are nested, so the largest is
 * selected from all tokens and each smaller one from the one before: O(n) plus
 * O(k).
 */
#include "ref/parts/parts.h"
#include "sim/measure/truth.h"

#include <string.h>

/* The least of n >= 1 values, tokens ascending, and its last token. */
static kv_cut cut_of(int n, const float *value, const int32_t *token) {
  kv_cut c = {value[0], token[0]};
  for (int i = 1; i < n; i++)
    if (value[i] <= c.least) c = (kv_cut){value[i], token[i]};
  return c;
}

void kv_rank_top(int n, const float *s, int n_top, const int32_t *top,
                 bool *keep, int32_t *list, float *value, kv_cut *cut) {
  int m = n;
  for (int i = 0; i < n; i++) list[i] = i;
  memcpy(value, s, (size_t)n * sizeof *value);
  for (int j = n_top - 1; j >= 0; j--) {
    int kept = 0;
    kv_top(value, m, top[j], keep);
    for (int i = 0; i < m; i++) {
      if (!keep[i]) continue;
      list[kept] = list[i]; /* ascending, so ties still go to the lower token */
      value[kept++] = value[i];
    }
    m = kept;
    cut[j] = cut_of(m, value, list);
  }
}

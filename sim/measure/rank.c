/* SPDX-License-Identifier: Apache-2.0
 *
 * For each token, the smallest of several top-k sets that contains it. The sets
 * are nested, so the largest is selected from all tokens and each smaller one
 * from the one before: O(n) plus O(k).
 */
#include "ref/parts/parts.h"
#include "sim/measure/truth.h"
#include <string.h>

void kv_rank_top(int n, const float *s, int n_top, const int32_t *top,
                 bool *keep, int32_t *list, float *value, uint16_t *rank) {
  int m = n;
  for (int i = 0; i < n; i++) {
    list[i] = i;
    rank[i] = (uint16_t)n_top;
  }
  memcpy(value, s, (size_t)n * sizeof *value);
  for (int j = n_top - 1; j >= 0; j--) {
    int kept = 0;
    kv_top(value, m, top[j], keep);
    for (int i = 0; i < m; i++) {
      if (!keep[i]) continue;
      list[kept] = list[i]; /* ascending, so ties still go to the lower token */
      value[kept] = value[i];
      rank[list[kept++]] = (uint16_t)j;
    }
    m = kept;
  }
}

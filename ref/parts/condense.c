/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/parts/condense.h"

/* Smallest first, of equals the lower entry. */
static void order_rising(int n, int32_t *list, float *a, int32_t *spare) {
  for (int i = 0; i < n; i++) a[list[i]] = -a[list[i]];
  kv_order(a, n, list, spare);
  for (int i = 0; i < n; i++) a[list[i]] = -a[list[i]];
}

int kv_condense(kv_lane *lane, int n, int32_t *stays, int m, int32_t *goes,
                float *a, int32_t *spare) {
  int done = 0;
  if (n == 0) return 0;
  kv_order(a, n, stays, spare);
  order_rising(m, goes, a, spare);
  for (int i = 0; i < m; i++) {
    int into = stays[i % n], from = goes[i];
    if (!(a[from] > 0)) continue;
    kv_merge(lane, into, from, a[into], a[from]);
    a[into] = kv_add(a[into], a[from]);
    done++;
  }
  return done;
}

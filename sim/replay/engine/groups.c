/* SPDX-License-Identifier: Apache-2.0
 *
 * Group sizes from measured times: contract in sim/replay/engine/groups.h.
 */
#include "sim/replay/engine/groups.h"

#include <stdlib.h>

kv_rc kv_groups_open(int cells, double most, kv_groups *g, kv_err *e) {
  size_t n = (size_t)cells;
  *g = (kv_groups){.cells = cells, .most = most};
  g->own = kv_zalloc(n, sizeof *g->own);
  return g->own ? KV_OK : kv_no_memory(e, "cells", n * sizeof *g->own);
}

void kv_groups_close(kv_groups *g) {
  free(g->own);
  *g = (kv_groups){0};
}

void kv_groups_learn(kv_groups *g, double took, int n, const int *cell,
                     const double *own) {
  for (int i = 0; i < n; i++) {
    g->own[cell[i]] = own[i];
    took -= own[i];
  }
  g->shared *= 0.75;
  if (took > g->shared) g->shared = took;
}

/* Seconds of a cell. A cell never measured counts as the most expensive one. */
static double seconds_of(const kv_groups *g, int cell) {
  double most = g->own[cell];
  for (int c = 0; g->own[cell] == 0 && c < g->cells; c++)
    if (g->own[c] > most) most = g->own[c];
  return most;
}

int kv_groups_pick(const kv_groups *g, int n, const int *cell) {
  double room = g->most - g->shared, all = 0, sum = 0;
  int picked = 0;
  if (room < g->shared / 2) room = g->shared / 2;
  for (int i = 0; i < n; i++) all += seconds_of(g, cell[i]);
  if (all <= room) return n;
  /* Groups of equal size, so that the last is not a small rest. */
  double groups = 1;
  while (groups < n && all / groups > room) groups++;
  while (picked < n && (picked == 0 || sum < all / groups))
    sum += seconds_of(g, cell[picked++]);
  if (picked > 1 && sum > room) picked--;
  return picked;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides which cells of a layer are replayed together. All at once is
 * cheapest, because the exact attention and the prompt's observation are
 * shared. But work in flight is lost if the process dies, so if all cells
 * together would take longer than allowed, a layer is replayed in groups of
 * cells, as large as the times measured so far permit. Time decides only which
 * cells go together; no result depends on it.
 *
 * Each group pays again for what is shared. To keep that to about twice the
 * work of the cells themselves, a group may spend half as long on its cells as
 * on the shared part, even if that is longer than allowed.
 *
 * Not thread-safe: callers that share a kv_groups must take turns.
 */
#ifndef KV_SIM_GROUPS_H
#define KV_SIM_GROUPS_H

#include "ref/ground/err.h"

typedef struct kv_groups {
  int cells;     /* of the replay, numbered from 0 */
  double most;   /* seconds a group may take */
  double shared; /* seconds spent on what a group shares: a recent maximum */
  double *own;   /* [cells] seconds of a cell alone on one layer; 0: unknown */
} kv_groups;

/* Starts without any measurement. KV_RESOURCE: memory; close it also then. */
kv_rc kv_groups_open(int cells, double most, kv_groups *out, kv_err *e);
void kv_groups_close(kv_groups *g); /* accepts zeroed */

/* Reports that a group of n cells took `took` seconds, of which cell[i] alone
 * took own[i], measured or predicted. Each call reduces the remembered shared
 * time by a quarter first, so that one slow moment is forgotten in time. */
void kv_groups_learn(kv_groups *g, double took, int n, const int *cell,
                     const double *own);
/* How many cells of cell[n], n >= 1, from the first on, go together; >= 1. */
int kv_groups_pick(const kv_groups *g, int n, const int *cell);

#endif

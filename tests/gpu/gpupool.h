/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of a lane's pools of rows on the executor (kv_gpu_raw): every row ever
 * taken must be free or belong to exactly one live entry, whose side is
 * unchanged; never both or twice. C and C++.
 */
#ifndef KV_TESTS_GPU_POOL_H
#define KV_TESTS_GPU_POOL_H

#include "gpu/shared/lane.h"

#include <stdlib.h>

/* Notes one more owner of a row in owned [pool->used]; returns what is wrong,
 * or NULL. */
static inline const char *gpupool_claim(const kv_gpu_raw *pool, int32_t row,
                                        char *owned) {
  if (row < 0 || row >= pool->used) return "a row that was never taken";
  if (owned[row]) return "a row that two have";
  owned[row] = 1;
  return NULL;
}

/* gpupool_wrong of one side of a lane: its pool, and its entries' references.
 */
static inline const char *gpupool_wrong_side(const kv_gpu_lane *l,
                                             const kv_gpu_raw *pool,
                                             const kv_cell_ref *side) {
  char *owned = (char *)calloc((size_t)pool->used + 1, 1);
  const char *wrong = owned ? NULL : "no memory";
  int held = 0;
  for (int i = 0; !wrong && i < l->n; i++) {
    if (l->weight[i] == 0 || side[i].format != KV_RAW) continue;
    wrong = gpupool_claim(pool, side[i].block, owned);
    held++;
  }
  for (int j = 0; !wrong && j < pool->n_free; j++)
    wrong = gpupool_claim(pool, pool->free[j], owned);
  if (!wrong && held + pool->n_free != pool->used)
    wrong = "a row that nobody has and that is not free";
  free(owned);
  return wrong;
}

/* Makes a pool whose rows 0..n-1 are those of entries 0..n-1: fills in side
 * [n], and the pool except its pages; room [n]: for its free list. Returns
 * side. */
static inline kv_cell_ref *gpupool_fill(int n, kv_cell_ref *side, int32_t *room,
                                        kv_gpu_raw *pool) {
  pool->used = n;
  pool->n_free = 0;
  pool->free = room;
  for (int i = 0; i < n; i++) {
    side[i].block = i;
    side[i].member = 0;
    side[i].format = KV_RAW;
  }
  return side;
}

/* What is wrong with the pools of a lane, in words, or NULL. */
static inline const char *gpupool_wrong(const kv_gpu_lane *l) {
  const char *wrong = gpupool_wrong_side(l, &l->k_raw, l->k);
  return wrong ? wrong : gpupool_wrong_side(l, &l->v_raw, l->v);
}

/* Rows that entries hold. */
static inline int gpupool_held(const kv_gpu_raw *pool) {
  return pool->used - pool->n_free;
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/measure/cost*.c: the counters of a ledger.
 */
#ifndef KV_SIM_COST_PART_H
#define KV_SIM_COST_PART_H

#include "sim/measure/cost.h"
#include <assert.h>
#include <stdatomic.h>

typedef _Atomic int64_t kv_counter;

/* One block. compressed: bytes by kind, numbered as kv_byte_kind_at does;
 * excess: the most that a layer held before compression beyond what it held
 * after; the rest are sums. */
typedef struct kv_cost_block {
  kv_counter compressed[KV_N_BYTE_KINDS], excess, codes_excess, read, scanned,
      fetched, attended;
} kv_cost_block;

typedef struct kv_cost_changes {
  kv_counter records, moved;
} kv_cost_changes;

struct kv_cost {
  const kv_shape *shape;
  int layers, lanes, blocks, points; /* prompt blocks; all blocks */
  int rows;                          /* layers if they are held apart, else 1 */
  kv_cost_block *at;                 /* [rows][points] */
  kv_cost_changes *verbs;            /* [rows] */
  int32_t *kept;                     /* [layers][lanes] */
};

static inline int64_t kv_counter_get(const kv_counter *c) {
  return atomic_load_explicit(c, memory_order_relaxed);
}

static inline kv_cost_block *kv_cost_block_of(const kv_cost *c, int row,
                                              int block) {
  assert(row >= 0 && row < c->rows && block >= 0 && block < c->points);
  return &c->at[(size_t)row * (size_t)c->points + (size_t)block];
}

#endif

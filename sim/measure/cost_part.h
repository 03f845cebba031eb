/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/measure/cost*.c: the counters of a ledger, in bytes unless
 * said otherwise.
 */
#ifndef KV_SIM_COST_PART_H
#define KV_SIM_COST_PART_H

#include "sim/measure/cost.h"
#include "sim/measure/counter.h"
#include <assert.h>

/* One block of the prompt, or one decode step: sums over layers, but for the
 * excesses, which are the largest of a layer (INT64_MIN: none closed there). */
typedef struct kv_cost_block {
  kv_counter compressed[KV_N_BYTE_KINDS]; /* held after compression, by kind as
                                             kv_byte_kind_at numbers them */
  kv_counter excess;       /* held before compression beyond that */
  kv_counter made;         /* rows of a step that a group holds together */
  kv_counter codes_excess; /* the same of payload alone */
  kv_counter read, scanned, fetched;
  kv_counter attended; /* entries, over query heads */
} kv_cost_block;

/* Of all blocks: records of verbs, and bytes that they moved. */
typedef struct kv_cost_changes {
  kv_counter records, moved;
} kv_cost_changes;

struct kv_cost {
  const kv_shape *shape;  /* the caller's */
  int layers, lanes;      /* recorded ones; of a layer */
  int blocks, points;     /* of the prompt; decode steps included */
  int rows;               /* layers if they are held apart, else 1 */
  const int *window;      /* [layers] of kv_cost_take_windows; not owned */
  const int *group;       /* [layers] of kv_cost_take_groups; not owned */
  int left;               /* layers on which the method does not run */
  int64_t queries;        /* bytes of kv_cost_take_queries */
  kv_cost_block *at;      /* [rows][points] */
  kv_cost_changes *verbs; /* [rows] */
  int32_t *kept;          /* [layers][lanes] entries at the end */
};

/* The counters of one row (a layer's where they are held apart, else row 0) and
 * block, which must exist (asserted). */
static inline kv_cost_block *kv_cost_block_of(const kv_cost *c, int row,
                                              int block) {
  assert(row >= 0 && row < c->rows && block >= 0 && block < c->points);
  return &c->at[(size_t)row * (size_t)c->points + (size_t)block];
}

#endif

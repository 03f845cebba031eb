/* SPDX-License-Identifier: Apache-2.0
 *
 * Divides cells among shards so that the most expensive shard is as cheap as
 * possible; for sim/run/sweep/shares.h. Cells of one trace in one shard share
 * the exact attention and the prompt's observation: the first cell of a trace
 * pays for these, and further ones are cheap.
 *
 * Method: MULTIFIT (Coffman, Garey and Johnson 1978). For a limit on the cost
 * of a shard, cells are placed, the most expensive first, into the first shard
 * if they fit; shards that have paid for the cell's trace are tried first.
 * Bisection finds the smallest limit that suffices. If it makes a difference of
 * less than 1 %, the cells of a trace are taken in a mixed order instead, so
 * that badly predicted cells are not all in one shard.
 *
 * Integers only, no random numbers, no clock: the same costs give the same cut
 * on every machine, and each cell has one shard. Time: some dozens of steps for
 * each cell and shard. Memory: about 32 bytes a cell.
 */
#ifndef KV_SIM_CUT_H
#define KV_SIM_CUT_H

#include "ref/ground/err.h"
#include <stdint.h>

/* Costs in any unit, together below INT64_MAX / 4. */
typedef struct kv_cut_cell {
  int trace;      /* 0 .. traces - 1 */
  int64_t own;    /* >= 0 */
  int64_t shared; /* >= 0: the part of the trace's shared work that this cell
                     needs; of several cells in a shard the largest counts */
} kv_cut_cell;

/* Writes shard[cells], 0 .. shards - 1, the shard of each cell, and
 * cost[shards], the cost of each shard. shared[traces]: what a trace costs a
 * shard in addition to its cells; shards >= 1 (asserted). KV_RESOURCE: memory.
 */
kv_rc kv_cut(int cells, const kv_cut_cell *cell, int traces,
             const int64_t *shared, int shards, int *shard, int64_t *cost,
             kv_err *e);

#endif

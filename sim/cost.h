/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of one cell: what its stores held, read, rewrote and kept.
 *
 * Blocks are numbered as they enter: 0..blocks-1 are the prompt's, the last
 * of them ends at prompt_len tokens seen; block blocks-1+i ends the i-th
 * decode step. Sums and means over t run from prompt_len to T, after
 * settling; only the peak also looks at the earlier prompt blocks:
 *   peak = max over t of (sum of settled(l) + max over l of
 *                         (before(l) - settled(l)))
 * because layers settle one after another.
 *
 * Everything fed is an integer that is added or maximised, so the order of
 * feeding - layer by layer, step by step, from any thread - cannot be seen.
 * Memory is taken at open: 72 bytes a block, whatever the number of layers.
 */
#ifndef KV_SIM_COST_H
#define KV_SIM_COST_H

#include "ref/backend.h"
#include "sim/result.h"

typedef struct kv_cost kv_cost;

/* layers recorded, lanes a layer, blocks >= 1 of the prompt. */
kv_rc kv_cost_open(const kv_shape *shape, int layers, int lanes, int blocks,
                   kv_cost **out, kv_err *e);
void kv_cost_close(kv_cost *c); /* accepts NULL */
void kv_cost_begin(kv_cost *c); /* forgets everything fed */

/* One layer at the end of a block: all lanes before settling and after it
 * (the same where no settling was due). Once per layer and block. */
void kv_cost_held(kv_cost *c, int block, const kv_bytes *before,
                  const kv_bytes *settled);

/* One lane at a decode step: bytes its query heads read, and entries they
 * attended, both of kv_cost_view. */
typedef struct kv_cost_row {
  int64_t bytes;    /* K and V as stored; a row that several heads read counts
                       once, a coded group once if any member is read */
  int64_t attended; /* sum over the query heads */
} kv_cost_row;
void kv_cost_read(kv_cost *c, int block, const kv_cost_row *row);

/* mark: kv_cost_mark_size bytes of scratch, zeroed before the first call and
 * left zeroed by each. Before anything settles. */
kv_cost_row kv_cost_view(const kv_seen *seen, uint8_t *mark);
size_t kv_cost_mark_size(const kv_shape *shape);

/* The verbs a lane recorded in the block in progress: after settling, before
 * end_step. moved: K and V bytes written anew (merged rows, coded groups). */
typedef struct kv_cost_verbs {
  int64_t records, moved;
} kv_cost_verbs;
kv_cost_verbs kv_cost_lane_verbs(const kv_lane *lane);
void kv_cost_moved(kv_cost *c, const kv_cost_verbs *v);

/* Entries of a lane at the end. layer: index among the recorded ones. */
void kv_cost_kept(kv_cost *c, int layer, int lane, int entries);

/* Blocks 0..block, which every layer has been fed: bytes after the last of
 * them has settled, the peak, and the mean from the prompt's end on (0
 * before it). Walks the blocks. */
typedef struct kv_cost_now {
  kv_bytes held;
  int64_t peak;
  double mean;
} kv_cost_now;
kv_cost_now kv_cost_until(const kv_cost *c, int block);

/* Fills totals, step, and `kept` of the parts that kv_fidelity_finish made
 * before (NaN in bins of steps). read, cr and attended are NaN where nothing
 * is decoded. */
kv_rc kv_cost_finish(const kv_cost *c, kv_result *r, kv_err *e);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * One layer in flight: the stores of all cells on it, and the order of calls
 * that every walk shares - append, evidence or attend, measure, settle,
 * account, close the step. No branch on a method is here: what differs is
 * data in kv_needs.
 *
 * Work on different KV heads is independent; a kv_team says who does it.
 * Plan may fail (open), apply may not.
 */
#ifndef KV_SIM_LAYER_H
#define KV_SIM_LAYER_H

#include "sim/cell.h"
#include "sim/truth.h"

typedef struct kv_worker {
  kv_scratch *scratch;
  kv_truth *truth;  /* NULL where only the cost is asked for */
  uint8_t *mark;    /* kv_cost_mark_size, zeroed */
  double *seconds;  /* [cells] */
  kv_store **store; /* [cells] room for the stores of a shared pass */
} kv_worker;

/* Who works on a layer: one worker on all KV heads in turn, or all at once. */
typedef struct kv_team {
  kv_worker *worker;
  int workers;
} kv_team;

/* Called after each settling of a layer that was due, lanes as they are now,
 * after each attended row, and after the last step. What stands by is told of
 * any layer and KV head at the same time as of others; else there is one
 * worker. A call may be NULL. */
typedef struct kv_watch {
  void *self;
  void (*settled)(void *self, int layer, int step, const kv_lane *lane);
  void (*seen)(void *self, int layer, int step, const kv_seen *seen);
  void (*finished)(void *self, int layer, const kv_lane *lane);
  const kv_cell *of; /* of this cell only; NULL: of all */
  bool stands_by;
  const struct kv_watch *next; /* told as well, or NULL */
} kv_watch;

typedef struct kv_layer kv_layer;

kv_rc kv_layer_open(const kv_backend *backend, kv_cell *const *cell, int cells,
                    const kv_watch *watch, kv_layer **out, kv_err *e);
void kv_layer_close(kv_layer *l); /* accepts NULL */

/* The index-th recorded layer: begin, then the whole prompt, then every
 * decode step t = prompt_len .. T-1 in order, then end. A prompt enters for
 * all cells at once, or block by block, as the needs of a cell cut it: tokens
 * first..first+count-1, of which nothing later need be there yet. */
void kv_layer_begin(kv_layer *l, int index);
void kv_layer_prompt(kv_layer *l, const kv_team *team);
void kv_layer_block(kv_layer *l, int cell, int first, int count,
                    const kv_team *team);
void kv_layer_step(kv_layer *l, int t, const kv_team *team);
/* KV_RESOURCE: a device is lost, with its sentence, and no digest of this
 * layer means anything. */
kv_rc kv_layer_end(kv_layer *l, kv_err *e);

/* As it is now. */
const kv_lane *kv_layer_lane(const kv_layer *l, int cell, int lane);

#endif

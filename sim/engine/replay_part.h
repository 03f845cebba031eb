/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/engine/replay*.c: a pass over a trace, and its layers in
 * flight.
 */
#ifndef KV_SIM_REPLAY_PART_H
#define KV_SIM_REPLAY_PART_H

#include "sim/engine/groups.h"
#include "sim/engine/replay.h"
#include <stdatomic.h>

/* One group of cells on one layer. */
typedef struct kv_flight {
  kv_layer *layer;
  int n, *cell; /* the group, then the other cells that still need the layer */
  double *own;  /* [cells] scratch: seconds of each cell of the group */
  double began, prompted; /* when the group began, and its prompt ended */
  bool weighed;           /* the group's time was predicted */
  int wanting;            /* cells that needed the layer at first */
  double seen;            /* units of progress of the layer */
  int64_t reported;       /* how many of them were reported */
} kv_flight;

typedef struct kv_pass {
  const kv_trace *trace;
  kv_cell **all; /* [n_all] cells that run */
  int n_all;
  bool *there;    /* [n_all][layers] the cell has what the layer gives */
  kv_cell **cell; /* [cells] those that still miss a layer */
  int *at;        /* [cells] their indexes in `all` */
  int cells;
  bool down; /* layers of some cell publish messages: one is in flight */
  const kv_replay_how *how;
  kv_worker *worker; /* [workers] */
  int workers;
  kv_flight *flight; /* [in_flight] */
  int in_flight;
  int tile; /* decode steps of a tile; 1: row by row */
  kv_groups groups;
  _Atomic bool ended; /* stopped, or the trace is bad */
  _Atomic bool stopped;
  kv_err fault;
} kv_pass;

/* replay_walk.c: the whole trace, layer by layer or step by step. */
void kv_pass_walk(kv_pass *p);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/engine/replay*.c: one pass over a trace, and its layers in
 * flight. A kv_flight is one thread's, which may share its layer's KV heads
 * among all; what several threads write is atomic or written in a critical
 * section. Times are seconds, as omp_get_wtime gives them.
 */
#ifndef KV_SIM_REPLAY_PART_H
#define KV_SIM_REPLAY_PART_H

#include "sim/engine/groups.h"
#include "sim/engine/replay.h"
#include <stdatomic.h>

/* One group of cells on one layer: what one worker has in hand. */
typedef struct kv_flight {
  kv_layer *layer;
  int n;       /* cells of the group, by index in kv_pass.cell */
  int *cell;   /* [wanting] their indexes, then those of the other cells that
                  still need the layer */
  double *own; /* [cells] scratch: seconds of each cell of the group */
  double began, prompted; /* when the group began, and its prompt ended */
  bool weighed;           /* its decode steps were timed, and the rest of the
                             group predicted from them */
  int wanting;            /* cells that needed the layer when it began */
  double seen;      /* units of progress (tokens) that the layer has made */
  int64_t reported; /* how many of them how->tick has been given */
} kv_flight;

/* The whole pass. */
typedef struct kv_pass {
  const kv_trace *trace;
  kv_cell **all; /* [n_all] cells that run */
  int n_all;
  bool *there;    /* [n_all][layers] the cell has that layer's results already,
                     from a database */
  kv_cell **cell; /* [cells] those that still miss a layer */
  int *at;        /* [cells] their indexes in `all` */
  int cells;
  bool down; /* layers of some cell publish messages for those below them, so
                that only one may be in flight */
  const kv_replay_how *how;
  kv_worker *worker; /* [workers] */
  int workers;
  kv_flight *flight; /* [in_flight] */
  int in_flight;
  int tile; /* decode steps of a tile; 1: row by row */
  kv_groups groups;
  _Atomic bool ended; /* stopped, or there is a fault */
  _Atomic bool stopped;
  kv_err fault; /* why no rows come of it: the trace is bad, the device lost,
                   memory ended; rc 0: nothing is wrong */
} kv_pass;

/* replay_walk.c: replays the whole trace, layer by layer or, where
 * how->by_steps says so, step by step. Sets p->ended where it could not go on
 * to the end, with p->stopped or p->fault; cells that fail alone say so
 * themselves. */
void kv_pass_walk(kv_pass *p);

#endif

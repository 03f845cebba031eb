/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay run --tp`: beside each cell the same one on ranks that have some of
 * the KV heads and decide alone (sim/sheet/ranks.h). For each trace: check once
 * its cells are open; open; replay with `watch`; ask; close. In the end print.
 */
#ifndef KV_SIM_RANKS_CELLS_H
#define KV_SIM_RANKS_CELLS_H

#include "sim/commands/job.h"
#include "sim/sheet/ranks.h"

typedef struct kv_ranks_cells {
  const kv_batch *batch;
  int ranks;
  const kv_watch *watch; /* for the replay: those of the cells, then the one
                            that open was given */
  kv_decided **decided;  /* [cells], NULL where a cell does not run */
} kv_ranks_cells;

/* KV_USAGE: KV heads of a trace cannot be dealt to so many ranks. */
kv_rc kv_ranks_cells_check(const kv_job *s, int ranks, kv_err *e);
/* ranks 0: nobody asked, and neither this nor ask does anything. KV_RESOURCE:
 * memory. Close it, also after a failure. */
kv_rc kv_ranks_cells_open(const kv_batch *b, int ranks, const kv_watch *next,
                          kv_ranks_cells *out, kv_err *e);
/* After the replay: replays the ranks and fills `ranks` of each row of the
 * batch. Codes and *stopped as of kv_ranks_ask. */
kv_rc kv_ranks_cells_ask(const kv_ranks_cells *x, const kv_replay_how *how,
                         bool *stopped, kv_err *e);
void kv_ranks_cells_close(kv_ranks_cells *x); /* accepts zeroed */
/* Prints what ranks said for people, below the table of rows. KV_RESOURCE:
 * memory. Whether out was written is for the caller to see (ferror). */
kv_rc kv_ranks_cells_print(const kv_job *s, int ranks, FILE *out, kv_err *e);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The shards of a sweep: every cell of every trace of a command line, with its
 * predicted processor time (sim/run/sweep/effort.h) and its shard
 * (sim/run/sweep/cut.h). Reads the traces' headers and opens each cell, some
 * twice, but replays and searches nothing.
 *
 * Every process of a sweep computes the same cut if it has the same command
 * line and the same files. `name` tells whether two did.
 */
#ifndef KV_SIM_SHARES_H
#define KV_SIM_SHARES_H

#include "sim/run/sweep/batch.h"
#include "sim/run/sweep/shard.h"

typedef struct kv_shares {
  int shards, traces, cells;
  int *first;    /* [traces + 1] number of each trace's first cell */
  int *shard;    /* [cells] 1 .. shards */
  int64_t *own;  /* [cells] microseconds of the cell and its search alone */
  bool *runs;    /* [cells] not refused, as far as is known without a search */
  int *can;      /* [shards] how many of its cells run */
  int64_t *cost; /* [shards] microseconds, including what its cells share */
  int64_t alone; /* microseconds of the whole sweep in one process */
  char name[9];  /* of the cut: eight hexadecimal digits */
} kv_shares;

/* Divides the cells of path[traces] among `shards` >= 1 shards; everything else
 * about the traces is as in *ask. KV_INPUT: a trace cannot be read; the others
 * cannot be divided without it. KV_USAGE: as kv_batch_open. KV_RESOURCE:
 * memory. Free with kv_shares_close, also after a failure. */
kv_rc kv_shares_open(const kv_batch_ask *ask, int traces,
                     const char *const *path, int shards, kv_shares *out,
                     kv_err *e);
void kv_shares_close(kv_shares *s); /* accepts zeroed */

/* Number of the trace's cells (its number in path) in shard `mine`, from 1. */
int kv_shares_count(const kv_shares *s, int trace, int mine);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The shards of a sweep: every cell of every trace of a command line with the
 * processor time predicted for it (sim/run/sweep/effort.h) and the shard that
 * it falls to (sim/run/sweep/cut.h). Reads the traces' headers and opens each
 * cell, some twice, but replays and searches nothing.
 *
 * Every process of a sweep computes the same cut, provided that it sees the
 * same command line and the same files. `name` tells whether two did.
 */
#ifndef KV_SIM_SHARES_H
#define KV_SIM_SHARES_H

#include "sim/run/sweep/batch.h"
#include "sim/run/sweep/shard.h"

typedef struct kv_shares {
  int shards, traces, cells;
  int *first;    /* [traces + 1] cell `first[i]` is the first of trace i */
  int *shard;    /* [cells] 1 .. shards */
  int64_t *own;  /* [cells] microseconds of the cell and its search alone */
  bool *runs;    /* [cells] not refused, as far as is known without a search */
  int *can;      /* [shards] cells of each shard for which that is true */
  int64_t *cost; /* [shards] microseconds, with what its cells share */
  int64_t alone; /* microseconds of the whole sweep in one process */
  char name[9];  /* of the cut: eight hexadecimal digits */
} kv_shares;

/* Deals the cells of path[traces] out to `shards` >= 1 shards; what each trace
 * is asked is as in *ask, but for the path. KV_INPUT: a trace cannot be read;
 * others cannot be dealt out without it. KV_USAGE: as kv_batch_open;
 * KV_RESOURCE. Free with kv_shares_close, also after a failure. */
kv_rc kv_shares_open(const kv_batch_ask *ask, int traces,
                     const char *const *path, int shards, kv_shares *out,
                     kv_err *e);
void kv_shares_close(kv_shares *s); /* accepts zeroed */

/* Cells of the trace (its number in path) that shard `mine`, from 1, has. */
int kv_shares_count(const kv_shares *s, int trace, int mine);

#endif

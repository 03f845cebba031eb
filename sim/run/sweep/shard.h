/* SPDX-License-Identifier: Apache-2.0
 *
 * Which part of a run's cells a process runs: its shard, typed as "2/4" or
 * found in the environment of a job. Shards are counted from 1, as test runners
 * do. Nothing here reads a trace; sim/run/sweep/cut.h decides which cells a
 * shard has.
 */
#ifndef KV_SIM_SHARD_H
#define KV_SIM_SHARD_H

#include "ref/ground/err.h"
#include <stdbool.h>

enum { KV_SHARDS_MOST = 10000 }; /* shards of a run */

typedef struct kv_shard {
  int index, count; /* 1 <= index <= count; count 0: all cells, no shards */
} kv_shard;

/* Like getenv: the value of a variable, or NULL. */
typedef char *kv_lookup(const char *name);

/* Parses "2/4", the value of --shard. KV_USAGE, *out unchanged: anything else.
 */
kv_rc kv_shard_parse(const char *text, kv_shard *out, kv_err *e);

/* Finds the index of one of `count` shards (--shards) in the variables that
 * schedulers set: a Slurm array, a PBS array, a rank of Open MPI or of another
 * MPI (PMI), an indexed Kubernetes job. KV_USAGE: none is set, one is not a
 * valid index or counts another number of tasks, or two name different shards.
 * A variable that counts a single task is ignored if another exists: srun
 * starts each task of an array as a world of its own. */
kv_rc kv_shard_find(int count, kv_lookup *lookup, kv_shard *out, kv_err *e);

/* The name of a shard's database: each % of the pattern becomes "2-of-4", %% a
 * %. free() it; NULL: no memory. */
char *kv_shard_path(const char *pattern, kv_shard shard);
/* Does the pattern give each shard a different name? */
bool kv_shard_distinct(const char *pattern);

#endif

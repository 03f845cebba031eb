/* SPDX-License-Identifier: Apache-2.0
 *
 * Which part of a run's cells a process has: its shard, typed as "2/4" or
 * found in the environment of a job. Shards are counted from 1, as test runners
 * count theirs. Nothing here reads a trace; which cells a shard has is decided
 * by sim/run/sweep/cut.h.
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

/* Parses "2/4", the value of --shard. KV_USAGE: anything else; *out is then
 * unchanged. */
kv_rc kv_shard_parse(const char *text, kv_shard *out, kv_err *e);

/* Finds the index of one of `count` shards (--shards) in the variables that
 * schedulers set: a Slurm array, a PBS array, a rank of Open MPI or of another
 * MPI (PMI), an indexed Kubernetes job. KV_USAGE: there is none, one is no
 * index of so many tasks or says another number of them, or two name different
 * shards. One that counts a single task says nothing where another one does:
 * srun starts each task of an array as a world of its own. */
kv_rc kv_shard_find(int count, kv_lookup *lookup, kv_shard *out, kv_err *e);

/* The name of a shard's database: each % of the pattern becomes "2-of-4", %% a
 * %. Freed with free(); NULL: not enough memory. */
char *kv_shard_path(const char *pattern, kv_shard shard);
/* True if the pattern gives each shard another name. */
bool kv_shard_distinct(const char *pattern);

#endif

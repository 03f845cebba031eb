/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of `kvreplay run`. The command line is parsed and checked for
 * consistency here, before any trace is opened.
 */
#ifndef KV_SIM_OPTIONS_RUN_H
#define KV_SIM_OPTIONS_RUN_H

#include "sim/commands/options_cells.h"
#include "sim/layout/layout.h"
#include "sim/show/rows.h"
#include "sim/spec/shard.h"

/* --walk: a trace is replayed layer by layer, or step by step; the numbers are
 * the same. */
typedef enum kv_walk { KV_WALK_LAYERS, KV_WALK_STEPS } kv_walk;

/* Zeroed before parsing. */
typedef struct kv_run_options {
  kv_cells_options cells;   /* first: sim/commands/options_cells.h */
  int format, walk;         /* kv_row_format, kv_walk */
  bool people;              /* the format is a table, which has no identities */
  bool wide;                /* every column of the table: makes format
                               KV_ROWS_WIDE */
  const char *backend_text; /* as typed; NULL: ref */
  const kv_backend *backend; /* what it names */
  bool twice;   /* replay again with the reference, and compare digests */
  bool dry_run; /* open every cell, replay nothing */
  bool tokens;  /* keep in the database when each token leaves */
  const char *shard_text; /* as typed, or NULL */
  int shards;             /* whose index the environment has; 0: none */
  kv_shard shard;         /* what either means; count 0: all cells */
  char *db_path;          /* of cells.db, where that names a shard */
  kv_list layout_text;    /* as typed, and what it means */
  kv_layout_list layouts;
  bool together;         /* requests that share a pool: */
  const char *pool_text; /* as typed, */
  int64_t pool;          /* in bytes, */
  int arrive;            /* and steps between two of them */
  const char *selections, *views, *stored, *outputs; /* paths or NULL */
  const char *decisions;                             /* a folder, or NULL */
} kv_run_options;

/* Fills what is not `as typed` from what is, after kv_options_parse, opens no
 * trace. KV_USAGE: options contradict each other, or one is wrong; KV_INPUT: a
 * plugin, or a file of budgets, is bad; KV_RESOURCE: the backend cannot be used
 * here. Free with kv_run_options_free, also after a failure. */
kv_rc kv_run_options_check(kv_registry *registry, kv_run_options *o, kv_err *e);
void kv_run_options_free(kv_run_options *o);
/* True if files were asked for that only a replay can fill (--selections,
 * --views, --stored, --outputs, --decisions), so that no row may be taken from
 * a database. */
bool kv_run_options_files(const kv_run_options *o);

#endif

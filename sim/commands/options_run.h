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

typedef enum kv_walk { KV_WALK_LAYERS, KV_WALK_STEPS } kv_walk;

typedef struct kv_run_options {
  kv_cells_options cells; /* first: sim/commands/options_cells.h */
  int format, walk;       /* kv_row_format, kv_walk */
  bool people;            /* the format is a table, which has no identities */
  const char *backend_text;
  const kv_backend *backend;
  bool wide, twice, dry_run, tokens;
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

/* What was typed, once it is parsed, in the terms of the engine. KV_RESOURCE:
 * the backend cannot be used here. Free with kv_run_options_free, also after a
 * failure. */
kv_rc kv_run_options_check(kv_registry *registry, kv_run_options *o, kv_err *e);
void kv_run_options_free(kv_run_options *o);
/* True if files were asked for that only a replay can fill. */
bool kv_run_options_files(const kv_run_options *o);

#endif

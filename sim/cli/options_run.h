/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of `kvreplay run`. The option table of command_run.c fills in what
 * was typed. The command then calls kv_run_options_check, before any trace is
 * opened, which fills in the rest and reports contradictions.
 */
#ifndef KV_SIM_OPTIONS_RUN_H
#define KV_SIM_OPTIONS_RUN_H

#include "sim/cli/beside_cells.h"
#include "sim/cli/options_cells.h"
#include "sim/cli/show/rows.h"
#include "sim/cli/together_cells.h"
#include "sim/replay/layout/layout.h"
#include "sim/run/sweep/shard.h"

/* --walk: replay a trace layer by layer (one layer in memory), or step by step
 * (all layers at once, nothing kept before the trace's end). The numbers are
 * the same. */
typedef enum kv_walk { KV_WALK_LAYERS, KV_WALK_STEPS } kv_walk;

/* Zeroed before parsing. */
typedef struct kv_run_options {
  kv_cells_options cells; /* first: sim/cli/options_cells.h */
  int format, walk;       /* a kv_row_format, a kv_walk */
  bool people; /* made: the format is a table; identities of traces need not be
                  computed */
  bool wide;   /* every column: a table's format is made KV_ROWS_WIDE */
  const char *backend_text;  /* as typed; NULL: ref */
  const kv_backend *backend; /* made: the backend of that name */
  bool twice;   /* replay again, reference on one thread, and compare digests */
  bool dry_run; /* open every cell, replay nothing */
  bool tokens;  /* keep in the database when each token leaves each lane */
  const char *found_path; /* --found: a file, or NULL */
  const char *shard_text; /* --shard I/N, as typed, or NULL */
  int shards; /* --shards N, its index is in the environment; 0: not given */
  kv_shard shard;         /* made: the meaning of either; count 0: all cells */
  char *db_path;          /* made if the name of cells.db contains a shard;
                             cells.db then points to it */
  kv_list layout_text;    /* --layout, as typed */
  kv_layout_list layouts; /* made: the layouts to account for */
  kv_together_asked together; /* --together and its own */
  kv_list cache_text;         /* --cache, as typed */
  kv_beside_asked beside;     /* --tp, --chunk and, made, --cache */
  const char *selections, *views, *stored, *outputs; /* files, or NULL */
  const char *decisions;                             /* a folder, or NULL */
} kv_run_options;

/* Fills in what is `made`, and o->cells, from what was typed, after
 * kv_options_parse. KV_USAGE: options contradict each other, one is wrong, or a
 * method comes from a file to be written. KV_RESOURCE also if the backend
 * cannot be used here. Otherwise fails as kv_cells_options_read. Free with
 * kv_run_options_free, also after a failure. */
kv_rc kv_run_options_check(kv_registry *registry, kv_run_options *o, kv_err *e);
void kv_run_options_free(kv_run_options *o); /* accepts zeroed */

#endif

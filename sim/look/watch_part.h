/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to watch.c and watch_tensors.c: the files of `kvreplay run
 * --selections, --views, --stored` and `--outputs`, of one cell, filled by one
 * thread through the callbacks of a replay.
 */
#ifndef KV_SIM_WATCH_PART_H
#define KV_SIM_WATCH_PART_H

#include "sim/look/watch.h"
#include "traces/container/newfile.h"
#include <stdio.h>

/* A file of JSON lines that is being written. */
typedef struct text_file {
  FILE *out; /* on a duplicate descriptor of `file`; NULL: not asked for */
  kv_newfile file;
} text_file;

/* What attention reads of one lane after the last step. */
typedef struct lane_copy {
  int n;
  float *k, *v; /* [n][d], [n][d_v] */
} lane_copy;

struct kv_watch_files {
  kv_watch_paths paths; /* NULL: not asked for */
  const kv_cell *cell;
  kv_watch watch;              /* the callbacks that fill what follows */
  text_file selections, views; /* written as the replay goes */
  int lanes, steps;            /* lanes of a layer; decode steps */
  lane_copy *stored;           /* [layers][lanes] */
  float *outputs;              /* [layers][n_heads][steps][d_v] */
  bool no_memory; /* a copy is missing: the files end in KV_RESOURCE */
};

/* Index among the recorded layers of the one with the model's number, which
 * must be recorded. */
int kv_watch_layer(const kv_watch_files *w, int layer);

/* watch_tensors.c. A callback, self the kv_watch_files and layer the model's
 * number: copies what attention reads of the lane after the last step. */
void kv_watch_copy_lane(void *self, int layer, const kv_lane *l);
/* After the replay: write all lanes, or all outputs, as safetensors to
 * paths.stored or paths.outputs, in shards where there is more than KV_ST_SHARD
 * bytes. KV_RESOURCE: memory, or the file cannot be written; then it does not
 * appear, and one of that name stays. */
kv_rc kv_watch_write_stored(const kv_watch_files *w, kv_err *e);
kv_rc kv_watch_write_outputs(const kv_watch_files *w, kv_err *e);

#endif

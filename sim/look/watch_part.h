/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to watch.c and watch_tensors.c.
 */
#ifndef KV_SIM_WATCH_PART_H
#define KV_SIM_WATCH_PART_H

#include "sim/look/watch.h"
#include "traces/container/newfile.h"
#include <stdio.h>

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
  kv_watch_paths paths;
  const kv_cell *cell;
  kv_watch watch;
  text_file selections, views;
  int lanes, steps;
  lane_copy *stored; /* [layers][lanes] */
  float *outputs;    /* [layers][n_heads][steps][d_v] */
  bool no_memory;
};

/* Index of a layer, by the model's number, among the recorded ones. */
int kv_watch_layer(const kv_watch_files *w, int layer);

/* watch_tensors.c. copy_lane copies what attention reads of a lane after the
 * last step; the others write all lanes, or all outputs, as one file. */
void kv_watch_copy_lane(void *self, int layer, const kv_lane *l);
kv_rc kv_watch_write_stored(const kv_watch_files *w, kv_err *e);
kv_rc kv_watch_write_outputs(const kv_watch_files *w, kv_err *e);

#endif

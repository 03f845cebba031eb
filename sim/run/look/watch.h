/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of `kvreplay run` that describe one cell: what each lane keeps
 * (--selections) and each query head attends (--views) as JSON lines, K and V
 * after the last step (--stored) and the attention outputs (--outputs) as
 * safetensors. Open, replay the cell with the watch by one thread, finish,
 * close. Each file appears complete or not at all. Memory: K and V of what is
 * stored, and all outputs, where these are asked for.
 */
#ifndef KV_SIM_WATCH_H
#define KV_SIM_WATCH_H

#include "sim/replay/engine/layer.h"

/* Where to; NULL: that file is not asked for. */
typedef struct kv_watch_paths {
  const char *selections, *views, *stored, *outputs;
} kv_watch_paths;

typedef struct kv_watch_files kv_watch_files;

/* True if any file is asked for. */
static inline bool kv_watch_wanted(const kv_watch_paths *p) {
  return p->selections || p->views || p->stored || p->outputs;
}

/* Opens the files of selections and views, and takes memory for the others; no
 * two paths are one (kv_options_apart). The cell is open and outlives *out; the
 * texts of paths do, too. *watch, for the replay, lives as long as *out.
 * KV_RESOURCE: memory, or a file cannot be made. Close it, also after a
 * failure. */
kv_rc kv_watch_open(const kv_watch_paths *paths, const kv_cell *cell,
                    kv_watch_files **out, const kv_watch **watch, kv_err *e);
/* After the whole replay: writes what is left and gives the files their names.
 * KV_RESOURCE: disk, or memory, also if it ended while watching. */
kv_rc kv_watch_finish(kv_watch_files *w, kv_err *e);
/* Lets go of what is not finished, which leaves no file. Accepts NULL. */
void kv_watch_close(kv_watch_files *w);

#endif

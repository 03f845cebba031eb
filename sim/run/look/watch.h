/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of `kvreplay run` that describe one cell. As JSON lines: what each
 * lane keeps (--selections) and what each query head attends (--views). As
 * safetensors: K and V after the last step (--stored) and the attention outputs
 * (--outputs). Open, replay the cell with the watch by one thread, finish,
 * close. Each file appears whole or not at all. Memory: K and V of what is
 * stored, and all outputs, if these are requested.
 */
#ifndef KV_SIM_WATCH_H
#define KV_SIM_WATCH_H

#include "sim/replay/engine/layer.h"

/* Paths; NULL: that file is not requested. */
typedef struct kv_watch_paths {
  const char *selections, *views, *stored, *outputs;
} kv_watch_paths;

typedef struct kv_watch_files kv_watch_files;

/* Is any file requested? */
static inline bool kv_watch_wanted(const kv_watch_paths *p) {
  return p->selections || p->views || p->stored || p->outputs;
}

/* Opens the files of selections and views, and allocates memory for the others.
 * No two paths may be the same (kv_options_apart). The open cell and the path
 * texts outlive *out. *watch, for the replay, is valid as long as *out.
 * KV_RESOURCE: memory, or a file cannot be made. Always close it. */
kv_rc kv_watch_open(const kv_watch_paths *paths, const kv_cell *cell,
                    kv_watch_files **out, const kv_watch **watch, kv_err *e);
/* After the whole replay: writes the rest and renames the files to their final
 * names. KV_RESOURCE: disk, or memory, also if it ran out while watching. */
kv_rc kv_watch_finish(kv_watch_files *w, kv_err *e);
/* Frees w and removes unfinished files. Accepts NULL. */
void kv_watch_close(kv_watch_files *w);

#endif

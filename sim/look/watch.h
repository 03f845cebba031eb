/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that describe one cell: --selections and --views as JSON lines,
 * --stored and --outputs as safetensors. A kv_watch collects them while one
 * worker replays; finish writes them. Each file appears complete or not at all.
 */
#ifndef KV_SIM_WATCH_H
#define KV_SIM_WATCH_H

#include "sim/engine/layer.h"

typedef struct kv_watch_paths {
  const char *selections, *views, *stored, *outputs; /* or NULL */
} kv_watch_paths;

typedef struct kv_watch_files kv_watch_files;

static inline bool kv_watch_wanted(const kv_watch_paths *p) {
  return p->selections || p->views || p->stored || p->outputs;
}

/* Opens the files; *watch, for the replay, lives as long as *out. */
kv_rc kv_watch_open(const kv_watch_paths *paths, const kv_cell *cell,
                    kv_watch_files **out, const kv_watch **watch, kv_err *e);
/* Writes and renames the files. Also reports the first failure that happened
 * while watching. */
kv_rc kv_watch_finish(kv_watch_files *w, kv_err *e);
void kv_watch_close(kv_watch_files *w); /* accepts NULL */

#endif

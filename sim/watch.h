/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that describe one cell: --selections and --views as JSON lines,
 * --stored and --outputs as safetensors. A kv_watch feeds them while one
 * worker replays; finish makes them appear, whole or not at all.
 */
#ifndef KV_SIM_WATCH_H
#define KV_SIM_WATCH_H

#include "sim/layer.h"

typedef struct kv_watch_paths {
  const char *selections, *views, *stored, *outputs; /* or NULL */
} kv_watch_paths;

typedef struct kv_watch_files kv_watch_files;

static inline bool kv_watch_wanted(const kv_watch_paths *p) {
  return p->selections || p->views || p->stored || p->outputs;
}

/* watch lives as long as out. */
kv_rc kv_watch_open(const kv_watch_paths *paths, const kv_cell *cell,
                    kv_watch_files **out, const kv_watch **watch, kv_err *e);
/* Writes and renames; the first failure while watching is told here. */
kv_rc kv_watch_finish(kv_watch_files *w, kv_err *e);
void kv_watch_close(kv_watch_files *w); /* accepts NULL */

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/engine/layer*.c: a layer in flight.
 */
#ifndef KV_SIM_LAYER_PART_H
#define KV_SIM_LAYER_PART_H

#include "sim/engine/layer.h"

struct kv_layer {
  const kv_backend *backend;
  int cells;
  kv_cell *const *cell;   /* [cells] */
  int active;             /* cells that take part */
  int *at;                /* [active] their indexes */
  kv_store **store;       /* [cells] */
  kv_bytes **before;      /* [cells][lanes] of the block in progress */
  int64_t **materialised; /* [cells][lanes] of it: kv_cost_row.materialised */
  kv_layouts_flight **flight; /* [cells] of memory layouts, or NULL */
  kv_tile *tile;              /* of decode rows, or NULL: row by row */
  const kv_watch *watch;      /* or NULL */
  int index;                  /* among the recorded layers */
  const kv_layer_data *data;
};

/* True if watch w wants callbacks for cell c. */
static inline bool kv_layer_watched(const kv_layer *l, int c,
                                    const kv_watch *w) {
  return !w->of || w->of == l->cell[c];
}

#endif

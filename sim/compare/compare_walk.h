/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/compare/compare.c and compare_walk.c: two stores of one layer
 * that go through the engine's calls side by side.
 */
#ifndef KV_SIM_COMPARE_WALK_H
#define KV_SIM_COMPARE_WALK_H

#include "sim/compare/compare_part.h"
#include "sim/engine/order.h"

typedef struct kv_compare_side {
  const kv_backend *backend;
  kv_plan plan; /* the cell's, with `shown` to receive scores */
  kv_look_shown shown;
  kv_store *store;
  kv_scratch *scratch;
  /* Where layers read what those above publish: that, and what the layer in
   * hand does; else NULL. */
  kv_messages *above, *here;
} kv_compare_side;

typedef struct kv_compare_walk {
  const kv_cell *cell;
  const kv_layer_data *data;
  const kv_plan *plan; /* of that layer: what the stores are opened with */
  kv_compare_side side[2];
  int closings; /* blocks of the prompt, then decode steps */
  int lanes;
  int closing; /* the current one */
  bool above;  /* it is of a layer above the one that is compared */
  bool bytes;  /* only the ledgers differ: compare bytes */
  bool (*stop)(void);
  bool stopped;
  bool decodes, looks; /* the current closing is a decode step; is compared */
  bool row;            /* so is the row of the prompt in hand */
  bool output, found;  /* its output differs; anything differs */
  kv_seen seen[2];
  kv_look look;
} kv_compare_walk;

/* Runs the n-th closing (a block or chunk of the prompt, or a decode step) on
 * both; looks: compares it. True if a difference was found. */
bool kv_compare_advance(kv_compare_walk *w, int n, bool looks);

/* Do the lanes of the two differ now? Then it is described. */
bool kv_compare_lanes(kv_compare_walk *w);

#endif

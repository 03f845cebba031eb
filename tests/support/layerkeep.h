/* SPDX-License-Identifier: Apache-2.0
 *
 * A keeper of a replay (sim/engine/replay.h) that takes each layer of one cell
 * as bytes, and gives them to another cell: what a run that goes on after it
 * was killed does, without a database.
 */
#ifndef KV_TESTS_LAYERKEEP_H
#define KV_TESTS_LAYERKEEP_H

#include "sim/engine/replay.h"

enum { LAYERKEEP_MOST = 8 }; /* layers */

/* Zeroed, it takes; with `give` set afterwards, it gives. */
typedef struct layerkeep {
  kv_cell *const *cell;
  void *part[LAYERKEEP_MOST];
  bool give;
} layerkeep;

/* The keeper as a replay is passed it; `self` outlives the replay. */
kv_replay_keeper layerkeep_of(layerkeep *self);
/* Frees the bytes. */
void layerkeep_free(layerkeep *self);

#endif

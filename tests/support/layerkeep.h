/* SPDX-License-Identifier: Apache-2.0
 *
 * A keeper of a replay (sim/replay/engine/replay.h) that saves each finished
 * layer of one cell as bytes and restores them into another cell: what a run
 * that continues after it was killed does, without a database. Any failure
 * fails the running test.
 */
#ifndef KV_TESTS_LAYERKEEP_H
#define KV_TESTS_LAYERKEEP_H

#include "sim/replay/engine/replay.h"

enum { LAYERKEEP_MOST = 8 }; /* recorded layers, at most */

/* Pass a zeroed one to the first replay; set `give` before the second. */
typedef struct layerkeep {
  kv_cell *const *cell;       /* of the replay that runs */
  void *part[LAYERKEEP_MOST]; /* a layer's bytes, NULL: not finished */
  bool give;                  /* restore instead of save */
} layerkeep;

/* The keeper to pass to a replay; `self` must outlive the replay. */
kv_replay_keeper layerkeep_of(layerkeep *self);
/* Frees the saved bytes. */
void layerkeep_free(layerkeep *self);

#endif

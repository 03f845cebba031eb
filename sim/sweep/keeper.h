/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores the progress of a replay in the results database, layer by layer of
 * each cell, until the cell's row is there. Repeating the command replays only
 * the rest.
 *
 * If the process is killed, what is lost is the work in flight (at most a group
 * of cells on one layer, which the replay keeps below KV_KEEP_MOST seconds if
 * it can (sim/engine/groups.h), and reports if it cannot) and what ended in the
 * last `every` seconds. Nothing is written before the replay is that old.
 *
 * A stored part is used only by the very program that wrote it: the build is
 * identified by the SHA-256 of its executable. If the database cannot take a
 * part, only the part is lost, never the run: that is reported once and tried
 * again later.
 *
 * Disk space: sim/engine/partial.h for each cell and layer, freed when the rows
 * are put.
 */
#ifndef KV_SIM_KEEPER_H
#define KV_SIM_KEEPER_H

#include "sim/db/db.h"
#include "sim/engine/replay.h"

enum { KV_KEEP_MOST = 90, KV_KEEP_EVERY = 5 }; /* seconds */

typedef struct kv_keeper {
  kv_replay_keeper hooks; /* pass as kv_replay_how.keep */
  kv_db *db;
  double every; /* seconds between two transactions */
  void *self; /* first argument of note, which shows a remark to the user, from
                 any thread */
  void (*note)(void *self, const char *text);
  /* Set when the replay begins. */
  kv_cell *const *cell;
  kv_db_whose *whose; /* [cells] */
  int cells, layers;
  bool *pending; /* [cells][layers] ended and not written */
  void *part;    /* scratch for one part */
  double wrote;  /* time of the last write, or of the replay's begin */
  char build[128];
  int dropped;
  bool said_full, said_slow;
} kv_keeper;

/* Other threads may use db inside a section critical(kv_database), as the
 * keeper does. */
void kv_keeper_open(kv_db *db, double every,
                    void (*note)(void *self, const char *text), void *self,
                    kv_keeper *out);
void kv_keeper_close(kv_keeper *k); /* accepts zeroed */

#endif

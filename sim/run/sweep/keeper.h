/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores the progress of a replay in the results database, layer by layer of
 * each cell, until the database has the cell's row. Repeating the command
 * replays only the rest. Open a keeper, pass &k.hooks as kv_replay_how.keep,
 * put the rows, close it; a keeper serves one replay.
 *
 * If the process is killed, two things are lost. First, the work in flight: at
 * most a group of cells on one layer, which the replay keeps below KV_KEEP_MOST
 * seconds if it can (sim/replay/engine/groups.h), and reports if it cannot.
 * Second, layers that ended within `every` seconds of the last transaction,
 * which the next layer to end writes. Nothing is written before the replay is
 * that old.
 *
 * Only the very program that wrote a stored part uses it: a build is identified
 * by its version, commit and the SHA-256 of its executable. If the database
 * cannot store parts, the run continues: this is reported once, and storing is
 * tried again when the next layer ends.
 *
 * Disk space: sim/replay/engine/cell.h for each cell and layer, freed when the
 * rows are put.
 */
#ifndef KV_SIM_KEEPER_H
#define KV_SIM_KEEPER_H

#include "sim/replay/engine/replay.h"
#include "sim/store/db.h"

enum {
  KV_KEEP_MOST = 90, /* seconds of work that may be lost (hooks.most) */
  KV_KEEP_EVERY = 5  /* seconds between two transactions, usually (every) */
};

typedef struct kv_keeper {
  kv_replay_keeper hooks; /* pass as kv_replay_how.keep */
  kv_db *db;              /* the caller's */
  double every;           /* seconds between two transactions */
  void *self; /* first argument of note, which tells the user, from any
                 thread */
  void (*note)(void *self, const char *text);
  /* The keeper's own, after the replay begins: */
  kv_cell *const *cell; /* [cells] those of the replay */
  kv_db_whose *whose;   /* [cells] the keys of their parts */
  int cells, layers;
  bool *pending;             /* [cells][layers] ended and not written */
  void *part;                /* scratch for one part */
  double wrote;              /* omp_get_wtime of the last write, or of begin */
  char build[128];           /* identifies this program; "": unknown */
  int dropped;               /* parts that could not be used */
  bool said_full, said_slow; /* note was shown */
} kv_keeper;

/* Opens a keeper. It must not move afterwards: hooks points to it. Cannot fail.
 * Other threads must use db in a critical(kv_database), as the keeper does. */
void kv_keeper_open(kv_db *db, double every,
                    void (*note)(void *self, const char *text), void *self,
                    kv_keeper *out);
void kv_keeper_close(kv_keeper *k); /* accepts zeroed */

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Replays of a case for the laws: plain ones, whose digests are compared, and
 * one that follows every lane with an interpreter of the journal and checks it
 * after each compression and at each attended row. Installed because tests of
 * methods outside this tree use it.
 */
#ifndef KV_SIM_LAW_WALK_H
#define KV_SIM_LAW_WALK_H

#include "ref/lane/records.h"
#include "sim/replay/engine/replay.h"
#include "sim/run/laws/law.h"
#include "traces/trace/trace.h"

/* How to replay. */
typedef struct kv_law_how {
  const kv_kernels *kernels; /* NULL: the best set of this processor */
  int threads;               /* 1 or more */
  bool by_steps;             /* walk step by step, not layer by layer */
  bool fidelity;             /* also compute measures */
  const kv_watch *watch;     /* callbacks of the replay, or NULL */
} kv_law_how;

/* Opens the cell of the case and replays it. *out, zeroed before, gets its
 * result with digests; always close it with kv_cell_close. KV_REFUSED: the cell
 * is refused or fails, with its reason. KV_RESOURCE: memory. */
kv_rc kv_law_replay(const kv_law_case *c, const kv_law_how *how, kv_cell *out,
                    kv_err *e);

/* The checks of one law; either may be NULL. lane: after a compression and at
 * the end of the layer, with the lane and the interpreter s of its journal.
 * row: an attended row of the lane's query heads. step: tokens seen.
 * KV_DIFFERENT: broken. */
typedef struct kv_law_look {
  kv_rc (*lane)(const kv_replica *s, const kv_lane *l, kv_err *e);
  kv_rc (*row)(const kv_seen *seen, int step, kv_err *e);
} kv_law_look;

typedef struct kv_law_run { /* digests of a replay */
  kv_digest output, state, journal;
} kv_law_run;

/* Replays the case on one thread, follows every lane with an interpreter of the
 * journal, and runs the checks look[0..n), n >= 1. *out: the digests of the
 * replay. KV_DIFFERENT: look[*broken] is the first broken one; 0 also if a
 * record cannot be interpreted. Other codes as for kv_law_replay. */
kv_rc kv_law_walk(const kv_law_case *c, int n, const kv_law_look *look,
                  int *broken, kv_law_run *out, kv_err *e);

/* The digests of a cell that was replayed. */
kv_law_run kv_law_run_of(const kv_cell *cell);

/* For a check: returns KV_DIFFERENT with a sentence that begins with the lane's
 * position, "layer 0, lane 1, step 70: ", and continues as printf writes it. */
kv_rc kv_law_broken(const kv_lane *l, kv_err *e, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif

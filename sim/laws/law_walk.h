/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the laws: replays of a case, watched or compared.
 */
#ifndef KV_SIM_LAW_WALK_H
#define KV_SIM_LAW_WALK_H

#include "ref/lane/records.h"
#include "sim/engine/replay.h"
#include "sim/laws/law.h"

/* How to replay; kernels NULL: the best set. */
typedef struct kv_law_how {
  const kv_kernels *kernels;
  int threads;
  bool by_steps, fidelity;
  const kv_watch *watch;
} kv_law_how;

/* Replays the case; out has its digests and must be closed by the caller, also
 * after a failure. KV_REFUSED: the cell is refused or fails. */
kv_rc kv_law_replay(const kv_law_case *c, const kv_law_how *how, kv_cell *out,
                    kv_err *e);

/* The checks of a law: of a lane after a compression, and of an attended row;
 * either may be NULL. KV_DIFFERENT: broken. */
typedef struct kv_law_look {
  kv_rc (*lane)(const kv_replica *s, const kv_lane *l, kv_err *e);
  kv_rc (*row)(const kv_seen *seen, int step, kv_err *e);
} kv_law_look;

typedef struct kv_law_run { /* digests of a replay */
  kv_digest output, state, journal;
} kv_law_run;

/* Replays the case with an interpreter of the journal beside every lane, and
 * runs the checks of n laws. KV_DIFFERENT: law *broken is broken; 0 if the
 * interpreter itself found a fault. */
kv_rc kv_law_walk(const kv_law_case *c, int n, const kv_law_look *look,
                  int *broken, kv_law_run *out, kv_err *e);

kv_law_run kv_law_run_of(const kv_cell *cell);

/* Returns KV_DIFFERENT; the sentence begins with where the lane is. */
kv_rc kv_law_broken(const kv_lane *l, kv_err *e, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif

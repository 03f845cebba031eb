/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the laws: replays of a case, watched or compared.
 */
#ifndef KV_SIM_LAW_WALK_H
#define KV_SIM_LAW_WALK_H

#include "sim/law.h"
#include "sim/law_shadow.h"
#include "sim/replay.h"

/* How to replay; kernels NULL: the best. */
typedef struct kv_law_how {
  const kv_kernels *kernels;
  int threads;
  bool by_steps, fidelity;
  const kv_watch *watch;
} kv_law_how;

/* Replays the case; out, to be closed by the caller whatever is returned,
 * has its digests. KV_REFUSED where the cell is refused or fails. */
kv_rc kv_law_replay(const kv_law_case *c, const kv_law_how *how, kv_cell *out,
                    kv_err *e);

/* What a law says of a lane after a settling, and of an attended row; either
 * may be NULL. */
typedef kv_rc kv_law_lane(const kv_shadow *s, const kv_lane *l, kv_err *e);
typedef kv_rc kv_law_row(const kv_seen *seen, int step, kv_err *e);

/* Replays the case with an interpreter of the journal beside every lane, and
 * asks. What the interpreter itself finds wrong is KV_DIFFERENT too. */
kv_rc kv_law_walk(const kv_law_case *c, kv_law_lane *lane, kv_law_row *row,
                  kv_err *e);

/* KV_DIFFERENT, the sentence preceded by where the lane is. */
kv_rc kv_law_broken(const kv_lane *l, kv_err *e, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif

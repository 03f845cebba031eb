/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the laws: the checks behind the table of sim/laws/law.c, which
 * says in a sentence what each asks.
 */
#ifndef KV_SIM_LAW_LANE_H
#define KV_SIM_LAW_LANE_H

#include "sim/laws/law_walk.h"

/* law_lane.c: laws of lanes and views at every step, for kv_law_walk, which
 * checks all that are asked for in one replay. */
extern const kv_law_look kv_law_tokens, kv_law_views, kv_law_weights,
    kv_law_journal, kv_law_bytes;

/* law.c: laws of whole runs, which make replays of their own. first: the
 * digests of the case on one thread with the best kernels, or NULL if nobody
 * has replayed it so. KV_OK: it holds; KV_DIFFERENT: it is broken, e says how;
 * KV_REFUSED: it cannot be checked on this case; other codes: the check
 * failed. */
typedef kv_rc kv_law_check(const kv_law_case *c, const kv_law_run *first,
                           kv_err *e);
kv_law_check kv_law_full, kv_law_repeat, kv_law_observation;
/* The same. */
kv_law_check kv_law_lengths;

#endif

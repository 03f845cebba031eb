/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the laws: the checks behind the table of sim/laws/law.c.
 */
#ifndef KV_SIM_LAW_LANE_H
#define KV_SIM_LAW_LANE_H

#include "sim/laws/law_walk.h"

/* sim/laws/law_lane.c: laws of lanes and views at every step. */
extern const kv_law_look kv_law_tokens, kv_law_views, kv_law_weights,
    kv_law_journal, kv_law_bytes;

/* sim/laws/law_run.c: laws of whole runs. `first`: the run with one thread and
 * the best kernels, or NULL if it was not made. */
typedef kv_rc kv_law_check(const kv_law_case *c, const kv_law_run *first,
                           kv_err *e);
kv_law_check kv_law_full, kv_law_repeat, kv_law_observation;
/* sim/laws/law_lengths.c */
kv_law_check kv_law_lengths;

#endif

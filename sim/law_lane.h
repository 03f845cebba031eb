/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the laws: the checks behind the table of sim/law.c.
 */
#ifndef KV_SIM_LAW_LANE_H
#define KV_SIM_LAW_LANE_H

#include "sim/law_walk.h"

/* sim/law_lane.c: what every lane and view must be at every step. */
kv_rc kv_law_tokens(const kv_law_case *c, kv_err *e);
kv_rc kv_law_views(const kv_law_case *c, kv_err *e);
kv_rc kv_law_weights(const kv_law_case *c, kv_err *e);
kv_rc kv_law_journal(const kv_law_case *c, kv_err *e);
kv_rc kv_law_bytes(const kv_law_case *c, kv_err *e);

/* sim/law_run.c: what whole runs must be. */
kv_rc kv_law_full(const kv_law_case *c, kv_err *e);
kv_rc kv_law_repeat(const kv_law_case *c, kv_err *e);
kv_rc kv_law_evidence(const kv_law_case *c, kv_err *e);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/run/laws/lawcheck.c: the laws that only matter for other
 * people's code (hooks, modes, needs, budget; see sim/run/laws/lawcheck.h).
 * They are checked in a child process whose method is wrapped by the fences
 * (kv_fence_around), which end the process if a hook breaks one.
 */
#ifndef KV_SIM_LAW_GUEST_H
#define KV_SIM_LAW_GUEST_H

#include "sim/run/laws/law.h"

/* Law number `index` of these, NULL past the end. `hooks` is the first. */
const kv_law *kv_law_guest_at(int index);
/* Checks that law, which must exist, by replays of the case on one thread, or
 * by opening its cell. Codes as for kv_law_ask. */
kv_rc kv_law_guest_ask(int index, const kv_law_case *c, kv_err *e);

#endif

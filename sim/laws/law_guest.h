/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/laws/lawcheck.c: the laws that are checked on plugins only
 * (sim/laws/lawcheck.h lists them). The method must be wrapped by fences.
 */
#ifndef KV_SIM_LAW_GUEST_H
#define KV_SIM_LAW_GUEST_H

#include "sim/laws/law.h"

/* The index-th, NULL past the end. */
const kv_law *kv_law_guest_at(int index);
/* Checks the index-th; codes as of kv_law_ask. */
kv_rc kv_law_guest_ask(int index, const kv_law_case *c, kv_err *e);

#endif

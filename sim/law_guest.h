/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/lawcheck.c: the laws that are asked of methods from outside
 * only (sim/lawcheck.h says them). The method is between fences.
 */
#ifndef KV_SIM_LAW_GUEST_H
#define KV_SIM_LAW_GUEST_H

#include "sim/law.h"

/* The index-th, NULL past the end. */
const kv_law *kv_law_guest_at(int index);
/* Asks it; codes as of kv_law_ask. */
kv_rc kv_law_guest_ask(int index, const kv_law_case *c, kv_err *e);

#endif

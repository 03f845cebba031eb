/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to decisions.c and decisions_fit.c.
 */
#ifndef KV_TRACES_DECISIONS_PART_H
#define KV_TRACES_DECISIONS_PART_H

#include "traces/decisions.h"

/* Follows every lane through all steps: KV_REFUSED with the first step at
 * which nothing is decided or, where `lists`, the first list that cannot be.
 * Sets decisions.decodes. */
kv_rc kv_decisions_fit(kv_decisions_file *f, const kv_shape *shape,
                       int prompt_len, bool lists, kv_err *e);

#endif

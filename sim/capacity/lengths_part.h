/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/capacity/lengths*.c: one replay of lengths, with the knob of
 * the method at a value.
 */
#ifndef KV_SIM_CAPACITY_LENGTHS_PART_H
#define KV_SIM_CAPACITY_LENGTHS_PART_H

#include "sim/capacity/lengths.h"

/* kv_lengths_replay, but with the knob at `value` (kv_knob_value); -1: where
 * the budget, which is then not one of bytes, sets it. bytes and dense (both or
 * neither NULL) receive what it takes in the budget's basis, one of bytes. out
 * NULL: asks only whether it is refused, without a replay. */
kv_rc kv_lengths_try(const kv_lengths *ask, int value, kv_stored *out,
                     int64_t *bytes, int64_t *dense, kv_err *e);

#endif

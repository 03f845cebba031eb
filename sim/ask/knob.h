/* SPDX-License-Identifier: Apache-2.0
 *
 * A method's knob is the parameter that -b sets (ref/lane/param.h); p below is
 * its row, as kv_spec_knob returns it. A search sees its values as places 1, 2,
 * .., ordered by the bytes that they take, least first; each place has one
 * value of the knob's grid. For a knob that counts entries the place is the
 * number of entries, if the range begins at 1. Nothing here fails; kv_param_put
 * writes a value into the parameters.
 */
#ifndef KV_SIM_KNOB_H
#define KV_SIM_KNOB_H

#include "sim/ask/budget.h"
#include "sim/ask/spec.h"

/* True if the budget (NULL: none was given) sets the knob of this
 * specification. A knob that counts entries is set by any budget, another knob
 * only by a budget in bytes; neither is if its value was typed. */
bool kv_knob_takes(const kv_spec *s, const kv_budget *b);

/* Number of places, at least 1; numbers of entries above n_tokens, the trace's,
 * are left out. */
int kv_knob_places(const kv_param *p, int n_tokens);
/* The value of a place, 1 .. kv_knob_places, as the parameters store it: an
 * int, a share, or the bits of a float; 0 or more. */
int32_t kv_knob_value(const kv_param *p, int n_tokens, int place);
/* Writes such a value for people: "budget 12", "p=0.25". */
void kv_knob_text(const kv_param *p, int32_t value, char out[KV_TEXT_MAX]);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What later decode rows will attend to, for methods with kv_needs.future: for
 * each token of the trace, in a lane, the sum over the following decode rows
 * and the lane's query heads of RN(P * 2^40). P is the exact attention over the
 * whole cache (arithmetic 4): all tokens that the row sees, and the learned
 * sink. The sums are integers, so the order of rows and heads does not matter.
 * Every backend gets them from here, as data: ref passes them to hooks, devices
 * get a copy.
 *
 * A row with a logit that is not finite has no probabilities and adds nothing
 * for that head. Rows of later prompts (kv_plan.asked) are not decode rows.
 *
 * There is one object a store: open, begin for each layer, then reach for each
 * lane before each compression; different lanes may be reached at the same
 * time. The first reach of a layer computes every row's logits, at the cost of
 * the keys of a dense replay. Each later one computes those of the rows that
 * have passed since, and subtracts them. Memory: 16 bytes a token and lane, and
 * rows of logits.
 */
#ifndef KV_REF_FUTURE_H
#define KV_REF_FUTURE_H

#include "ref/backend/backend.h"

typedef struct kv_future kv_future;

/* Opens it for the lanes of a store of that plan and sets their `future`, zeros
 * until reached. *out is NULL if no method needs it. KV_RESOURCE: memory. */
kv_rc kv_future_open(const kv_plan *plan, int lanes, kv_lane *lane,
                     kv_future **out, kv_err *e);
void kv_future_close(kv_future *f); /* accepts NULL */
/* A layer begins: nothing is computed. f may be NULL. */
void kv_future_begin(kv_future *f);
/* Updates lane->future to the rows of tokens lane->step and later. Returns
 * whether it changed. f NULL: does nothing. */
bool kv_future_reach(kv_future *f, const kv_lane *lane);

#endif

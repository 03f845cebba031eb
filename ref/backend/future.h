/* SPDX-License-Identifier: Apache-2.0
 *
 * What decode rows still to come will attend to, for methods that ask for it
 * (kv_needs.future): of a lane, for each token of the trace, the sum over the
 * decode rows that follow and over the lane's query heads of RN(P * 2^40), P
 * being the exact attention over the whole cache (arithmetic 4): all tokens
 * that the row sees, and the learned sink. Integers, so the order of rows and
 * heads is of no matter. Every backend takes it from here, as data: ref hands
 * it to hooks as it is, devices get a copy.
 *
 * A row whose logits are not all finite has no probabilities and adds nothing
 * by the head that it fails. Questions that enter as later prompts
 * (kv_plan.asked) are no decode rows.
 *
 * One object a store: open, begin for each layer, then reach for each lane
 * before each compression; different lanes may be reached at the same time. The
 * first reach of a layer computes every row's logits, which takes what the keys
 * of a dense replay take; each later one computes those of the rows that have
 * gone by, to take them away. Memory: 16 bytes a token and lane, and rows of
 * logits.
 */
#ifndef KV_REF_FUTURE_H
#define KV_REF_FUTURE_H

#include "ref/backend/backend.h"

typedef struct kv_future kv_future;

/* For the lanes of a store of that plan, whose `future` it sets; zeros until
 * they are reached. *out is NULL where no method asks for it. KV_RESOURCE:
 * memory. */
kv_rc kv_future_open(const kv_plan *plan, int lanes, kv_lane *lane,
                     kv_future **out, kv_err *e);
void kv_future_close(kv_future *f); /* accepts NULL */
/* A layer begins: nothing is known of it. f may be NULL. */
void kv_future_begin(kv_future *f);
/* lane->future becomes what the rows of tokens lane->step and later give. True:
 * it has changed. f NULL: does nothing. */
bool kv_future_reach(kv_future *f, const kv_lane *lane);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of every token (`kvreplay run --tokens`): for each layer and
 * lane of a cell the step after which it was stored no more, and at how many
 * decode steps some query head was shown it. A member of a merged entry is
 * stored, and shown, as long as that entry is.
 *
 * Watches a replay that must be whole: no layer was kept from an earlier one.
 * Any number of threads may feed it, each its own lanes. Cost: 12 bytes a
 * token, layer and lane of each cell, and a walk over the lane at each
 * compression that changed something.
 */
#ifndef KV_SIM_SURVIVE_H
#define KV_SIM_SURVIVE_H

#include "sim/sweep/batch.h"

typedef struct kv_survive kv_survive;

/* Of those cells of the batch for which wants says so and that run; wants NULL:
 * of all that run. Close also after a failure. */
kv_rc kv_survive_open(const kv_batch *b, const bool *wants, kv_survive **out,
                      kv_err *e);
/* To watch a replay with, before `next`, which may be NULL. s NULL: next. */
const kv_watch *kv_survive_watch(kv_survive *s, const kv_watch *next);
/* After the replay: puts what was seen into the rows of the cells. */
void kv_survive_take(kv_survive *s);
void kv_survive_close(kv_survive *s); /* accepts NULL */

#endif

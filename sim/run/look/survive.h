/* SPDX-License-Identifier: Apache-2.0
 *
 * The fate of every token (`kvreplay run --tokens`): for each layer and lane of
 * a cell, the step after which it was no longer stored, and at how many decode
 * steps some query head saw it. A member of a merged entry is stored, and seen,
 * as long as that entry is.
 *
 * Watches a replay that must be whole: no layer may come from an earlier one.
 * Any number of threads may feed it, each its own lanes. Cost: 12 bytes a
 * token, layer and lane of each cell, and a walk over the lane at each
 * compression that changed something.
 */
#ifndef KV_SIM_SURVIVE_H
#define KV_SIM_SURVIVE_H

#include "sim/run/sweep/batch.h"

typedef struct kv_survive kv_survive;

/* Opens the watch for those cells of the open batch b that run and have
 * wants[cell]; wants NULL: all that run. b outlives it. KV_RESOURCE: memory.
 * Close it, also after a failure. */
kv_rc kv_survive_open(const kv_batch *b, const bool *wants, kv_survive **out,
                      kv_err *e);
/* The watch for the replay, which calls `next` (may be NULL) after its own;
 * valid as long as s. s NULL: next. */
const kv_watch *kv_survive_watch(kv_survive *s, const kv_watch *next);
/* After the whole replay: moves what was seen into the results of the cells
 * that ran (kv_result.survival), which then own it. */
void kv_survive_take(kv_survive *s);
void kv_survive_close(kv_survive *s); /* accepts NULL */

#endif

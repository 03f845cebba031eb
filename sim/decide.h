/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes down what a cell decides, as a decisions file (traces/decisions.h):
 * what its lanes hold after each settling that changed them, and what its
 * query heads attended at each step that did not see all. Stands by while a
 * replay goes on with any number of threads. Memory: two words a run of
 * consecutive tokens and list.
 */
#ifndef KV_SIM_DECIDE_H
#define KV_SIM_DECIDE_H

#include "sim/layer.h"

typedef struct kv_decide kv_decide;

/* Can decisions say what this method does? KV_REFUSED where it merges or
 * codes entries. */
kv_rc kv_decide_can(const kv_cell *c, kv_err *e);

/* For one cell, which outlives it. */
kv_rc kv_decide_open(const kv_cell *c, kv_decide **out, kv_err *e);
void kv_decide_close(kv_decide *d); /* accepts NULL */

/* To be chained and handed to the replay; lives as long as d. */
kv_watch *kv_decide_watch(kv_decide *d);

/* After the replay, once. KV_RESOURCE where memory ran out on the way or the
 * file cannot be written; it is there whole or not at all. */
kv_rc kv_decide_write(kv_decide *d, const char *path, const char *name,
                      kv_err *e);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Records the decisions of a cell as a decisions file (ref/lane/decisions.h):
 * what the lanes of a layer hold after each compression that changed one of
 * them, and what its query heads attended at each step where one did not attend
 * everything. Order of calls: kv_decide_can, open, replay the cell with the
 * watch, write, close. The watch is concurrent: the replay may use any number
 * of threads. Memory: two words for each list and run of consecutive tokens;
 * while writing 4 bytes for each token of each list.
 */
#ifndef KV_SIM_DECIDE_H
#define KV_SIM_DECIDE_H

#include "sim/replay/engine/layer.h"

typedef struct kv_decide kv_decide;

/* KV_OK if a decisions file can describe the method of the open cell c.
 * KV_REFUSED if it merges or codes entries. */
kv_rc kv_decide_can(const kv_cell *c, kv_err *e);

/* Opens a recorder for the open cell c before its replay; c outlives it.
 * KV_RESOURCE: memory. */
kv_rc kv_decide_open(const kv_cell *c, kv_decide **out, kv_err *e);
void kv_decide_close(kv_decide *d); /* accepts NULL */

/* The watch for the replay, alone or in a chain (the caller sets its `next`);
 * valid as long as d. */
kv_watch *kv_decide_watch(kv_decide *d);

/* Writes the decisions file at path, whole or not at all. name: for rows that
 * follow it. Call it after the replay. KV_REFUSED: the method changed memory
 * before it attended, which no file can express. KV_RESOURCE: memory ran out
 * while recording, or the file cannot be written. */
kv_rc kv_decide_write(kv_decide *d, const char *path, const char *name,
                      kv_err *e);

#endif

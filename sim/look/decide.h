/* SPDX-License-Identifier: Apache-2.0
 *
 * Records the decisions of a cell as a decisions file (ref/lane/decisions.h):
 * what its lanes hold after each compression that changed them, and what its
 * query heads attended at each step where they did not attend everything. Its
 * watch is concurrent: the replay may use any number of threads. Memory: two
 * words for each list and run of consecutive tokens.
 */
#ifndef KV_SIM_DECIDE_H
#define KV_SIM_DECIDE_H

#include "sim/engine/layer.h"

typedef struct kv_decide kv_decide;

/* KV_OK if a decisions file can describe the cell's method. KV_REFUSED if the
 * method merges or codes entries. */
kv_rc kv_decide_can(const kv_cell *c, kv_err *e);

/* Opens a recorder for one cell, before it is replayed, which must outlive it.
 * KV_RESOURCE: memory. */
kv_rc kv_decide_open(const kv_cell *c, kv_decide **out, kv_err *e);
void kv_decide_close(kv_decide *d); /* accepts NULL */

/* The watch to pass to the replay, alone or in a chain; lives as long as d. */
kv_watch *kv_decide_watch(kv_decide *d);

/* Writes the decisions file at path; name: what rows that follow it are called.
 * Call once, after the replay. KV_RESOURCE: memory ran out
 * while recording, or the file cannot be written; it is never left incomplete.
 */
kv_rc kv_decide_write(kv_decide *d, const char *path, const char *name,
                      kv_err *e);

#endif

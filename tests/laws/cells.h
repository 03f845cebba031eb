/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells of methods that are in no registry (tests/made/made_up.h), opened
 * and replayed on a small trace. What cannot be fails the test.
 */
#ifndef KV_TESTS_CELLS_H
#define KV_TESTS_CELLS_H

#include "sim/engine/replay.h"

/* On the reference, by one thread, nothing but digests and cost. */
extern const kv_replay_how cells_plain;

/* The cell of a specification without a budget; it may be refused. */
void cells_open(const kv_trace *t, const char *text, kv_cell *cell);
/* Replays cells that run; `how` needs no kernels. */
void cells_replay(const kv_trace *t, int n, kv_cell *const *cell,
                  kv_replay_how how);
/* Both, of one cell that runs. */
void cells_run(const kv_trace *t, const char *text, kv_replay_how how,
               kv_cell *cell);

#endif

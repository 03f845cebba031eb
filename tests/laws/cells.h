/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells opened and replayed on a small trace; of a list of methods that the
 * test names, else of those that are in no registry, too
 * (tests/made/made_up.h). What cannot be fails the test.
 */
#ifndef KV_TESTS_CELLS_H
#define KV_TESTS_CELLS_H

#include "sim/engine/replay.h"

/* On the reference, by one thread, nothing but digests and cost. */
extern const kv_replay_how cells_plain;

/* The cell of a specification at a budget of so many entries, -1: none, whose
 * prompt has so many tokens, 0: the trace's; it may be refused. */
void cells_ask(kv_registry *list, const kv_trace *t, int prompt,
               const char *text, int entries, kv_cell *cell);
/* The same of one that runs. */
void cells_must(kv_registry *list, const kv_trace *t, int prompt,
                const char *text, int entries, kv_cell *cell);
/* Of made_up_at, without a budget; it may be refused. */
void cells_open(const kv_trace *t, const char *text, kv_cell *cell);
/* Replays cells that run; `how` needs no kernels. */
void cells_replay(const kv_trace *t, int n, kv_cell *const *cell,
                  kv_replay_how how);
/* Both, of one cell that runs. */
void cells_run(const kv_trace *t, const char *text, kv_replay_how how,
               kv_cell *cell);

#endif

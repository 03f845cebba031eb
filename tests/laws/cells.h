/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens and replays cells, for tests. `list` is the list of methods; functions
 * without it use made_up_at (tests/made/made_up.h). Close opened cells with
 * kv_cell_close. A failure fails the running test.
 */
#ifndef KV_TESTS_CELLS_H
#define KV_TESTS_CELLS_H

#include "sim/replay/engine/replay.h"

/* How to replay: on the reference, by one thread, digests and cost only. */
extern const kv_replay_how cells_plain;

/* Opens the cell of specification `text` on t. prompt: prompt length in tokens,
 * 0: the trace's. entries: budget, -1: none. It may be refused: then cell->runs
 * is false. */
void cells_ask(kv_registry *list, const kv_trace *t, int prompt,
               const char *text, int entries, kv_cell *cell);
/* The same; a cell that is refused fails the test. */
void cells_must(kv_registry *list, const kv_trace *t, int prompt,
                const char *text, int entries, kv_cell *cell);
/* cells_ask with made_up_at, the trace's prompt and no budget. */
void cells_open(const kv_trace *t, const char *text, kv_cell *cell);
/* Replays cell[n], which run, in one pass; how.kernels is set here. */
void cells_replay(const kv_trace *t, int n, kv_cell *const *cell,
                  kv_replay_how how);
/* Opens as cells_ask, with these memory layouts, and replays it on the
 * reference; asked must outlive the cell. False: it is refused. */
bool cells_lay_out(kv_registry *list, const kv_trace *t, const char *text,
                   int entries, const kv_layout_list *asked, kv_replay_how how,
                   kv_cell *cell);
/* Fails the test unless two layouts, or all of two cells, have the same
 * numbers, their steps' too; names may differ. */
void cells_same_layout(const kv_layout_result *a, const kv_layout_result *b);
void cells_same_layouts(const kv_cell *a, const kv_cell *b);
/* Opens and replays one cell, which must run. */
void cells_run(const kv_trace *t, const char *text, kv_replay_how how,
               kv_cell *cell);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells beside those of a replay: the same methods and budgets once more under
 * other circumstances, on the ranks of tensor parallelism or with a prompt in
 * pieces, with what they decide (sim/cli/sheet/decided.h) held against it.
 *
 * Tensor parallelism: KV heads, with their query heads, are dealt to N ranks in
 * order, and each rank decides by itself about the heads that it has. So a rank
 * is a replay of a trace that has its heads alone, of the same file in memory:
 * nothing is copied. Where a method's decision in one lane depends on other
 * lanes of the layer, a rank decides otherwise than the whole model would, or
 * the ranks must tell each other what the decision depends on.
 *
 * What a method reads by the number of a head, a rank's own counts from 0: the
 * draws of `random` differ on every rank but the first though no head looks at
 * another. A method with a file of all heads is not asked.
 *
 * Cost: a replay of the trace for all ranks together, on how->backend.
 *
 * Chunked prefill: a server gives a long prompt to the model in pieces of N
 * tokens. A method that compresses when the last one has entered decides as
 * ever: it is shown the same rows against the same entries, as a session is
 * whose prompt comes in pieces (sim/run/session). But the whole prompt is held
 * until then. Here it compresses after each piece, as if the prompt ended
 * there, shown the last rows against what it had kept: those read so far
 * (ref/ground/chunk.h), or without needs.chunks those of the piece; and what it
 * then has is held against what it decides after a whole prompt. Recorded
 * attention stays what it was: the prompt's queries saw everything.
 *
 * Cost: a replay of the trace, on how->backend.
 */
#ifndef KV_SIM_BESIDE_H
#define KV_SIM_BESIDE_H

#include "sim/cli/sheet/decided.h"
#include "sim/replay/engine/replay.h"

/* KV_USAGE with a sentence where the trace's KV heads cannot be dealt to so
 * many ranks: there must be as many for each, and two ranks at least. */
kv_rc kv_ranks_can(const kv_trace *t, int ranks, kv_err *e);

/* After kv_replay of cell[n] with the watches of whole[n] (both of trace t):
 * replays the first `most` of `ranks` ranks and fills out[n]
 * (sim/replay/measure/ result.h), which says why of a cell that did not run, or
 * whose whole[i] is NULL. *stopped: how->stop said so, and out means nothing.
 * Asserts kv_ranks_can. KV_INPUT, KV_RESOURCE: as kv_replay. */
kv_rc kv_ranks_ask(const kv_trace *t, int ranks, int most, int n,
                   kv_cell *const *cell, kv_decided *const *whole,
                   const kv_replay_how *how, kv_ranks_result *out,
                   bool *stopped, kv_err *e);

/* After kv_replay of cell[n] with the watches of whole[n] (both of trace t):
 * replays them with prompts in pieces of `chunk` tokens, >= 1, and fills out[n]
 * (sim/replay/measure/result.h), which says why of a cell that did not run,
 * whose whole[i] is NULL, or that cannot run so. *stopped: how->stop said so,
 * and out means nothing. KV_INPUT, KV_RESOURCE: as kv_replay. */
kv_rc kv_chunks_ask(const kv_trace *t, int chunk, int n, kv_cell *const *cell,
                    kv_decided *const *whole, const kv_replay_how *how,
                    kv_chunks_result *out, bool *stopped, kv_err *e);

#endif

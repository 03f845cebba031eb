/* SPDX-License-Identifier: Apache-2.0
 *
 * The same methods and budgets replayed again under other conditions: on the
 * ranks of tensor parallelism, or with a prompt in pieces. Compares the
 * decisions (sim/cli/sheet/decided.h) with those of the first replay.
 *
 * Tensor parallelism: KV heads, with their query heads, are divided among N
 * ranks in order, and each rank decides alone about its heads. So a rank is a
 * replay of a trace with only its heads, in the same mapped file, without a
 * copy. If a method's decision in one lane depends on other lanes of the layer,
 * a rank decides differently than the whole model, or the ranks must exchange
 * what the decision depends on. Head numbers begin at 0 on each rank, so the
 * draws of `random` differ on every rank but the first, although no head reads
 * another. A method with a file for all heads is skipped.
 *
 * Cost: a replay of the trace for all ranks together, on how->backend.
 *
 * Chunked prefill: a server passes a long prompt to the model in pieces of N
 * tokens. A method that compresses after the last piece decides as usual: it
 * sees the same rows against the same entries, as in a session whose prompt
 * comes in pieces (sim/run/session). But the whole prompt is held until then.
 * Here the method compresses after each piece, as if the prompt ended there. It
 * sees the last rows read so far (ref/ground/chunk.h) or, without needs.chunks,
 * the last rows of the piece, against what it has kept. The result is compared
 * with its decisions after a whole prompt. Recorded attention is unchanged: the
 * prompt's queries saw everything.
 *
 * Cost: a replay of the trace, on how->backend.
 */
#ifndef KV_SIM_BESIDE_H
#define KV_SIM_BESIDE_H

#include "sim/cli/sheet/decided.h"
#include "sim/replay/engine/replay.h"

/* KV_USAGE, with a sentence, if the trace's KV heads cannot be divided evenly
 * among so many ranks, at least two. */
kv_rc kv_ranks_can(const kv_trace *t, int ranks, kv_err *e);

/* Call it after kv_replay of cell[n] with the watches of whole[n], both of
 * trace t. Replays the first `most` of `ranks` ranks and fills in out[n]
 * (sim/replay/measure/result.h). `why` is set for a cell that did not run, or
 * whose whole[i] is NULL. *stopped: how->stop returned true, and out is
 * undefined. Asserts kv_ranks_can. KV_INPUT, KV_RESOURCE: as kv_replay. */
kv_rc kv_ranks_ask(const kv_trace *t, int ranks, int most, int n,
                   kv_cell *const *cell, kv_decided *const *whole,
                   const kv_replay_how *how, kv_ranks_result *out,
                   bool *stopped, kv_err *e);

/* Call it after kv_replay of cell[n] with the watches of whole[n], both of
 * trace t. Replays them with prompts in pieces of `chunk` >= 1 tokens and fills
 * in out[n]. `why` is set for a cell that did not run, whose whole[i] is NULL,
 * or that cannot run this way. *stopped and codes as above. */
kv_rc kv_chunks_ask(const kv_trace *t, int chunk, int n, kv_cell *const *cell,
                    kv_decided *const *whole, const kv_replay_how *how,
                    kv_chunks_result *out, bool *stopped, kv_err *e);

#endif

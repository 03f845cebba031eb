/* SPDX-License-Identifier: Apache-2.0
 *
 * Chunked prefill: a server gives a long prompt to the model in pieces of N
 * tokens. A method that compresses when the last one has entered decides as
 * ever: it is shown the same rows against the same entries, as a session is
 * whose prompt comes in pieces (sim/session). But the whole prompt is held
 * until then. Here it compresses after each piece, as if the prompt ended
 * there, shown the last rows against what it had kept: those read so far
 * (ref/ground/chunk.h), or without needs.chunks those of the piece; and what it
 * then has is held against what it decides after a whole prompt. Recorded
 * attention stays what it was: the prompt's queries saw everything.
 *
 * Cost: a replay of the trace, on how->backend.
 */
#ifndef KV_SIM_CHUNKS_H
#define KV_SIM_CHUNKS_H

#include "sim/engine/replay.h"
#include "sim/sheet/decided.h"

/* After kv_replay of cell[n] with the watches of whole[n] (both of trace t):
 * replays them with prompts in pieces of `chunk` tokens, >= 1, and fills out[n]
 * (sim/measure/result.h), which says why of a cell that did not run, whose
 * whole[i] is NULL, or that cannot run so. *stopped: how->stop said so, and out
 * means nothing. KV_INPUT, KV_RESOURCE: as kv_replay. */
kv_rc kv_chunks_ask(const kv_trace *t, int chunk, int n, kv_cell *const *cell,
                    kv_decided *const *whole, const kv_replay_how *how,
                    kv_chunks_result *out, bool *stopped, kv_err *e);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Feeds the tokens of a recorded trace to a session, for tests that compare a
 * session with a replay. Every query row of the trace must be recorded
 * (asserted).
 */
#ifndef KV_TESTS_FEED_H
#define KV_TESTS_FEED_H

#include "sim/run/session/session.h"
#include "traces/trace/trace.h"

/* The argument of kv_session_open for trace t; points into t. feed_free frees
 * the lists in it: layers, windows and sinks. */
kv_session_shape feed_shape(const kv_trace *t);
void feed_free(kv_session_shape *x);

/* Feeds tokens first .. first + n - 1 of the i-th recorded layer (from 0). out:
 * NULL, or [n][n_heads][d_v] for the outputs. Returns what the session returns.
 */
kv_rc feed_block(kv_session *s, const kv_trace *t, int i, int first, int n,
                 float *out, kv_err *e);

/* The same, but feeds the rows of tokens row .. row + n - 1 as these tokens. */
kv_rc feed_rows(kv_session *s, const kv_trace *t, int i, int row, int first,
                int n, float *out, kv_err *e);

/* Feeds the whole trace: the prompt in pieces, and layers in a random order by
 * the seed; seed 0: the prompt at once, layer after layer. Returns the first
 * failure of the session; KV_RESOURCE: memory. */
kv_rc feed_all(kv_session *s, const kv_trace *t, uint64_t seed, kv_err *e);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A recorded trace as the source of a session's tokens.
 */
#ifndef KV_TESTS_FEED_H
#define KV_TESTS_FEED_H

#include "sim/session/session.h"
#include "traces/trace/trace.h"

/* The shape of the trace; feed_free gives back what it points to. */
kv_session_shape feed_shape(const kv_trace *t);
void feed_free(kv_session_shape *x);

/* Tokens first..first+n-1 of the i-th recorded layer; out NULL or
 * [n][n_heads][d_v]. */
kv_rc feed_block(kv_session *s, const kv_trace *t, int i, int first, int n,
                 float *out, kv_err *e);

/* The whole trace: the prompt in pieces and the layers in an order that the
 * seed draws; seed 0: the prompt at once, layer by layer. */
kv_rc feed_all(kv_session *s, const kv_trace *t, uint64_t seed, kv_err *e);

#endif

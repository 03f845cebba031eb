/* SPDX-License-Identifier: Apache-2.0
 *
 * Small synthetic traces of a test program: written to the folder of
 * tests/support/scratch.h and opened. Any failure fails the running test.
 */
#ifndef KV_TESTS_OPENED_H
#define KV_TESTS_OPENED_H

#include "traces/trace/small.h"
#include "traces/trace/trace.h"

/* A function that opens a trace: kv_trace_open, or kv_law_open
 * (sim/run/laws/law.h). */
typedef kv_rc opened_by(const char *path, kv_trace **out, kv_err *e);

/* Writes a trace of that description and seed as NAME.safetensors into the
 * scratch folder, which must exist, and opens it; the caller closes it. */
kv_trace *opened_trace(const kv_small *of, uint64_t seed, opened_by *open);

/* Writes and opens one of version 2: two of three layers have a window of 24
 * tokens, all have sinks, logits a cap; 90 tokens of prompt and 30 steps. The
 * scratch folder must exist; the caller closes it. */
kv_trace *opened_windows(opened_by *open);

/* Setup of a cmocka group (pass its state): makes the scratch folder, writes
 * of[n] with this seed and opens them into trace[n], which belong to the
 * caller. Returns 0, or 1 without a folder. */
int opened_make(void **state, int n, const kv_small *of, uint64_t seed,
                opened_by *open, kv_trace **trace);

/* Teardown: closes trace[n] and removes the folder. Returns 0. */
int opened_close(void **state, int n, kv_trace *const *trace);

#endif

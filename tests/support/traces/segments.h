/* SPDX-License-Identifier: Apache-2.0
 *
 * A small trace with questions, and cells on it by what they observe, on the
 * backend that KV_TEST_BACKEND names. What goes wrong fails the running test.
 */
#ifndef KV_TESTS_SEGMENTS_H
#define KV_TESTS_SEGMENTS_H

#include "sim/engine/replay.h"
#include "sim/spec/observe.h"
#include "tests/support/rig.h"

enum { TOKENS_ALL = 80, RECORDED = 40, FIRST = 30, ASKED = 46, TURNS = 7 };

/* Contexts 0..29 (in two) and 50..59, questions 34..45 and 60..65, answers; not
 * in order. */
extern kv_segment segments_turns[TURNS];
extern kv_trace *segments_trace;

/* Setup and teardown of cmocka. */
int segments_make(void **state);
int segments_close(void **state);
/* The trace has these segments from now on. */
void segments_mark(int n, kv_segment *segment);
/* The executor takes its time. */
bool segments_slow(void);

/* A cell that runs, or is refused. */
void segments_open(const char *text, int entries, int prompt,
                   kv_observe observe, kv_cell *c);
void segments_replay_as(kv_replay_how how, kv_cell *const *cell, int n);
/* By one thread, with fidelity. */
void segments_replay(kv_cell *const *cell, int n);
bool segments_same_digest(const kv_digest *a, const kv_digest *b);

#endif

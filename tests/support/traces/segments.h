/* SPDX-License-Identifier: Apache-2.0
 *
 * A small trace with questions, and cells on it that end the prompt or observe
 * by its segments, on the backend that KV_TEST_BACKEND names (ref if not set).
 * Any failure fails the running test.
 */
#ifndef KV_TESTS_SEGMENTS_H
#define KV_TESTS_SEGMENTS_H

#include "sim/ask/observe.h"
#include "sim/replay/engine/replay.h"
#include "tests/support/rig.h"

enum {
  TOKENS_ALL = 80, /* of the trace */
  RECORDED = 40,   /* prompt_len of its metadata */
  FIRST = 30,      /* end of the first context */
  ASKED = 46,      /* end of the first question */
  TURNS = 7        /* segments of segments_turns */
};

/* Contexts 0..29 (in two pieces) and 50..59, questions 34..45 and 60..65, and
 * answers 46..49 and 66..69, not in order of tokens; for segments_mark. */
extern kv_segment segments_turns[TURNS];
extern kv_trace *segments_trace;

/* Setup and teardown of a cmocka group: the trace, in a scratch folder. */
int segments_make(void **state);
int segments_close(void **state);
/* From now on the trace has segment[n], which is not copied. */
void segments_mark(int n, kv_segment *segment);
/* Is the backend not the reference, so that a test should do less? */
bool segments_slow(void);

/* Opens a cell: specification, budget in entries (if it wants one), prompt
 * length (0: by the trace) and what it observes; c->runs is false if it is
 * refused. */
void segments_open(const char *text, int entries, int prompt,
                   kv_observe observe, kv_cell *c);
/* Replays cell[n] in one pass as `how` says. */
void segments_replay_as(kv_replay_how how, kv_cell *const *cell, int n);
/* The same on the backend above, by one thread, with measures of fidelity. */
void segments_replay(kv_cell *const *cell, int n);
bool segments_same_digest(const kv_digest *a, const kv_digest *b);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Backends for tests of `kvreplay run` and `check`, in place of the list of
 * gpu/host/backends.h, and these two commands called in this process. Linked
 * into each test program that uses them, before any library.
 *
 *   ref, same   the reference, under two names; same counts, and may die
 *   odd         flips a bit of an output, of lane 0 of LAYER at STEP
 *   wasteful    counts bytes wrongly there
 *   bad, worse  fail at STEP with `failure`
 *   ulp         tests/support/backend/ulp.h
 *   gone        cannot be used: KV_RESOURCE
 */
#ifndef KV_TESTS_STANDIN_H
#define KV_TESTS_STANDIN_H

#include "ref/backend/backend.h"

enum { STEP = 40, LAYER = 1 }; /* tokens seen; the model's layer */

/* Set by the test: */
extern kv_rc failure; /* the code of bad and worse */
extern int die_at;    /* "same" kills the process at its die_at-th compression;
                         0: never */
extern int at_hand;   /* backends usable without being named: the first of ref,
                         same */
/* Counted: layers begun on "same". */
extern int begun;

/* Calls `check -q TRACE` or `run -q TRACE` with the words of a line formatted
 * as by printf. Returns the exit code; the output is in heard and said
 * (tests/support/program/command.h). */
int check(const char *line, ...) __attribute__((format(printf, 1, 2)));
int run(const char *line, ...) __attribute__((format(printf, 1, 2)));

/* Setup of the cmocka group: a small trace in a scratch folder
 * (scratch_remove), whose name needs escapes in HTML and in a shell, and
 * KVREPLAY_ISA unset. Returns 0, or 1 on failure. */
int open_trace(void **state);
extern char trace_path[512];
/* In place of open_trace, for a process that continues with another's trace. */
void take_trace(const char *path);

#endif

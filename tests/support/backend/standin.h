/* SPDX-License-Identifier: Apache-2.0
 *
 * Backends of the tests' own, in the place of gpu/host/backends.h's list, and
 * the commands that use them (tests/support/program/command.h):
 *
 *   ref, same   the reference, under two names; same counts, and may die
 *   odd         flips a bit of an output at one step
 *   wasteful    counts bytes wrongly from one step on
 *   bad, worse  fail at one step with `failure`
 *   gone        cannot be had
 *
 * Linked into each test program that uses them, before any library.
 */
#ifndef KV_TESTS_STANDIN_H
#define KV_TESTS_STANDIN_H

#include "ref/backend/backend.h"

enum { STEP = 40, LAYER = 1 };

extern kv_rc failure;
extern int begun;  /* layers, on "same" */
extern int die_at; /* "same" kills the process at so many compressions; 0: no */
extern int at_hand; /* backends that need not be named: ref, same */

/* check TRACE, or run TRACE, then the arguments, the last one NULL: the exit
 * code. */
int check(const char *first, ...);
int run(const char *first, ...);

/* Set-up of the group: a trace with a name that needs escapes. */
int open_trace(void **state);
extern char trace_path[512];
/* In its place, of a process that takes over the trace of another. */
void take_trace(const char *path);

#endif

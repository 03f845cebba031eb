/* SPDX-License-Identifier: Apache-2.0
 *
 * Backends of the tests' own, in the place of gpu/backends.h's list, and the
 * commands that use them, called in this process with their output kept:
 *
 *   ref, same   the reference, under two names
 *   odd         flips a bit of an output at one step
 *   wasteful    counts bytes wrongly from one step on
 *   bad, worse  fail at one step with `failure`
 *   gone        cannot be had
 *
 * Linked into each test program that uses them, before any library.
 */
#ifndef KV_TESTS_STANDIN_H
#define KV_TESTS_STANDIN_H

#include "ref/backend.h"

enum { STEP = 40, LAYER = 1, LENGTH = 1 << 16 };

extern kv_rc failure;
extern int begun;   /* layers, on "same" */
extern int at_hand; /* backends that need not be named: ref, same */
extern char said[LENGTH], heard[LENGTH]; /* standard error, standard output */

/* check TRACE, or run TRACE, then the arguments, the last one NULL: the exit
 * code. */
int check(const char *first, ...);
int run(const char *first, ...);

/* The code, and the text on standard output; or nothing there, and one line
 * with the text on standard error. */
void must(int code, int got, const char *text);
void refused(int code, int got, const char *text);

/* What an SQL query gives. */
long long number_in(const char *path, const char *sql);

/* Set-up of the group: a trace with a name that needs escapes. */
int open_trace(void **state);

#endif

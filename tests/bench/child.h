/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a process to its end and measures what it took of time and memory.
 */
#ifndef KV_TESTS_BENCH_CHILD_H
#define KV_TESTS_BENCH_CHILD_H

#include <stdbool.h>

typedef struct child {
  double wall, cpu; /* seconds; cpu: user and system, all threads */
  double anon;      /* bytes: the largest RssAnon seen, sampled every 2 ms */
  double resident;  /* bytes: the most in memory, with pages of mapped files */
  int code;         /* exit code; 128 + n where signal n ended it */
} child;

/* Runs argv, which ends with NULL, argv[0] being a path: standard output goes
 * to the file `out`, standard error to `err`. Where argv[0] cannot be executed
 * the code is 127. False: no process was made, or it cannot be waited for. */
bool child_run(char *const *argv, const char *out, const char *err, child *c);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole process under the clock: what it took of time and memory.
 */
#ifndef KV_TESTS_BENCH_CHILD_H
#define KV_TESTS_BENCH_CHILD_H

#include <stdbool.h>

typedef struct child {
  double wall, cpu; /* seconds; cpu: user and system, all threads */
  double anon;      /* bytes: the largest RssAnon seen, sampled every 2 ms */
  int code;         /* exit code; 128 + n where signal n ended it */
} child;

/* Runs argv, which ends with NULL, to its end: standard output into the file
 * `out`, standard error into `err`. False where it could not be started. */
bool child_run(char *const *argv, const char *out, const char *err, child *c);

#endif

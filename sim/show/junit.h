/* SPDX-License-Identifier: Apache-2.0
 *
 * JUnit's XML, which CI systems read: one testsuite with a testcase for each
 * check. Nothing returns an error: check ferror(out) at the end.
 */
#ifndef KV_SIM_JUNIT_H
#define KV_SIM_JUNIT_H

#include <stdio.h>

typedef enum kv_junit_outcome {
  KV_JUNIT_PASSED,
  KV_JUNIT_FAILURE,
  KV_JUNIT_SKIPPED,
  KV_JUNIT_ERROR
} kv_junit_outcome;
enum { KV_JUNIT_OUTCOMES = 4 };

/* Begins the suite. count: how many testcases will follow, by outcome. */
void kv_junit_begin(FILE *out, const char *suite,
                    const int count[KV_JUNIT_OUTCOMES]);
/* One testcase. name: pieces that are joined, ended by NULL; message: why it
 * did not pass. */
void kv_junit_case(FILE *out, const char *classname, const char *const *name,
                   kv_junit_outcome outcome, const char *message);
void kv_junit_end(FILE *out);

#endif

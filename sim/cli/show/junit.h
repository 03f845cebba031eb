/* SPDX-License-Identifier: Apache-2.0
 *
 * JUnit's XML, which CI systems read: one testsuite with a testcase for each
 * check. Begin, a kv_junit_case for each, end. Nothing returns an error: check
 * ferror(out) at the end. Texts are escaped here, but not what `more` writes.
 */
#ifndef KV_SIM_JUNIT_H
#define KV_SIM_JUNIT_H

#include <stdio.h>

typedef enum kv_junit_outcome {
  KV_JUNIT_PASSED,
  KV_JUNIT_FAILURE, /* the check found something wrong */
  KV_JUNIT_SKIPPED, /* there was nothing to check */
  KV_JUNIT_ERROR    /* it could not be checked */
} kv_junit_outcome;
enum { KV_JUNIT_OUTCOMES = 4 };

/* Begins the suite. count: how many testcases will follow, by outcome. */
void kv_junit_begin(FILE *out, const char *suite,
                    const int count[KV_JUNIT_OUTCOMES]);
/* Writes one testcase. classname: the trace; name: pieces that are joined,
 * ended by NULL; message: why it did not pass. more: called with self to write
 * escaped lines below the message, or NULL. message and more are unused if it
 * passed. */
void kv_junit_case(FILE *out, const char *classname, const char *const *name,
                   kv_junit_outcome outcome, const char *message,
                   void (*more)(const void *self, FILE *out), const void *self);
void kv_junit_end(FILE *out);

#endif

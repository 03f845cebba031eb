/* SPDX-License-Identifier: Apache-2.0
 *
 * The error of a test program's calls: they write it to `told`, and the test
 * checks it with the functions below. Not for calls in several threads.
 */
#ifndef KV_TESTS_TOLD_H
#define KV_TESTS_TOLD_H

#include "ref/ground/err.h"
#include "tests/support/test.h"

#include <string.h>

/* The error of the last failed call; pass &told to calls. */
static kv_err told;

/* Fails the test unless the sentence contains `part`. */
static inline void must_say(const char *part) {
  if (!strstr(told.text, part))
    fail_msg("'%s' does not say '%s'", told.text, part);
}

/* Fails the test, with the sentence, unless a call's rc is KV_OK. */
static inline void works(kv_rc rc) {
  if (rc) fail_msg("%d: %s", (int)rc, told.text);
}

/* Fails the test unless a call's rc is `want` and the sentence contains `part`.
 */
static inline void fails(kv_rc rc, kv_rc want, const char *part) {
  if (rc != want) fail_msg("%d, not %d: %s", (int)rc, (int)want, told.text);
  must_say(part);
}

#endif

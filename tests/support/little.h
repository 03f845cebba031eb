/* SPDX-License-Identifier: Apache-2.0
 *
 * Is a small part of a test enough? In a build for a sanitizer, which sees in
 * a few cases what it would in many and takes ten times as long; and where
 * KV_QUICK=1 says so, as tests/replays.sh has it for scripts.
 */
#ifndef KV_TESTS_LITTLE_H
#define KV_TESTS_LITTLE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifndef __has_feature
#  define __has_feature(x) 0
#endif

#if defined __SANITIZE_ADDRESS__ || __has_feature(address_sanitizer)
enum { LITTLE_BUILD = 1 };
#else
enum { LITTLE_BUILD = 0 };
#endif

static inline bool little(void) {
  const char *quick = getenv("KV_QUICK");
  return LITTLE_BUILD || (quick && strcmp(quick, "1") == 0);
}

/* Every case of a loop, or one in `of`. */
static inline int little_step(int of) { return little() ? of : 1; }

/* The same where a fault is seen by one case alone: no seeded fault may escape
 * by KV_QUICK, so only a sanitizer's build leaves cases out. */
static inline int slow_step(int of) { return LITTLE_BUILD ? of : 1; }

#endif

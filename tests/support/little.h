/* SPDX-License-Identifier: Apache-2.0
 *
 * Should a test try only part of its cases? Yes in a build for a sanitizer,
 * which takes ten times as long and finds in a few cases what it finds in many,
 * and if the environment has KV_QUICK=1 (tests/replays.sh does the same for
 * scripts). For loops: for (int i = 0; i < n; i += little_step(3)).
 */
#ifndef KV_TESTS_LITTLE_H
#define KV_TESTS_LITTLE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifndef __has_feature
#  define __has_feature(x) 0
#endif

/* LITTLE_BUILD: 1 in a build for the address sanitizer. */
#if defined __SANITIZE_ADDRESS__ || __has_feature(address_sanitizer)
enum { LITTLE_BUILD = 1 };
#else
enum { LITTLE_BUILD = 0 };
#endif

/* Is a part enough? */
static inline bool little(void) {
  const char *quick = getenv("KV_QUICK");
  return LITTLE_BUILD || (quick && strcmp(quick, "1") == 0);
}

/* The step of a loop: 1, or `of` if a part is enough. */
static inline int little_step(int of) { return little() ? of : 1; }

/* The same for a loop in which only one case detects a seeded fault
 * (tests/mutants): KV_QUICK skips none. */
static inline int slow_step(int of) { return LITTLE_BUILD ? of : 1; }

#endif

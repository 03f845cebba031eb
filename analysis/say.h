/* SPDX-License-Identifier: Apache-2.0
 *
 * What kvreport says when something is wrong: one line on stderr, and the
 * exit code to return.
 */
#ifndef KV_ANALYSIS_SAY_H
#define KV_ANALYSIS_SAY_H

enum {
  KV_EXIT_OK = 0,
  KV_EXIT_DIFFERENT = 1,
  KV_EXIT_USAGE = 2,
  KV_EXIT_INPUT = 3,
  KV_EXIT_RESOURCE = 4
};

/* Prints "kvreport: SENTENCE" and returns code. */
int kv_say(int code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The name nearest to text by edit distance; names end with NULL. */
const char *kv_nearest_name(const char *text, const char *const *names);

#endif

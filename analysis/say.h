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

/* Prints "kvreport: SENTENCE" and returns code. Only the first sentence of a
 * process is printed: what follows from it needs no line of its own. */
int kv_tell(int code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Something was left out for want of memory: says so, and makes the result
 * no success, whatever the caller can return. */
void kv_tell_short(void);
/* For who asks again, as another process would. */
void kv_said_forget(void);
/* The code of that first sentence, KV_EXIT_OK if there was none. */
int kv_said(void);

#endif

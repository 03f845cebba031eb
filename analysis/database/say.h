/* SPDX-License-Identifier: Apache-2.0
 *
 * kvreport's error messages: one line on stderr, and the exit code that its
 * functions return for it. After the first sentence of a process with a code
 * other than KV_EXIT_OK no more are printed, because later errors follow from
 * it. One thread.
 */
#ifndef KV_ANALYSIS_SAY_H
#define KV_ANALYSIS_SAY_H

enum {
  KV_EXIT_OK = 0,
  KV_EXIT_DIFFERENT = 1, /* two databases contradict each other */
  KV_EXIT_USAGE = 2,     /* the command line */
  KV_EXIT_INPUT = 3,     /* a bad database */
  KV_EXIT_RESOURCE = 4   /* memory, disk or a lock */
};

/* SQL, the end of a SELECT from the view `summary` (means.sql). Means of all
 * traces come before means of some, which must not be compared with them;
 * within these, the best by the worst error first. Columns are the view's, not
 * texts made from them under the same name. */
#define KV_RANKED                                                              \
  " ORDER BY summary.traces < summary.traces_all,"                             \
  " summary.output_abs_max IS NULL, summary.output_abs_max, summary.kr,"       \
  " summary.method, basis, length(summary.asked), summary.asked"

/* Prints "kvreport: SENTENCE", formatted as by printf, at most 1023 bytes, and
 * returns code, which kv_said returns from then on. If kv_said is already not
 * KV_EXIT_OK, only returns code. KV_EXIT_OK: a remark. */
int kv_tell(int code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* For a function that omitted something for lack of memory: prints this, so
 * that kv_output_close does not report success. Returns KV_EXIT_RESOURCE. */
int kv_tell_short(void);
/* Forgets the first sentence, so that the next one is printed: for tests that
 * run several commands in one process. */
void kv_said_forget(void);
/* The code of the first sentence other than remarks, or KV_EXIT_OK. */
int kv_said(void);

#endif

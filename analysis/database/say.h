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

/* Why needle comes first, then LSE error and KL, and what output error is not:
 * beside every table and figure of it. On what that was found: ranked.txt. */
#define KV_SAY_RANK                                                            \
  "Output error does not rank right answers: kvtiny-6l, the bundled model, "   \
  "asked 48 questions in closed loop under each of 29 specifications at 20 "   \
  "%, gave right ones much in the order of needle (Kendall's tau-b .79), "     \
  "less "                                                                      \
  "in that of LSE error (.55) and KL (.43), hardly in that of output error "   \
  "(.18) and top-16 recall (.04). So needle comes first, then LSE error and "  \
  "KL; that order is provisional until a real model is asked."
/* The order of rows of `summary` (means.sql): means of all traces, then those
 * of some, which are not to be compared with them; the best by needle first,
 * those without one by LSE error. Columns are the view's, not texts made of
 * them that have the same name. */
#define KV_RANKED                                                              \
  " ORDER BY summary.traces < summary.traces_all, summary.needle_share DESC,"  \
  " summary.lse_error IS NULL, abs(summary.lse_error), summary.kr,"            \
  " summary.method, basis, length(summary.asked), summary.asked"

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

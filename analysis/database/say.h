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

/* A sentence for people: why the measure needle (needle_share: the attention on
 * tokens that the answer repeats, relative to dense) comes first, and that
 * means of errors hardly rank a model's answers. `kvreport table` prints it
 * below its tables, the page above the figures of output error. The evidence:
 * analysis/embed/ranked.txt. */
#define KV_SAY_RANK                                                            \
  "Output error hardly ranks a model's answers. In closed loop, "              \
  "SmolLM2-135M-Instruct answered 60 prompts under up to 20 methods at equal " \
  "bytes. The log-likelihood of the right answer agreed best with needle "     \
  "(Kendall's tau-b .78) and the largest differences of an output "            \
  "(output_abs, p99: .66), less with the worst KL (.52), and little with the " \
  "means of KL (.34), LSE error (.32) and output error (.29). Bytes alone, "   \
  "equal within 10 %, reach .11. So needle comes first; where no answer is "   \
  "marked, use p99 of output_abs."
/* SQL, the end of a SELECT from the view `summary` (means.sql). Means of all
 * traces come before means of some, which must not be compared with them;
 * within these, the best by needle first, rows without needle by LSE error.
 * Columns are the view's, not texts made from them under the same name. */
#define KV_RANKED                                                              \
  " ORDER BY summary.traces < summary.traces_all, summary.needle_share DESC,"  \
  " summary.lse_error IS NULL, abs(summary.lse_error), summary.kr,"            \
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

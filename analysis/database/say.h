/* SPDX-License-Identifier: Apache-2.0
 *
 * What kvreport says when something is wrong: one line on stderr, and the exit
 * code that its functions return for it. After the first sentence of a process
 * that has a code other than KV_EXIT_OK no more are printed, as what comes
 * after follows from it. One thread.
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

/* A sentence for people: why needle comes first, and that means of errors
 * hardly rank what a model answers. It stands below the tables of `kvreport
 * table` and, on the page, above the figures of output error. On what that was
 * found: analysis/embed/ranked.txt. */
#define KV_SAY_RANK                                                            \
  "Output error hardly ranks a model's answers. In closed loop, "              \
  "SmolLM2-135M-Instruct answered 60 prompts under up to 20 methods at equal " \
  "bytes. The log-likelihood of the right answer agreed best with needle "     \
  "(Kendall's tau-b .78) and the largest differences of an output "            \
  "(output_abs, p99: .66), less with the worst KL (.52), and little with the " \
  "means of KL (.34), LSE error (.32) and output error (.29). Bytes alone, "   \
  "equal within 10 %, reach .11. So needle comes first; where no answer is "   \
  "marked, use p99 of output_abs."
/* SQL, the end of a SELECT from the view `summary` (means.sql): means of all
 * traces, then those of some, which are not to be compared with them; the best
 * by needle first, those without one by LSE error. Columns are the view's, not
 * texts made of them that have the same name. */
#define KV_RANKED                                                              \
  " ORDER BY summary.traces < summary.traces_all, summary.needle_share DESC,"  \
  " summary.lse_error IS NULL, abs(summary.lse_error), summary.kr,"            \
  " summary.method, basis, length(summary.asked), summary.asked"

/* Prints "kvreport: SENTENCE", as printf writes it, at most 1023 bytes of it,
 * and returns code, which kv_said returns from then on; where kv_said is not
 * KV_EXIT_OK already, it only returns code. KV_EXIT_OK: a remark. */
int kv_tell(int code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* For a function that cannot return a code and has left something out for want
 * of memory: says so, so that kv_output_close makes the result no success;
 * returns KV_EXIT_RESOURCE. */
int kv_tell_short(void);
/* Forgets the first sentence, so that the next one is printed: for tests that
 * run several commands in one process. */
void kv_said_forget(void);
/* The code of the first sentence that was no remark, KV_EXIT_OK if there was
 * none. */
int kv_said(void);

#endif

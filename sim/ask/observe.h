/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the prompt of a replay ends, and so what a method sees before it
 * compresses; by the segments of the trace (--observe).
 *
 *   recorded   the trace's prompt_len
 *   context    the end of the last context before the first question: the
 *              questions are decode steps and run after the compression
 *   question   the end of the first question. The first token of the first
 *              answer comes from the prompt's last row, which is no decode step
 *
 * With --turns, every later question also enters as a prompt: its rows are
 * observed, a compression follows at its end, and it has no measures of
 * fidelity. Used when a batch (sim/run/sweep/batch.h) and its cells are opened.
 */
#ifndef KV_SIM_OBSERVE_H
#define KV_SIM_OBSERVE_H

#include "ref/lane/method.h"
#include "ref/lane/trace.h"

typedef enum kv_observe {
  KV_OBSERVE_RECORDED,
  KV_OBSERVE_CONTEXT,
  KV_OBSERVE_QUESTION,
  KV_OBSERVE_TURNS, /* added to one of the above; the next one is twice it */
  KV_OBSERVES = 2 * KV_OBSERVE_TURNS
} kv_observe;

/* Options that add to --observe: the enumerator, the option, its help. */
#define KV_OBSERVE_ADDED(X)                                                    \
  X(KV_OBSERVE_TURNS, "turns",                                                 \
    "every question after the prompt also enters as a prompt: the method "     \
    "observes its rows and compresses at its end; nothing is measured there")

/* Values of the option, and names in rows: "question+turns". */
#define KV_OBSERVE_CHOICES "recorded|context|question"
extern const char *const kv_observe_names[KV_OBSERVES];

/* A question that enters as a prompt: tokens first..first+count-1. */
typedef kv_run kv_asking;

/* *prompt_len: tokens of the prompt, with or without --turns. KV_REFUSED: the
 * trace has no segment of that kind, or lacks some query row after it;
 * *prompt_len is then the trace's own. */
kv_rc kv_observe_prompt(const kv_trace *t, kv_observe observe, int *prompt_len,
                        kv_err *e);
/* (*out)[*n]: the parts of the trace's questions after prompt_len, ascending
 * and disjoint; none if observe has no turns. Free *out with free(), also after
 * a failure. KV_REFUSED: the trace has no question. KV_RESOURCE: memory. */
kv_rc kv_observe_turns(const kv_trace *t, kv_observe observe, int prompt_len,
                       int *n, kv_asking **out, kv_err *e);

#endif

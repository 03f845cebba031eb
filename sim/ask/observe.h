/* SPDX-License-Identifier: Apache-2.0
 *
 * What a method may see before it compresses: where the prompt of a replay
 * ends, by the segments of the trace (--observe).
 *
 *   recorded   the trace's prompt_len
 *   context    the end of the last context before the first question: the
 *              questions are decode steps, and feel the compression
 *   question   the end of the first question: the first answer's first token
 *              comes from the prompt's last row, which is no decode step
 *
 * And whether every question after it enters as a prompt, too (--turns):
 * observation of its rows, a compression at its end, and no measures of
 * fidelity. Asked when a batch (sim/run/sweep/batch.h) and its cells are
 * opened.
 */
#ifndef KV_SIM_OBSERVE_H
#define KV_SIM_OBSERVE_H

#include "ref/lane/method.h"
#include "ref/lane/trace.h"

typedef enum kv_observe {
  KV_OBSERVE_RECORDED,
  KV_OBSERVE_CONTEXT,
  KV_OBSERVE_QUESTION,
  KV_OBSERVE_TURNS, /* added to one of those above; a further one is twice it */
  KV_OBSERVES = 2 * KV_OBSERVE_TURNS
} kv_observe;

/* Options that add to --observe, a row each: what of kv_observe, the option,
 * and its help. */
#define KV_OBSERVE_ADDED(X)                                                    \
  X(KV_OBSERVE_TURNS, "turns",                                                 \
    "every question after the prompt enters as a prompt, too: observation of " \
    "its rows, a compression at its end, no measures")

/* Values of the option, and names in rows: "question+turns". */
#define KV_OBSERVE_CHOICES "recorded|context|question"
extern const char *const kv_observe_names[KV_OBSERVES];

/* A question that enters as a prompt: tokens first..first+count-1. */
typedef kv_run kv_asking;

/* *prompt_len: tokens of the prompt, --turns or not. KV_REFUSED: the trace has
 * no segment of that kind, or does not record every query row from there on; it
 * is then the trace's own. */
kv_rc kv_observe_prompt(const kv_trace *t, kv_observe observe, int *prompt_len,
                        kv_err *e);
/* (*out)[*n]: what of the trace's questions lies behind prompt_len, ascending
 * and apart; none where observe asks for no turns. Free *out with free(), also
 * after a failure. KV_REFUSED: there is no question in the trace; KV_RESOURCE.
 */
kv_rc kv_observe_turns(const kv_trace *t, kv_observe observe, int prompt_len,
                       int *n, kv_asking **out, kv_err *e);

#endif

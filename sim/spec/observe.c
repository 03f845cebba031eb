/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/spec/observe.h"

const char *const kv_observe_names[KV_OBSERVES] = {"recorded", "context",
                                                   "question"};

/* The question that begins first; segments are in any order. */
static const kv_segment *first_question(const kv_trace *t) {
  const kv_segment *first = NULL;
  for (int i = 0; i < t->n_segments; i++) {
    const kv_segment *s = &t->segment[i];
    if (s->role == KV_QUESTION && (!first || s->start < first->start))
      first = s;
  }
  return first;
}

/* Where the last context ends of those that end before the question. */
static int end_of_context(const kv_trace *t, const kv_segment *question) {
  int end = 0;
  for (int i = 0; i < t->n_segments; i++) {
    const kv_segment *s = &t->segment[i];
    if (s->role == KV_CONTEXT && s->end <= question->start && s->end > end)
      end = s->end;
  }
  return end;
}

kv_rc kv_observe_prompt(const kv_trace *t, kv_observe observe, int *prompt_len,
                        kv_err *e) {
  const char *name = kv_observe_names[observe];
  *prompt_len = t->shape.prompt_len;
  if (observe == KV_OBSERVE_RECORDED) return KV_OK;
  const kv_segment *question = first_question(t);
  if (!question)
    return kv_fail(e, KV_REFUSED,
                   "--observe %s: %s has no segments that say where a question "
                   "is; take --prompt-len",
                   name, t->path);
  int end = observe == KV_OBSERVE_QUESTION ? question->end
                                           : end_of_context(t, question);
  if (end == 0)
    return kv_fail(e, KV_REFUSED,
                   "--observe %s: %s has no context segment before its first "
                   "question, at token %d; take --observe question",
                   name, t->path, question->start);
  if (end < t->first_decode)
    return kv_fail(e, KV_REFUSED,
                   "--observe %s: decoding would start at token %d, and %s "
                   "records every query row only from token %d on",
                   name, end, t->path, t->first_decode);
  *prompt_len = end;
  return KV_OK;
}

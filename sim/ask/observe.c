/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/ask/observe.h"

#include <stdlib.h>

#define PLACES(added) "recorded" added, "context" added, "question" added
const char *const kv_observe_names[KV_OBSERVES] = {PLACES(""),
                                                   PLACES("+turns")};

/* The question with the smallest start; segments are in any order. */
static const kv_segment *first_question(const kv_trace *t) {
  const kv_segment *first = NULL;
  for (int i = 0; i < t->n_segments; i++) {
    const kv_segment *s = &t->segment[i];
    if (s->role == KV_QUESTION && (!first || s->start < first->start))
      first = s;
  }
  return first;
}

/* End of the last context that ends before the question. */
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
  observe %= KV_OBSERVE_TURNS;
  const char *name = kv_observe_names[observe];
  *prompt_len = t->shape.prompt_len;
  if (observe == KV_OBSERVE_RECORDED) return KV_OK;
  const kv_segment *question = first_question(t);
  if (!question)
    return kv_fail(e, KV_REFUSED,
                   "--observe %s: %s has no segments that mark a question; use "
                   "--prompt-len",
                   name, t->path);
  int end = observe == KV_OBSERVE_QUESTION ? question->end
                                           : end_of_context(t, question);
  if (end == 0)
    return kv_fail(e, KV_REFUSED,
                   "--observe %s: %s has no context segment before its first "
                   "question, at token %d; use --observe question",
                   name, t->path, question->start);
  if (end < t->first_decode)
    return kv_fail(e, KV_REFUSED,
                   "--observe %s: decoding would start at token %d, but %s "
                   "records every query row only from token %d on",
                   name, end, t->path, t->first_decode);
  *prompt_len = end;
  return KV_OK;
}

static int by_start(const void *a, const void *b) {
  const kv_asking *x = a, *y = b;
  return x->first - y->first;
}

/* Makes sorted questions disjoint and later than prompt_len; returns how many.
 */
static int part(int n, kv_asking *q, int prompt_len) {
  int out = 0, from = prompt_len;
  for (int i = 0; i < n; i++) {
    int first = q[i].first > from ? q[i].first : from;
    int end = q[i].first + q[i].count;
    if (end <= first) continue;
    q[out++] = (kv_asking){first, end - first};
    from = end;
  }
  return out;
}

kv_rc kv_observe_turns(const kv_trace *t, kv_observe observe, int prompt_len,
                       int *n, kv_asking **out, kv_err *e) {
  *n = 0;
  *out = NULL;
  if (!(observe / KV_OBSERVE_TURNS % 2)) return KV_OK;
  if (!first_question(t))
    return kv_fail(e, KV_REFUSED,
                   "--turns: %s has no segments that mark its questions",
                   t->path);
  *out = kv_zalloc((size_t)t->n_segments, sizeof **out);
  if (!*out)
    return kv_no_memory(e, "turns", (size_t)t->n_segments * sizeof **out);
  for (int i = 0; i < t->n_segments; i++) {
    const kv_segment *s = &t->segment[i];
    if (s->role == KV_QUESTION)
      (*out)[(*n)++] = (kv_asking){s->start, s->end - s->start};
  }
  qsort(*out, (size_t)*n, sizeof **out, by_start);
  *n = part(*n, *out, prompt_len);
  return KV_OK;
}

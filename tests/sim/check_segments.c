/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a prompt ends by the segments of a trace (sim/ask/observe.h), and what
 * follows, for every method on the backend that KV_TEST_BACKEND names:
 *   - observing a segment is a replay of the trace whose prompt_len was moved
 *     there by hand;
 *   - observing what was recorded changes nothing;
 *   - at a budget of every token each gives what dense gives, to the bit.
 */
#include "tests/support/traces/segments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- where it ends ------------------------------------------------------ */

static int prompt_of(kv_observe observe) {
  kv_err e = {0};
  int prompt = 0;
  if (kv_observe_prompt(segments_trace, observe, &prompt, &e))
    fail_msg("%s", e.text);
  return prompt;
}

static void refused(kv_observe observe, const char *says) {
  kv_err e = {0};
  int prompt = 0;
  kv_rc rc = kv_observe_prompt(segments_trace, observe, &prompt, &e);
  if (rc != KV_REFUSED || !strstr(e.text, says) ||
      !strstr(e.text, segments_trace->path))
    fail_msg("rc %d, \"%s\" does not hold \"%s\"", rc, e.text, says);
  assert_int_equal(prompt, RECORDED);
}

TEST(ends_of_segments) {
  segments_mark(TURNS, segments_turns);
  assert_int_equal(prompt_of(KV_OBSERVE_RECORDED), RECORDED);
  assert_int_equal(prompt_of(KV_OBSERVE_CONTEXT), FIRST);
  assert_int_equal(prompt_of(KV_OBSERVE_QUESTION), ASKED);
}

static void turns_of(kv_observe observe, int prompt, const int *expected) {
  kv_asking *q = NULL;
  kv_err e = {0};
  int n = 0;
  if (kv_observe_turns(segments_trace, observe, prompt, &n, &q, &e))
    fail_msg("%s", e.text);
  for (int i = 0; i < n; i++) {
    assert_int_equal(q[i].first, expected[2 * i]);
    assert_int_equal(q[i].first + q[i].count, expected[2 * i + 1]);
  }
  assert_int_equal(expected[2 * n], -1);
  free(q);
}

TEST(questions_behind) {
  kv_observe turns_too = KV_OBSERVE_TURNS;
  kv_segment mixed[] = {{20, 30, KV_QUESTION},
                        {26, 40, KV_QUESTION},
                        {40, 44, KV_QUESTION},
                        {22, 28, KV_QUESTION}};
  kv_asking *q = NULL;
  kv_err e = {0};
  int n = 9;
  segments_mark(TURNS, segments_turns);
  turns_of(KV_OBSERVE_RECORDED, RECORDED, (int[]){-1});
  turns_of(turns_too, RECORDED, (int[]){40, 46, 60, 66, -1});
  turns_of(turns_too, FIRST, (int[]){34, 46, 60, 66, -1});
  turns_of(turns_too, ASKED, (int[]){60, 66, -1});
  turns_of(turns_too, 66, (int[]){-1});
  segments_mark(4, mixed);
  turns_of(turns_too, 10, (int[]){20, 30, 30, 40, 40, 44, -1});
  segments_mark(0, NULL);
  assert_int_equal(kv_observe_turns(segments_trace, turns_too, 9, &n, &q, &e),
                   KV_REFUSED);
  assert_non_null(strstr(e.text, "--turns"));
  assert_int_equal(n, 0);
}

TEST(what_is_not_there) {
  kv_segment no_question[] = {{0, 9, KV_CONTEXT}, {9, 12, KV_ANSWER}};
  kv_segment no_context[] = {{4, 9, KV_QUESTION}, {9, 20, KV_CONTEXT}};
  int first = segments_trace->first_decode;
  segments_mark(0, NULL);
  assert_int_equal(prompt_of(KV_OBSERVE_RECORDED), RECORDED);
  refused(KV_OBSERVE_CONTEXT, "--observe context");
  refused(KV_OBSERVE_QUESTION, "has no segments");
  segments_mark(2, no_question);
  refused(KV_OBSERVE_CONTEXT, "has no segments");
  segments_mark(2, no_context);
  refused(KV_OBSERVE_CONTEXT, "no context segment before its first question");
  assert_int_equal(prompt_of(KV_OBSERVE_QUESTION), 9);
  segments_mark(TURNS, segments_turns);
  segments_trace->first_decode = FIRST + 1;
  refused(KV_OBSERVE_CONTEXT, "only from token 31 on");
  assert_int_equal(prompt_of(KV_OBSERVE_QUESTION), ASKED);
  segments_trace->first_decode = first;
}

/* --- what follows ------------------------------------------------------- */

static void same(const char *text, const kv_result *a, const kv_result *b) {
  if (!segments_same_digest(&a->journal, &b->journal) ||
      !segments_same_digest(&a->state, &b->state) ||
      !segments_same_digest(&a->output, &b->output))
    fail_msg("%s: a digest differs", text);
  if (memcmp(a->stat, b->stat, sizeof a->stat))
    fail_msg("%s: a measure differs", text);
}

/* The one way and the other, of all methods at once. */
static void moved_by_hand(kv_observe observe) {
  kv_cell cell[2][64], *each[64];
  int n = 0, was = segments_trace->shape.prompt_len,
      prompt = prompt_of(observe);
  for (int hand = 0; hand < 2; hand++) {
    n = 0;
    if (hand) segments_trace->shape.prompt_len = prompt;
    for (int i = 0; kv_method_at(i); i++) {
      if (!kv_backend_has(rig_backend(), kv_method_at(i))) continue;
      if (rig_wants_file(kv_method_at(i))) continue;
      assert_true(n < 64);
      each[n] = &cell[hand][n];
      segments_open(kv_method_at(i)->name, 12, hand ? 0 : prompt,
                    hand ? KV_OBSERVE_RECORDED : observe, each[n]);
      n++;
    }
    segments_replay(each, n);
    segments_trace->shape.prompt_len = was;
  }
  for (int i = 0; i < n; i++) {
    assert_int_equal(cell[0][i].result.prompt_len, prompt);
    assert_int_equal(cell[0][i].result.observe, observe);
    same(cell[0][i].spec.method->name, &cell[0][i].result, &cell[1][i].result);
    kv_cell_close(&cell[0][i]);
    kv_cell_close(&cell[1][i]);
  }
}

TEST(as_moved_by_hand) {
  segments_mark(TURNS, segments_turns);
  for (int o = 0; o < KV_OBSERVE_TURNS; o++)
    if (o == KV_OBSERVE_CONTEXT || !segments_slow())
      moved_by_hand((kv_observe)o);
}

TEST(full_is_dense) {
  segments_mark(TURNS, segments_turns);
  for (int o = 0; o < KV_OBSERVES; o++) {
    kv_cell cell[64], *each[64];
    int n = 0, prompt = prompt_of((kv_observe)o);
    if (segments_slow() && o != KV_OBSERVE_CONTEXT + KV_OBSERVE_TURNS) continue;
    for (int i = 0; kv_method_at(i); i++) {
      const kv_method *m = kv_method_at(i);
      const char *with = m->lossless ? m->lossless : "";
      char text[512];
      if (!kv_backend_has(rig_backend(), m) || rig_wants_file(m)) continue;
      assert_true(n < 64);
      snprintf(text, sizeof text, "%s%s%s", m->name, *with ? ":" : "", with);
      each[n] = &cell[n];
      segments_open(text, TOKENS_ALL, prompt, (kv_observe)o, each[n++]);
    }
    segments_replay(each, n);
    assert_string_equal(cell[0].spec.method->name, "dense");
    for (int i = 0; i < n; i++) {
      if (cell[i].runs &&
          !segments_same_digest(&cell[i].result.output, &cell[0].result.output))
        fail_msg("%s, observing %s: not as dense", cell[i].spec.method->name,
                 kv_observe_names[o]);
      if (i) kv_cell_close(&cell[i]);
    }
    kv_cell_close(&cell[0]);
  }
}

int main(void) { return tests_run("segments", segments_make, segments_close); }

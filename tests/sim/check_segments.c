/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a prompt ends by the segments of a trace (sim/spec/observe.h), and what
 * follows, for every method on the backend that KV_TEST_BACKEND names:
 *   - observing a segment is a replay of the trace whose prompt_len was moved
 *     there by hand;
 *   - observing what was recorded changes nothing;
 *   - at a budget of every token each gives what dense gives, to the bit.
 */
#include "sim/engine/replay.h"
#include "sim/spec/observe.h"
#include "tests/support/rig.h"
#include "tests/support/scratch.h"
#include "traces/trace/synth.h"

#include <stdio.h>
#include <string.h>

enum { TOKENS_ALL = 80, RECORDED = 40, FIRST = 30, ASKED = 46 };

/* Not in order; the second context ends behind the first question. */
static kv_segment turns[] = {{60, 66, KV_QUESTION}, {0, 12, KV_CONTEXT},
                             {50, 60, KV_CONTEXT},  {12, FIRST, KV_CONTEXT},
                             {46, 50, KV_ANSWER},   {34, ASKED, KV_QUESTION},
                             {66, 70, KV_ANSWER}};
enum { TURNS = sizeof turns / sizeof *turns };

static kv_trace *trace;
static kv_segment *own;
static int n_own;

static int make_trace(void **state) {
  kv_synth s = {.like = {.name = "observe",
                         .n_layers = 2,
                         .n_heads = 4,
                         .n_kv_heads = 2,
                         .d = 16,
                         .theta = 10000,
                         .dtype = KV_F32},
                .n_tokens = TOKENS_ALL,
                .prompt_len = RECORDED,
                .seed = 5};
  kv_err e = {0};
  if (scratch_make(state)) return 1;
  const char *path = scratch_path("observe.safetensors");
  if (kv_synth_write(&s, kv_kernels_best(), path, &e) ||
      kv_trace_open(path, &trace, &e))
    fail_msg("%s", e.text);
  own = trace->segment;
  n_own = trace->n_segments;
  return 0;
}

static void mark(int n, kv_segment *segment) {
  trace->n_segments = n;
  trace->segment = segment;
}

static int close_trace(void **state) {
  mark(n_own, own);
  kv_trace_close(trace);
  return scratch_remove(state);
}

/* --- where it ends ------------------------------------------------------ */

static int prompt_of(kv_observe observe) {
  kv_err e = {0};
  int prompt = 0;
  if (kv_observe_prompt(trace, observe, &prompt, &e)) fail_msg("%s", e.text);
  return prompt;
}

static void refused(kv_observe observe, const char *says) {
  kv_err e = {0};
  int prompt = 0;
  kv_rc rc = kv_observe_prompt(trace, observe, &prompt, &e);
  if (rc != KV_REFUSED || !strstr(e.text, says) || !strstr(e.text, trace->path))
    fail_msg("rc %d, \"%s\" does not hold \"%s\"", rc, e.text, says);
  assert_int_equal(prompt, RECORDED);
}

static void ends_of_segments(void **state) {
  (void)state;
  mark(TURNS, turns);
  assert_int_equal(prompt_of(KV_OBSERVE_RECORDED), RECORDED);
  assert_int_equal(prompt_of(KV_OBSERVE_CONTEXT), FIRST);
  assert_int_equal(prompt_of(KV_OBSERVE_QUESTION), ASKED);
}

static void what_is_not_there(void **state) {
  kv_segment no_question[] = {{0, 9, KV_CONTEXT}, {9, 12, KV_ANSWER}};
  kv_segment no_context[] = {{4, 9, KV_QUESTION}, {9, 20, KV_CONTEXT}};
  int first = trace->first_decode;
  (void)state;
  mark(0, NULL);
  assert_int_equal(prompt_of(KV_OBSERVE_RECORDED), RECORDED);
  refused(KV_OBSERVE_CONTEXT, "--observe context");
  refused(KV_OBSERVE_QUESTION, "has no segments");
  mark(2, no_question);
  refused(KV_OBSERVE_CONTEXT, "has no segments");
  mark(2, no_context);
  refused(KV_OBSERVE_CONTEXT, "no context segment before its first question");
  assert_int_equal(prompt_of(KV_OBSERVE_QUESTION), 9);
  mark(TURNS, turns);
  trace->first_decode = FIRST + 1;
  refused(KV_OBSERVE_CONTEXT, "only from token 31 on");
  assert_int_equal(prompt_of(KV_OBSERVE_QUESTION), ASKED);
  trace->first_decode = first;
}

/* --- what follows ------------------------------------------------------- */

/* A cell that runs, or is refused: then rc of its open stays KV_OK. */
static void open_cell(const char *text, int entries, int prompt,
                      kv_observe observe, kv_cell *c) {
  kv_spec spec = {0};
  kv_err e = {0};
  if (kv_spec_parse(kv_method_at, text, &spec, &e)) fail_msg("%s", e.text);
  kv_asked_cell asked = {.spec = &spec,
                         .entries = kv_spec_wants_budget(&spec) ? entries : -1,
                         .observe = observe};
  if (kv_cell_open(trace, prompt, kv_kernels_best(), &asked, c, &e))
    fail_msg("%s: %s", text, e.text);
  kv_spec_free(&spec);
}

static void replay(kv_cell *const *cell, int n) {
  kv_replay_how how = {.backend = rig_backend(),
                       .kernels = kv_kernels_best(),
                       .threads = 1,
                       .fidelity = true};
  kv_err e = {0};
  bool stopped;
  if (kv_replay(trace, cell, n, &how, &stopped, &e)) fail_msg("%s", e.text);
}

static bool equal(const kv_digest *a, const kv_digest *b) {
  return memcmp(a, b, sizeof *a) == 0;
}

static void same(const char *text, const kv_result *a, const kv_result *b) {
  if (!equal(&a->journal, &b->journal) || !equal(&a->state, &b->state) ||
      !equal(&a->output, &b->output))
    fail_msg("%s: a digest differs", text);
  if (memcmp(a->stat, b->stat, sizeof a->stat))
    fail_msg("%s: a measure differs", text);
}

/* The one way and the other, of all methods at once. */
static void moved_by_hand(kv_observe observe) {
  kv_cell cell[2][64], *each[64];
  int n = 0, was = trace->shape.prompt_len, prompt = prompt_of(observe);
  for (int hand = 0; hand < 2; hand++) {
    n = 0;
    if (hand) trace->shape.prompt_len = prompt;
    for (int i = 0; kv_method_at(i); i++) {
      if (!kv_backend_has(rig_backend(), kv_method_at(i))) continue;
      assert_true(n < 64);
      each[n] = &cell[hand][n];
      open_cell(kv_method_at(i)->name, 12, hand ? 0 : prompt,
                hand ? KV_OBSERVE_RECORDED : observe, each[n]);
      n++;
    }
    replay(each, n);
    trace->shape.prompt_len = was;
  }
  for (int i = 0; i < n; i++) {
    assert_int_equal(cell[0][i].result.prompt_len, prompt);
    assert_int_equal(cell[0][i].result.observe, observe);
    same(cell[0][i].spec.method->name, &cell[0][i].result, &cell[1][i].result);
    kv_cell_close(&cell[0][i]);
    kv_cell_close(&cell[1][i]);
  }
}

static void as_moved_by_hand(void **state) {
  (void)state;
  mark(TURNS, turns);
  for (int o = 0; o < KV_OBSERVES; o++) moved_by_hand((kv_observe)o);
}

static void full_is_dense(void **state) {
  (void)state;
  mark(TURNS, turns);
  for (int o = 0; o < KV_OBSERVES; o++) {
    kv_cell cell[64], *each[64];
    int n = 0, prompt = prompt_of((kv_observe)o);
    for (int i = 0; kv_method_at(i); i++) {
      const kv_method *m = kv_method_at(i);
      const char *with = m->lossless ? m->lossless : "";
      char text[512];
      if (!kv_backend_has(rig_backend(), m)) continue;
      assert_true(n < 64);
      snprintf(text, sizeof text, "%s%s%s", m->name, *with ? ":" : "", with);
      each[n] = &cell[n];
      open_cell(text, TOKENS_ALL, prompt, (kv_observe)o, each[n++]);
    }
    replay(each, n);
    assert_string_equal(cell[0].spec.method->name, "dense");
    for (int i = 0; i < n; i++) {
      if (cell[i].runs &&
          !equal(&cell[i].result.output, &cell[0].result.output))
        fail_msg("%s, observing %s: not as dense", cell[i].spec.method->name,
                 kv_observe_names[o]);
      if (i) kv_cell_close(&cell[i]);
    }
    kv_cell_close(&cell[0]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ends_of_segments), cmocka_unit_test(what_is_not_there),
      cmocka_unit_test(as_moved_by_hand), cmocka_unit_test(full_is_dense)};
  return cmocka_run_group_tests_name("segments", tests, make_trace,
                                     close_trace);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a prompt ends by the segments of a trace (sim/ask/observe.h), and what
 * follows, for every method on the backend that KV_TEST_BACKEND names:
 *   - observing a segment is a replay of the trace whose prompt_len was moved
 *     there by hand; observing what was recorded changes nothing; at a budget
 *     of every token each gives what dense gives, to the bit;
 *   - later questions are prompts (--segments_turns): they have no measures,
 *     and what is held is counted where one ends, where the budget holds again;
 *     after nothing was dropped a method that looks at the prompt alone does
 *     what it does after a prompt that ends there; walks, tiles, threads and
 *     backends change nothing, and closings are in order;
 *   - rows to come (kv_needs.future): a compression is told of each token the
 *     sum of plain softmaxes in binary64 over the decode rows that follow and
 *     over the lane's query heads, under windows and sinks, too.
 */
#include "tests/support/told.h"
#include "tests/support/traces/segments.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- where it ends ------------------------------------------------------ */

static int prompt_of(kv_observe observe) {
  int prompt = 0;
  works(kv_observe_prompt(segments_trace, observe, &prompt, &told));
  return prompt;
}

static void refused(kv_observe observe, const char *says) {
  int prompt = 0;
  kv_rc rc = kv_observe_prompt(segments_trace, observe, &prompt, &told);
  if (rc != KV_REFUSED || !strstr(told.text, says) ||
      !strstr(told.text, segments_trace->path))
    fail_msg("rc %d, \"%s\" does not hold \"%s\"", rc, told.text, says);
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
  int n = 0;
  works(kv_observe_turns(segments_trace, observe, prompt, &n, &q, &told));
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
  fails(kv_observe_turns(segments_trace, turns_too, 9, &n, &q, &told),
        KV_REFUSED, "--turns");
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
  for (int o = 0; o < 2 * KV_OBSERVE_TURNS; o++) {
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

/* --- later questions ---------------------------------------------------- */

/* Tokens that are no decode step of the replay. */
static int asked(const kv_cell *c) {
  int n = 0;
  for (int i = 0; i < c->turns; i++) n += c->turn[i].count;
  return n;
}

TEST(measures_of_steps_alone) {
  kv_cell c, *each = &c;
  segments_mark(TURNS, segments_turns);
  segments_open("dense", -1, FIRST, KV_OBSERVE_CONTEXT + KV_OBSERVE_TURNS, &c);
  segments_replay(&each, 1);
  const kv_result *r = &c.result;
  int steps = TOKENS_ALL - FIRST - asked(&c);
  assert_int_equal(asked(&c), 12 + 6);
  assert_int_equal(r->stat[KV_OUTPUT_ERROR].count, 2 * 4 * steps);
  assert_true(r->totals.kr == 1 && r->totals.cr == 1);
  int64_t row = 2 * 2 * (16 + 16) * 4; /* layers, heads, K and V, bytes */
  for (int i = 0; i < r->n_steps; i++) {
    int t = r->step[i].step;
    bool within = (t > 34 && t < 46) || (t > 60 && t < 66);
    int held = !within ? t : t < 46 ? 34 : 60;
    assert_int_equal(t, FIRST + i);
    assert_int_equal(r->step[i].bytes, row * held);
    bool reads = i && !within && t != 46 && t != 66;
    assert_int_equal(r->step[i].read, reads ? row * t : 0);
    if (i)
      assert_true(reads ==
                  !isnan(r->step_mean[KV_MASS * (r->n_steps - 1) + i - 1]));
  }
  kv_cell_close(&c);
}

/* The first prompt drops nothing, so that the second is alone: as a prompt that
 * has all tokens up to its end. */
TEST(as_one_prompt) {
  static const char *const spec[] = {
      "snapkv:window=8",      "pyramidkv:window=8",  "adakv:window=8",
      "tova:variant=prefill", "h2o:variant=prefill", "adakv:score=lagkv",
      "chunkkv:window=8",     "criticalkv:window=8"};
  kv_segment one[] = {{0, FIRST, KV_CONTEXT}, {34, ASKED, KV_QUESTION}};
  segments_mark(2, one);
  for (size_t i = 0; i < sizeof spec / sizeof *spec; i++) {
    kv_cell c[2], *each[] = {&c[0], &c[1]};
    bool all_rows = i == 4; /* it also sees what the first prompt asked for */
    int budget = 36;
    segments_open(spec[i], budget, FIRST, KV_OBSERVE_TURNS, &c[0]);
    segments_open(spec[i], budget, ASKED, KV_OBSERVE_RECORDED, &c[1]);
    segments_replay(&each[0], 1);
    segments_replay(&each[1], 1);
    const kv_result *a = &c[0].result, *b = &c[1].result;
    assert_true(a->totals.kept == b->totals.kept);
    for (int t = ASKED + 1; !all_rows && t <= TOKENS_ALL; t++) {
      float x =
          a->step_mean[KV_OUTPUT_ERROR * (a->n_steps - 1) + t - FIRST - 1];
      float y =
          b->step_mean[KV_OUTPUT_ERROR * (b->n_steps - 1) + t - ASKED - 1];
      if (x != y) fail_msg("%s, step %d: %g is not %g", spec[i], t, x, y);
    }
    kv_cell_close(&c[0]);
    kv_cell_close(&c[1]);
  }
}

/* At every later prompt's end there is the budget again. */
TEST(budget_holds) {
  static const struct {
    const char *spec;
    int kept; /* at the end, 14 tokens after the last question */
  } want[] = {{"window", 12},
              {"streamingllm", 12},
              {"h2o", 12},
              {"h2o:variant=masked", 12},
              {"h2o:variant=prefill", 12 + 14},
              {"tova", 12},
              {"oracle-evict", 12},
              {"snapkv:window=4", 12 + 14},
              {"snapkv:window=4:grow=no:every=7", 12},
              {"snapkv:window=4:grow=twice:voters=1", 12 + 14 - 12},
              {"adakv:window=4:safeguard=minimum", 12 + 14},
              {"adakv:window=4:safeguard=minimum:grow=no:every=7", 12},
              {"adakv:score=lagkv:safeguard=minimum", 12 + 14},
              {"adakv:score=expected:safeguard=minimum", 12 + 14},
              {"chunkkv:window=4:chunk=1", 12 + 14},
              {"criticalkv:window=4", 12 + 14},
              {"criticalkv:score=keydiff:form=both:every=7", 12},
              {"zsmerge:variant=paper", 12},
              {"zsmerge:variant=code", 12}};
  enum { SPECS = sizeof want / sizeof *want };
  kv_cell c[SPECS], *each[SPECS];
  segments_mark(TURNS, segments_turns);
  for (int i = 0; i < SPECS; i++) {
    each[i] = &c[i];
    segments_open(want[i].spec, 12, FIRST,
                  KV_OBSERVE_CONTEXT + KV_OBSERVE_TURNS, &c[i]);
  }
  segments_replay(each, SPECS);
  for (int i = 0; i < SPECS; i++) {
    if (c[i].result.totals.kept != want[i].kept)
      fail_msg("%s: %g kept, not %d", want[i].spec, c[i].result.totals.kept,
               want[i].kept);
    kv_cell_close(&c[i]);
  }
}

/* Beside the defaults: all that looks at where a prompt ends. */
static const char *const further[] = {"h2o:variant=masked",
                                      "h2o:variant=prefill",
                                      "snapkv:window=4:grow=no:every=7",
                                      "snapkv:window=4:grow=twice",
                                      "pyramidkv:window=4:grow=no:every=7",
                                      "snapkv:window=4:group=query_head",
                                      "adakv:window=4:safeguard=minimum",
                                      "adakv:window=4:normalise=yes",
                                      "adakv:score=lagkv:normalise=yes",
                                      "adakv:score=lagkv:safeguard=minimum",
                                      "adakv:score=h2o",
                                      "chunkkv:chunk=3:form=both:every=7",
                                      "chunkkv:score=lagkv:count=share",
                                      "criticalkv:score=expected",
                                      "tova:variant=prefill",
                                      "quest:page=4:skip=0",
                                      "zsmerge:variant=code",
                                      "zsmerge+kivi:group=8:residual=8"};
enum { FURTHER = sizeof further / sizeof *further };

/* Of all methods at once, so that they share what can be shared. */
static int open_all(kv_cell *cell, kv_cell **each) {
  int n = 0;
  for (int i = -FURTHER; i < 0 || kv_method_at(i); i++) {
    const char *text = i < 0 ? further[i + FURTHER] : kv_method_at(i)->name;
    if (i >= 0 && !kv_backend_has(rig_backend(), kv_method_at(i))) continue;
    if (i >= 0 && rig_wants_file(kv_method_at(i))) continue;
    assert_true(n < 64);
    each[n] = &cell[n];
    segments_open(text, 12, FIRST, KV_OBSERVE_CONTEXT + KV_OBSERVE_TURNS,
                  each[n]);
    n++;
  }
  return n;
}

TEST(walked_in_any_way) {
  static const kv_replay_how ways[] =
      {{.threads = 2, .fidelity = true},
       {.threads = 1, .fidelity = true, .tile = 1},
       {.threads = 1, .fidelity = true, .by_steps = true},
       {.threads = 1}},
                             ref = {.threads = 1, .backend = &kv_backend_ref};
  kv_cell first[64], c[64], *each[64];
  segments_mark(TURNS, segments_turns);
  int n = open_all(first, each),
      all = segments_slow() ? 1 : sizeof ways / sizeof *ways;
  segments_replay(each, n);
  for (int w = 0; w < all; w++) {
    open_all(c, each);
    segments_replay_as(segments_slow() ? ref : ways[w], each, n);
    for (int i = 0; i < n; i++) {
      const kv_result *a = &first[i].result, *b = &c[i].result;
      if (!segments_same_digest(&a->journal, &b->journal) ||
          !segments_same_digest(&a->output, &b->output) ||
          !segments_same_digest(&a->state, &b->state))
        fail_msg("%s: a digest differs, way %d", b->spec, w);
      kv_cell_close(&c[i]);
    }
  }
  for (int i = 0; i < n; i++) kv_cell_close(&first[i]);
}

/* Closings, as who compares two backends takes them, give the same order. */
TEST(closings_in_order) {
  static const char *const spec[] = {"dense", "zsmerge"};
  segments_mark(TURNS, segments_turns);
  for (int i = 0; i < 2; i++) {
    kv_cell c;
    int at = 0, count, first, closings;
    bool decodes;
    segments_open(spec[i], 12, FIRST, KV_OBSERVE_CONTEXT + KV_OBSERVE_TURNS,
                  &c);
    closings = c.blocks + TOKENS_ALL - FIRST;
    for (int n = 0; n < closings; n++) {
      if (!kv_cell_closing(&c, n, &first, &count, &decodes)) continue;
      assert_int_equal(first, at);
      at += count;
      bool question =
          (first >= 34 && first < 46) || (first >= 60 && first < 66);
      assert_true(decodes == (first >= FIRST && !question));
      assert_int_equal(kv_cell_prompt_at(&c, at), at <= 34   ? FIRST
                                                  : at <= 60 ? 46
                                                             : 66);
    }
    assert_int_equal(at, TOKENS_ALL);
    kv_cell_close(&c);
  }
}

/* --- rows to come ------------------------------------------------------- */

enum { D = 16, WINDOW = 11 };

static float sink[4] = {0.5f, -1, 2, 0};
static int compressions; /* of lanes that were looked at */

/* --- plainly ----------------------------------------------------------------
 */

static double logit(const kv_layer_data *data, int h, int g, int t, int j) {
  const float *q = data->q, *k = data->k;
  double s = 0;
  q += (size_t)(h * data->n_rows + kv_layer_row(data, t)) * D;
  k += (size_t)(g * TOKENS_ALL + j) * D;
  for (int x = 0; x < D; x++) s += (double)q[x] * (double)k[x];
  return s * (double)segments_trace->shape.scale;
}

/* Adds the probabilities of row t. */
static void add_row(const kv_lane *l, int h, int t, double *sum) {
  int first =
      l->data->window && t >= l->data->window ? t - l->data->window + 1 : 0;
  double e[TOKENS_ALL], all = 0;
  if (l->data->sinks) all = exp((double)l->data->sinks[h]);
  for (int j = first; j <= t; j++)
    all += e[j] = exp(logit(l->data, h, l->kv_head, t, j));
  for (int j = first; j <= t; j++) sum[j] += e[j] / all;
}

/* self: a cell's questions end with first 0. */
static void compare_future(void *self, int layer, int step, const kv_lane *l) {
  const kv_asking *asked = self;
  double sum[TOKENS_ALL] = {0};
  for (int t = step; t < TOKENS_ALL; t++) {
    bool decodes = true;
    for (int i = 0; asked[i].first; i++)
      if (t >= asked[i].first && t < asked[i].first + asked[i].count)
        decodes = false;
    for (int h = 0; decodes && h < l->queries; h++)
      add_row(l, l->first_head + h, t, sum);
  }
  for (int j = 0; j < TOKENS_ALL; j++)
    if (!(fabs((double)l->future[j] * 0x1p-40 - sum[j]) <= 2e-5))
      fail_msg("layer %d, lane %d, step %d, token %d: %.7f, expected %.7f",
               layer, l->lane, step, j, (double)l->future[j] * 0x1p-40, sum[j]);
  compressions++;
}

/* --- replays ----------------------------------------------------------------
 */

/* lanes: of both layers together. */
static void told_as(const char *spec, kv_observe observe, int lanes,
                    const kv_asking *asked) {
  kv_cell c, *each = &c;
  int closings = 1 + TOKENS_ALL - FIRST;
  kv_watch watch = {.self = (void *)(uintptr_t)asked,
                    .compressed = compare_future};
  kv_replay_how how = {.threads = 1, .watch = &watch};
  for (int i = 0; asked[i].first; i++) closings -= asked[i].count - 1;
  compressions = 0;
  segments_open(spec, 12, FIRST, observe, &c);
  assert_true(c.runs);
  segments_replay_as(how, &each, 1);
  if (!kv_result_ran(&c.result)) fail_msg("%s: %s", spec, c.result.reason);
  assert_int_equal(compressions, lanes * closings);
  kv_cell_close(&c);
}

static const kv_asking none[1] = {{0, 0}};

TEST(decode_rows_that_follow) {
  told_as("oracle-evict", KV_OBSERVE_RECORDED, 4, none);
  told_as("oracle-evict:group=query_head", KV_OBSERVE_RECORDED, 8, none);
  told_as("oracle-evict+kivi:group=8:residual=8", KV_OBSERVE_RECORDED, 4, none);
}

TEST(no_question) {
  static const kv_asking asked[] = {{34, 12}, {60, 6}, {0, 0}};
  segments_mark(TURNS, segments_turns);
  told_as("oracle-evict", KV_OBSERVE_CONTEXT + KV_OBSERVE_TURNS, 4, asked);
  segments_mark(0, NULL);
}

TEST(windows_and_sinks) {
  kv_layer_data *data[2];
  for (int i = 0; i < 2; i++) data[i] = &segments_trace->layer[i].data;
  data[0]->sinks = sink;
  data[1]->window = WINDOW;
  told_as("oracle-evict:windowed=compress", KV_OBSERVE_RECORDED, 4, none);
  data[0]->sinks = NULL;
  data[1]->window = 0;
}

int main(void) { return tests_run("segments", segments_make, segments_close); }

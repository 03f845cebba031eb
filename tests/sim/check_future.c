/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows to come (kv_needs.future), on the backend that KV_TEST_BACKEND names:
 * what a compression is told of each token is the sum of plain softmaxes in
 * binary64 over the decode rows that follow and over the lane's query heads -
 * also where layers have a sliding window or a learned sink, where questions
 * enter as later prompts and are no decode rows, and for lanes of query heads.
 * Methods on one lane are told the same.
 */
#include "tests/support/traces/segments.h"

#include <math.h>
#include <string.h>

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
static void compare(void *self, int layer, int step, const kv_lane *l) {
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
static void replay(const char *spec, kv_observe observe, int lanes,
                   const kv_asking *asked) {
  kv_cell c, *each = &c;
  int closings = 1 + TOKENS_ALL - FIRST;
  kv_watch watch = {.self = (void *)(uintptr_t)asked, .compressed = compare};
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
  replay("oracle-evict", KV_OBSERVE_RECORDED, 4, none);
  replay("oracle-evict:group=query_head", KV_OBSERVE_RECORDED, 8, none);
  replay("oracle-evict+kivi:group=8:residual=8", KV_OBSERVE_RECORDED, 4, none);
}

TEST(no_question) {
  static const kv_asking asked[] = {{34, 12}, {60, 6}, {0, 0}};
  segments_mark(TURNS, segments_turns);
  replay("oracle-evict", KV_OBSERVE_CONTEXT + KV_OBSERVE_TURNS, 4, asked);
  segments_mark(0, NULL);
}

TEST(windows_and_sinks) {
  kv_layer_data *data[2];
  for (int i = 0; i < 2; i++) data[i] = &segments_trace->layer[i].data;
  data[0]->sinks = sink;
  data[1]->window = WINDOW;
  replay("oracle-evict:windowed=compress", KV_OBSERVE_RECORDED, 4, none);
  data[0]->sinks = NULL;
  data[1]->window = 0;
}

int main(void) { return tests_run("future", segments_make, segments_close); }

/* SPDX-License-Identifier: Apache-2.0
 *
 * A chunk that a method adds to attention itself (the hook `chunk` of
 * ref/lane/method.h), by the method of tests/made/rest.h:
 *   - outputs and LSE are those of one softmax over all that it stands for;
 *   - its twin on the executor has the same digests, alone and composed;
 *   - a chunk that is not finite fails the cell with a sentence, and so does a
 *     composition of two methods that both have one.
 */
#include "ref/ground/arith.h"
#include "sim/replay/engine/replay.h"
#include "sim/run/look/vectors.h"
#include "tests/laws/cells.h"
#include "tests/made/made_up.h"
#include "tests/made/rest.h"
#include "tests/support/backend/probe.h"
#include "tests/support/scratch.h"
#include "tests/support/told.h"
#include "tests/support/traces/opened.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const kv_small places[] = {{"group1_d32", 3, 2, 2, 32, KV_F32, 96, 64},
                                  {"group4_d64", 2, 8, 2, 64, KV_F16, 96, 70},
                                  {"group7_d80", 1, 7, 1, 80, KV_BF16, 80, 60},
                                  {"one_token", 2, 4, 1, 32, KV_F32, 40, 1}};
enum { PLACES = sizeof places / sizeof *places };

static kv_trace *trace[PLACES];

static int open_traces(void **state) {
  return opened_make(state, PLACES, places, 5, kv_trace_open, trace);
}

static int close_traces(void **state) {
  return opened_close(state, PLACES, trace);
}

/* --- replays ------------------------------------------------------------ */

static const kv_method *first; /* of the list, or NULL */

static const kv_method *list(int i) {
  if (!first) return made_up_at(i);
  return i == 0 ? first : made_up_at(i - 1);
}

static void replay(const kv_backend *b, const char *text, int at,
                   const kv_watch *watch, kv_cell *cell) {
  const kv_replay_how how = {.backend = b, .threads = 1, .watch = watch};
  cells_ask(list, trace[at], 0, text, -1, cell);
  cells_replay(trace[at], 1, &cell, how);
  first = NULL;
}

static void same_twin(const char *text) {
  const kv_backend *twin = probe_backend();
  if (!twin) skip();
  for (int t = 0; t < PLACES; t++) {
    kv_cell a = {0}, b = {0};
    size_t layers = (size_t)places[t].n_layers;
    replay(&kv_backend_ref, text, t, NULL, &a);
    replay(twin, text, t, NULL, &b);
    if (memcmp(a.digest, b.digest, layers * sizeof *a.digest) != 0)
      fail_msg("%s on %s: the twin differs", text, places[t].name);
    kv_cell_close(&a);
    kv_cell_close(&b);
  }
}

TEST(test_twin) {
  same_twin("rest");
  same_twin("rest+kivi:group=8:residual=8");
}

/* --- what it does -------------------------------------------------------- */

/* One softmax over what is stored, at its logits, and over the tokens that
 * went, at 0; in binary64. */
static void check_rest(void *self, int layer, int step, const kv_seen *seen) {
  const kv_lane *l = seen->lane;
  int d_v = l->shape->d_v;
  float row[256];
  (void)layer;
  for (int h = 0; h < seen->queries; h++) {
    const float *s = seen->s + (size_t)h * seen->stride;
    double sum = step - l->n, out[256] = {0};
    for (int t = 0; t < step - l->n; t++) {
      kv_kernels_best()->widen(
          l->shape->dtype, kv_lane_raw_value(l, (uint32_t)t), (size_t)d_v, row);
      for (int x = 0; x < d_v; x++) out[x] += (double)row[x];
    }
    for (int i = 0; i < l->n; i++) {
      kv_lane_value(l, i, row);
      sum += exp((double)s[i]);
      for (int x = 0; x < d_v; x++)
        out[x] += exp((double)s[i]) * (double)row[x];
    }
    for (int x = 0; x < d_v; x++)
      if (!(fabs(out[x] / sum - (double)seen->out[h * d_v + x]) <= 1e-4))
        fail_msg("step %d, head %d: %g, not %g", step, h,
                 (double)seen->out[h * d_v + x], out[x] / sum);
    assert_true(fabs(log(sum) - (double)seen->lse[h]) < 1e-4);
    ++*(int *)self;
  }
}

static bool endless(const kv_at *at, const kv_lane *l, const kv_query *q,
                    float *m, float *sum, float *a) {
  (void)l, (void)q;
  for (int x = 0; x < at->shape->d_v; x++) a[x] = 0;
  *m = INFINITY;
  *sum = 1;
  return true;
}

TEST(test_bad_chunk_fails_the_cell) {
  kv_method bad = rest_method;
  kv_cell cell = {0};
  bad.chunk = endless;
  first = &bad;
  replay(&kv_backend_ref, "rest", 0, NULL, &cell);
  assert_int_equal(cell.result.status, KV_CELL_FAILED);
  assert_non_null(strstr(cell.result.reason, "the method's own chunk"));
  kv_cell_close(&cell);
}

/* Attention has room for one chunk: of two methods on a lane at most one has
 * the hook. */
TEST(test_two_chunks_are_refused) {
  kv_method coding = *kv_method_named("kivi");
  kv_cell cell = {0};
  coding.name = "coding";
  coding.chunk = endless;
  first = &coding;
  replay(&kv_backend_ref, "rest+coding", 0, NULL, &cell);
  assert_int_equal(cell.result.status, KV_CELL_REFUSED);
  assert_non_null(strstr(cell.result.reason, "both add their own chunk"));
  kv_cell_close(&cell);
}

TEST(test_rest_is_one_softmax) {
  int rows_seen = 0;
  kv_watch w = {.self = &rows_seen, .seen = check_rest};
  for (int t = 0; t < PLACES; t++) {
    kv_cell cell = {0};
    replay(&kv_backend_ref, "rest", t, &w, &cell);
    kv_cell_close(&cell);
  }
  assert_true(rows_seen > 300);
}

/* Test vectors compute outputs a second time, and refuse what is not the same.
 */
TEST(test_vectors_have_it) {
  int step[] = {80};
  int layer[] = {0, 1};
  kv_cell cell = {0};
  bool stopped;
  cells_open(trace[0], "rest", &cell);
  kv_vectors_ask ask = {.cell = &cell,
                        .steps = 1,
                        .step = step,
                        .layers = 2,
                        .layer = layer,
                        .dir = scratch_path("vectors")};
  works(kv_vectors_write(&ask, &stopped, &told));
  kv_cell_close(&cell);
}

int main(void) { return tests_run("chunk", open_traces, close_traces); }

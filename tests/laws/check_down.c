/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages downwards (KV_DOWN of ref/lane/method.h), by the method of
 * tests/made/sieve.h:
 *   - a layer attends what the layer above picked at the same step, worked out
 *     here from the logits of that layer;
 *   - digests are the same in both walks, with any number of threads, beside
 *     other cells, by a session and on the executor, alone and composed;
 *   - a session refuses a layer that is ahead of the one above it;
 *   - what was kept of some layers of a cell is replayed again, what was kept
 *     of all is not;
 *   - of two methods on a lane one may publish.
 */
#include "sim/replay/engine/cell.h"
#include "sim/run/session/session_part.h"
#include "tests/laws/cells.h"
#include "tests/made/made_up.h"
#include "tests/made/sieve.h"
#include "tests/support/backend/probe.h"
#include "tests/support/feed.h"
#include "tests/support/test.h"
#include "tests/support/traces/opened.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 6, TOKENS = 72, PROMPT = 40, HEADS = 4, KV_HEADS = 2 };

static const char composed[] = "sieve+kivi:group=8:residual=8";
static kv_trace *trace;

static int open_trace(void **state) {
  const kv_small t = {"down", LAYERS, HEADS,  KV_HEADS,
                      32,     KV_F32, TOKENS, PROMPT};
  return opened_make(state, 1, &t, 5, kv_trace_open, &trace);
}

static int close_trace(void **state) { return opened_close(state, 1, &trace); }

/* --- replays ------------------------------------------------------------ */

static void same(const kv_cell *a, const kv_cell *b, const char *how) {
  if (memcmp(a->digest, b->digest, LAYERS * sizeof *a->digest))
    fail_msg("%s: other digests", how);
}

static void must_agree(const char *text, kv_replay_how how, const char *said) {
  kv_cell a = {0}, b = {0};
  cells_run(trace, text, cells_plain, &a);
  cells_run(trace, text, how, &b);
  same(&a, &b, said);
  kv_cell_close(&a);
  kv_cell_close(&b);
}

static const char *const texts[] = {"sieve", composed};

TEST(walks_and_threads_agree) {
  for (int i = 0; i < 2; i++) {
    kv_replay_how how = cells_plain;
    how.by_steps = true;
    must_agree(texts[i], how, "step by step");
    how.threads = 3;
    must_agree(texts[i], how, "step by step, three threads");
    how.by_steps = false;
    must_agree(texts[i], how, "three threads");
    how.threads = 9;
    must_agree(texts[i], how, "more threads than layers");
  }
}

TEST(other_cells_change_nothing) {
  kv_cell alone = {0}, beside = {0}, dense = {0};
  kv_cell *both[] = {&dense, &beside};
  kv_replay_how how = cells_plain;
  how.threads = 2;
  cells_run(trace, "sieve", cells_plain, &alone);
  cells_open(trace, "sieve", &beside);
  cells_open(trace, "dense", &dense);
  cells_replay(trace, 2, both, how);
  same(&alone, &beside, "beside dense");
  kv_cell_close(&alone);
  kv_cell_close(&beside);
  kv_cell_close(&dense);
}

TEST(the_twin_agrees) {
  kv_replay_how how = cells_plain;
  how.backend = probe_backend();
  if (!how.backend) skip();
  for (int i = 0; i < 2; i++) {
    must_agree(texts[i], how, "the twin");
    how.by_steps = !how.by_steps;
  }
}

/* --- what is read -------------------------------------------------------- */

/* Of the sieve gone through last: a flag for each token picked. */
static bool picked[TOKENS + 1][KV_HEADS][TOKENS];
static int read_rows;

static float best(const kv_seen *seen, int i) {
  float most = seen->s[i];
  for (int h = 1; h < seen->queries; h++) {
    float s = seen->s[(size_t)h * seen->stride + (size_t)i];
    if (s > most) most = s;
  }
  return most;
}

/* Those that fewer than SIEVE_PICKS tokens come before. */
static void pick(const kv_seen *seen, bool *out) {
  int n = seen->lane->n;
  for (int i = 0; i < n; i++) {
    int before = 0;
    for (int j = 0; j < n; j++)
      before += best(seen, j) > best(seen, i) ||
                (j < i && best(seen, j) == best(seen, i));
    out[i] = before < SIEVE_PICKS;
  }
}

static void check_view(int step, const kv_lane *l, const kv_view *v) {
  bool in[TOKENS] = {false};
  for (int r = 0; r < v->runs; r++)
    for (int j = 0; j < v->run[r].count; j++) in[v->run[r].first + j] = true;
  for (int i = 0; i < l->n; i++) {
    bool wanted = i == l->n - 1 || picked[step][l->lane][l->id[i]];
    if (in[i] != wanted)
      fail_msg("step %d, token %u: in view %d, picked %d", step, l->id[i],
               in[i], wanted);
  }
}

static void look(void *self, int layer, int step, const kv_seen *seen) {
  const kv_lane *l = seen->lane;
  (void)self;
  if (sieve_is(layer))
    pick(seen, picked[step][l->lane]);
  else
    for (int h = 0; h < seen->queries; h++, read_rows++)
      check_view(step, l, &seen->view[h]);
}

TEST(layers_read_the_same_step) {
  kv_watch watch = {.seen = look};
  kv_replay_how how = cells_plain;
  kv_cell cell = {0};
  how.watch = &watch;
  how.fidelity = true;
  cells_run(trace, "sieve", how, &cell);
  kv_cell_close(&cell);
  assert_int_equal(read_rows, 4 * HEADS * (TOKENS - PROMPT));
}

/* --- sessions ------------------------------------------------------------ */

static kv_session *start(const char *text) {
  kv_session_shape shape = feed_shape(trace);
  kv_session *s = NULL;
  kv_spec spec = {0};
  kv_err e = {0};
  if (kv_spec_parse(made_up_at, text, &spec, &e) ||
      kv_session_open_spec(&shape, &spec, NULL, PROMPT, NULL, &s, &e))
    fail_msg("%s", e.text);
  kv_spec_free(&spec);
  feed_free(&shape);
  return s;
}

static void feed(kv_session *s, int layer, int first, int n) {
  kv_err e = {0};
  if (feed_block(s, trace, layer, first, n, NULL, &e)) fail_msg("%s", e.text);
}

static void must_end_alike(kv_session *s, const kv_cell *cell) {
  kv_session_digests d;
  kv_err e = {0};
  if (kv_session_digest(s, &d, &e)) fail_msg("%s", e.text);
  assert_memory_equal(&d.journal, &cell->result.journal, sizeof d.journal);
  assert_memory_equal(&d.output, &cell->result.output, sizeof d.output);
  kv_session_close(s);
}

TEST(sessions_agree) {
  kv_cell cell = {0};
  cells_run(trace, composed, cells_plain, &cell);
  kv_session *by_layers = start(composed), *by_steps = start(composed);
  kv_err e = {0};
  if (feed_all(by_layers, trace, 0, &e)) fail_msg("%s", e.text);
  must_end_alike(by_layers, &cell);
  for (int l = 0; l < LAYERS; l++) feed(by_steps, l, 0, 7);
  for (int l = 0; l < LAYERS; l++) feed(by_steps, l, 7, PROMPT - 7);
  for (int t = PROMPT; t < TOKENS; t++)
    for (int l = 0; l < LAYERS; l++) feed(by_steps, l, t, 1);
  must_end_alike(by_steps, &cell);
  kv_cell_close(&cell);
}

TEST(sessions_keep_the_order) {
  kv_session *s = start("sieve");
  kv_err e = {0};
  assert_int_equal(feed_block(s, trace, 1, 0, PROMPT, NULL, &e), KV_USAGE);
  assert_non_null(strstr(e.text, "layer 1: step 40 comes before layer 0 has"));
  feed(s, 0, 0, PROMPT);
  feed(s, 1, 0, PROMPT);
  feed(s, 0, PROMPT, 1);
  assert_int_equal(feed_block(s, trace, 2, 0, PROMPT, NULL, &e), KV_OK);
  assert_int_equal(feed_block(s, trace, 2, PROMPT, 1, NULL, &e), KV_USAGE);
  assert_non_null(strstr(e.text, "from the first to the last"));
  kv_session_close(s);
}

/* --- resuming ------------------------------------------------------------ */

static int keeps, replayed; /* so many layers are kept; so many ended */
static char *parts;

static kv_rc begin(void *self, int n, kv_cell *const *cell, bool *there,
                   kv_err *e) {
  size_t size = kv_partial_size(cell[0]);
  (void)self, (void)e;
  assert_int_equal(n, 1);
  for (int i = 0; i < keeps; i++)
    there[i] = kv_partial_read(cell[0], i, size, parts + (size_t)i * size);
  return KV_OK;
}
static void ended(void *self, int n, const int *at, int layer, double seconds) {
  (void)self, (void)n, (void)at, (void)layer, (void)seconds;
  replayed++;
}
static void slow(void *self, const kv_cell *first, int n, double seconds) {
  (void)self, (void)first, (void)n, (void)seconds;
}
static void end(void *self, bool cut) { (void)self, (void)cut; }

static const kv_replay_keeper keeper = {
    .most = 1e-9, .begin = begin, .ended = ended, .slow = slow, .end = end};

static void resume_whole(const char *text) {
  static const int kept[] = {0, 2, LAYERS};
  kv_cell first = {0}, again = {0};
  kv_replay_how how = cells_plain;
  how.fidelity = true;
  how.keep = &keeper;
  for (int i = 0; i < 3; i++) {
    kv_cell *out = i == 0 ? &first : &again;
    keeps = kept[i];
    replayed = 0;
    cells_run(trace, text, how, out);
    assert_int_equal(replayed, kept[i] == LAYERS ? 0 : LAYERS);
    if (i == 0) {
      size_t size = kv_partial_size(&first);
      parts = malloc(LAYERS * size);
      for (int l = 0; l < LAYERS; l++)
        kv_partial_write(&first, l, parts + (size_t)l * size);
      continue;
    }
    same(&first, &again, "resumed");
    assert_memory_equal(&first.result.totals, &again.result.totals,
                        sizeof first.result.totals);
    assert_memory_equal(first.result.stat, again.result.stat,
                        sizeof first.result.stat);
    kv_cell_close(&again);
  }
  free(parts);
  kv_cell_close(&first);
}

/* Also where rows of the prompt attend by what the layer above says. */
TEST(a_cell_is_resumed_whole) {
  resume_whole("sieve");
  resume_whole("omnikv:layers=2:k=5:prefill=16");
}

/* --- compositions --------------------------------------------------------- */

static kv_method coding; /* of kivi, and says that it publishes */

static kv_rc open_coding(const kv_shape *shape, void *params, kv_needs *needs,
                         kv_err *e) {
  needs->across = KV_DOWN;
  needs->message = 8;
  return kv_method_named("kivi")->open(shape, params, needs, e);
}

static const kv_method *with_coding(int i) {
  return i == 0 ? &coding : made_up_at(i - 1);
}

TEST(two_that_publish_are_refused) {
  kv_cell cell = {0};
  coding = *kv_method_named("kivi");
  coding.name = "coding";
  coding.open = open_coding;
  cells_ask(with_coding, trace, 0, "sieve+coding", -1, &cell);
  assert_int_equal(cell.result.status, KV_CELL_REFUSED);
  assert_non_null(strstr(cell.result.reason, "both publish messages"));
  kv_cell_close(&cell);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layers_read_the_same_step),
      cmocka_unit_test(walks_and_threads_agree),
      cmocka_unit_test(other_cells_change_nothing),
      cmocka_unit_test(the_twin_agrees),
      cmocka_unit_test(sessions_agree),
      cmocka_unit_test(sessions_keep_the_order),
      cmocka_unit_test(a_cell_is_resumed_whole),
      cmocka_unit_test(two_that_publish_are_refused),
  };
  return cmocka_run_group_tests_name("down", tests, open_trace, close_trace);
}

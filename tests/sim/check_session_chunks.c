/* SPDX-License-Identifier: Apache-2.0
 *
 * A session whose method was given prefill=N is the replay of the same tokens:
 * digests and ledger however the prompt is cut and whichever layer is ahead;
 * outputs of the prompt's rows, in any pieces, those of the first chunk being
 * what dense answers. Where layers read messages a piece ends at a chunk's end.
 * Forks: check_session_fork.
 */
#include "sim/run/laws/law_walk.h"
#include "sim/run/session/session.h"
#include "tests/support/bundled.h"
#include "tests/support/draw.h"
#include "tests/support/feed.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST = 31 }; /* tokens of the shortest chunk */

static const char *const specs[] = {
    "dense:prefill=37", "h2o:prefill=48", "snapkv+int4:prefill=31",
    "keydiff:prefill=40", "quest:page=8:skip=0:prefill=50"};
enum { SPECS = sizeof specs / sizeof *specs };

static const char down[] = "omnikv:layers=0:k=9:prefill=40";

static kv_trace *trace;

static void must(kv_rc rc, const kv_err *e) {
  if (rc) fail_msg("%s", e->text);
}

static kv_session *start(const char *text) {
  kv_session_shape x = feed_shape(trace);
  kv_session *s = NULL;
  kv_err e = {0};
  bool asks = strncmp(text, "dense", 5) && strncmp(text, "omnikv", 6);
  must(kv_session_open(&x, text, asks ? "20%" : NULL, trace->shape.prompt_len,
                       &s, &e),
       &e);
  feed_free(&x);
  return s;
}

static void replay(const char *text, const kv_watch *watch, kv_cell *out) {
  kv_spec spec = {0};
  kv_err e = {0};
  kv_law_how how = {.threads = 1, .watch = watch};
  must(kv_spec_parse(kv_method_at, text, &spec, &e), &e);
  kv_law_case c = {.backend = &kv_backend_ref,
                   .trace = trace,
                   .spec = &spec,
                   .entries = trace->shape.prompt_len / 5};
  must(kv_law_replay(&c, &how, out, &e), &e);
  kv_spec_free(&spec);
}

static void must_be_of(const kv_cell *c, kv_session *s) {
  kv_session_digests d;
  kv_session_bytes b;
  kv_err e = {0};
  must(kv_session_end_step(s, trace->shape.n_tokens, &e), &e);
  must(kv_session_ledger(s, &b, &e), &e);
  must(kv_session_digest(s, &d, &e), &e);
  if (memcmp(&d.journal, &c->result.journal, sizeof d.journal) ||
      memcmp(&d.state, &c->result.state, sizeof d.state) ||
      memcmp(&d.output, &c->result.output, sizeof d.output))
    fail_msg("%s: other digests than the replay's", c->result.spec);
  assert_memory_equal(&b.now, &c->result.totals.end, sizeof b.now);
  assert_true(b.peak == c->result.totals.peak &&
              b.mean == c->result.totals.mean);
  kv_session_close(s);
}

TEST(digests_are_of_run) {
  for (uint64_t i = 0; i < 3 * SPECS; i++) {
    kv_cell c = {0};
    kv_err e = {0};
    kv_session *s = start(specs[i % SPECS]);
    replay(specs[i % SPECS], NULL, &c);
    must(feed_all(s, trace, i < SPECS ? 0 : i, &e), &e);
    must_be_of(&c, s);
    kv_cell_close(&c);
  }
}

/* A row of the replay, of layer 0, where it stands in [n][n_heads][d_v]. */
static void keep_row(void *self, int layer, const kv_seen *seen) {
  const kv_lane *l = seen->lane;
  size_t d_v = (size_t)l->shape->d_v, heads = (size_t)l->shape->n_heads;
  float *out = self;
  out += ((size_t)(l->step - 1) * heads + (size_t)l->first_head) * d_v;
  if (layer == 0)
    memcpy(out, seen->out, (size_t)seen->queries * d_v * sizeof *out);
}

/* Of the prompt of layer 0, in pieces that the seed draws, each of `most`
 * tokens or fewer: [prompt_len][n_heads][d_v]. */
static float *outputs(const char *text, uint64_t seed, int most) {
  int p = trace->shape.prompt_len;
  size_t row = (size_t)trace->shape.n_heads * (size_t)trace->shape.d_v;
  float *out = calloc((size_t)p * row, sizeof *out);
  kv_session *s = start(text);
  kv_err e = {0};
  for (int at = 0, n; at < p; at += n) {
    n = seed ? 1 + draw_below(&seed, most) : most;
    if (n > p - at) n = p - at;
    must(feed_block(s, trace, 0, at, n, out + (size_t)at * row, &e), &e);
  }
  kv_session_close(s);
  return out;
}

TEST(rows_are_of_run) {
  int p = trace->shape.prompt_len;
  size_t row = (size_t)trace->shape.n_heads * (size_t)trace->shape.d_v;
  size_t all = (size_t)p * row * sizeof(float);
  float *dense = outputs("dense", 0, p);
  for (size_t i = 1; i < SPECS; i++) {
    float *want = outputs("dense", 0, p), *got[3];
    kv_cell c = {0};
    replay(specs[i], &(kv_watch){.self = want, .row = keep_row}, &c);
    assert_memory_equal(want, dense, LEAST * row * sizeof *want);
    assert_memory_not_equal(want, dense, all);
    got[0] = outputs(specs[i], 0, p);
    got[1] = outputs(specs[i], 7 + i, 20);
    got[2] = outputs(specs[i], 0, 1);
    for (int k = 0; k < 3; k++) {
      assert_memory_equal(want, got[k], all);
      free(got[k]);
    }
    free(want);
    kv_cell_close(&c);
  }
  free(dense);
}

TEST(messages_go_by_chunks) {
  kv_cell c = {0};
  kv_err e = {0};
  int p = trace->shape.prompt_len, n;
  kv_session *s = start(down);
  replay(down, NULL, &c);
  assert_int_equal(feed_block(s, trace, 0, 0, 37, NULL, &e), KV_USAGE);
  assert_non_null(strstr(e.text, "within a chunk of prefill=40"));
  for (int at = 0; at < trace->shape.n_tokens; at += n) {
    n = at >= p ? 1 : p - at < 80 ? p - at : 80;
    for (int l = 0; l < trace->n_layers; l++)
      must(feed_block(s, trace, l, at, n, NULL, &e), &e);
  }
  must_be_of(&c, s);
  kv_cell_close(&c);
}

static int set_up(void **state) {
  (void)state;
  trace = bundled_open("retrieval_8_small.f32.safetensors");
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  kv_trace_close(trace);
  return 0;
}

int main(void) { return tests_run("session in chunks", set_up, tear_down); }

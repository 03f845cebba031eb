/* SPDX-License-Identifier: Apache-2.0
 *
 * What a replay asks of a device, counted: a decode step of a layer and cell
 * is one start, one recorded sequence, one copy and one wait, for any method,
 * number of lanes and number of heads; now and then a copy and a wait more,
 * where a report is longer than the last one was, or than the room for it; and
 * where a lane holds more than ever before, memory for more rows and one copy
 * of its addresses. What is copied is bounded by what the step changed. Rows go
 * up once a layer for all cells; a prompt that is taken token by token is so
 * many steps. Logits come back only to who measures them,
 * scores to who asks, in the same report. Only counts: no clock.
 */
#include "sim/ask/spec.h"
#include "sim/replay/engine/replay.h"
#include "tests/laws/cells.h"
#include "tests/support/backend/gpudevice.h"
#include "tests/support/bundled.h"
#include "tests/support/scratch.h"
#include "traces/trace/small.h"

#include "gpu/shared/lane.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 264, PROMPT = 200, BUDGET = 48, CELLS = 4, LAYERS = 2 };

static const kv_backend *backend;
static char small[512], large[512];
static bool scores; /* are asked for */
static int prompt;  /* the trace's own: 0 */

/* --- a replay, step by step ---------------------------------------------- */

typedef struct traffic {
  gpudevice_count last;
  int64_t steps, most_ops, ops; /* of decode steps; recording aside */
  int64_t prompt;               /* calls of the prompts, with their uploads */
  int64_t most_read, most_sent, read;
} traffic;

static int64_t ops_of(const gpudevice_count *a, const gpudevice_count *b) {
  int64_t recording = 0, n = 0;
  for (int k = 0; k < GPUDEVICE_KINDS; k++) n += b->call[k] - a->call[k];
  recording = b->records - a->records;
  return n - recording;
}

static void tick(void *self, int64_t units) {
  traffic *t = self;
  gpudevice_count now = gpudevice_counted();
  if (units == PROMPT) t->prompt += ops_of(&t->last, &now);
  if (units == 1) {
    int64_t ops = ops_of(&t->last, &now), read = now.read - t->last.read;
    int64_t sent = now.sent - t->last.sent;
    t->steps++;
    t->ops += ops;
    t->read += read;
    if (ops > t->most_ops) t->most_ops = ops;
    if (read > t->most_read) t->most_read = read;
    if (sent > t->most_sent) t->most_sent = sent;
  }
  t->last = now;
}

static int polls, stop_at; /* 0: nobody asks to stop */
static bool stop(void) { return ++polls >= stop_at; }

/* Returns the counts of the whole replay. */
static gpudevice_count replay(const char *path, int n, const char *const *text,
                              bool fidelity, traffic *t) {
  kv_trace *trace = NULL;
  kv_cell cell[CELLS], *each[CELLS];
  kv_err e = {0};
  bool stopped;
  kv_replay_how how = {.backend = backend,
                       .kernels = kv_kernels_best(),
                       .threads = 1,
                       .fidelity = fidelity,
                       .scores = scores,
                       .tick = tick,
                       .stop = stop_at ? stop : NULL,
                       .self = t};
  gpudevice_reset();
  *t = (traffic){0};
  assert_true(n <= CELLS);
  if (kv_trace_open(path, &trace, &e)) fail_msg("%s", e.text);
  for (int i = 0; i < n; i++)
    cells_must(kv_method_at, trace, prompt, text[i], BUDGET,
               each[i] = &cell[i]);
  if (kv_replay(trace, each, n, &how, &stopped, &e)) fail_msg("%s", e.text);
  for (int i = 0; i < n; i++) {
    if (!stopped && !kv_result_ran(&cell[i].result))
      fail_msg("%s", cell[i].result.reason);
    kv_cell_close(&cell[i]);
  }
  kv_trace_close(trace);
  assert_int_equal(gpudevice_held(), 0);
  return gpudevice_counted();
}

/* --- bounds --------------------------------------------------------------- */

/* Per method: bytes a step may read beside the fixed part: of each entry of
 * each lane, and of each lane; of that at most, and on average. */
typedef struct bound {
  const char *spec;
  int entries; /* most a lane holds before it compresses */
  int runs;    /* most of a view */
  int entry, lane, usual;
  bool grows; /* holds more rows in decoding than of the prompt */
} bound;

/* id, weight, class; columns twice; sides; last. Merging: a row in the log and
 * its two blocks; coding: as many rows as a group has, and the blocks. */
static const bound bounds[] = {
    {"h2o", BUDGET + 1, 1, 8 + 16, 64, 64, false},
    {"quest", TOKENS, BUDGET / 2, 0, 0, 0, true},
    {"kivi", TOKENS, 1, 8 + 16, 50000, 1024, false},
    {"zsmerge", BUDGET + 1, 1, 8 + 1 + 8 + 16 + 4, 512, 512, false},
    {"snapkv", TOKENS, 1, 8, 64, 64, false},
    {"streamingllm", BUDGET + 1, 1, 8, 64, 64, false},
    {"tova", BUDGET + 1, 1, 8, 64, 64, false},
    {"dense", TOKENS, 1, 0, 0, 0, true},
};
enum { BOUNDS = sizeof bounds / sizeof *bounds };

typedef struct shape {
  const char *path;
  int heads, kv_heads, d;
} shape;

/* An eighth and 4096 bytes are fetched in advance. */
static int64_t bytes_of(const bound *b, const shape *s, int of_lane) {
  int64_t head = (int64_t)(s->d + 1) * 4 + 64 + 2 * 32 + 8 * (int64_t)b->runs;
  kv_needs most = {.codings = 2};
  int64_t pieces = KV_GPU_SAY_ALL(&most) + KV_MAX_COLUMNS;
  int64_t lane = (int64_t)sizeof(kv_gpu_lane) + pieces * (32 + 16) + of_lane +
                 (int64_t)b->entries * b->entry;
  return (1024 + s->heads * head + s->kv_heads * lane) * 9 / 8 + 4096;
}

static void check_steps(const bound *b, const shape *s, int steps) {
  traffic t;
  replay(s->path, 1, &b->spec, false, &t);
  int64_t most = bytes_of(b, s, b->lane), usual = bytes_of(b, s, b->usual);
  int64_t pages = 2 * s->kv_heads * kv_gpu_pages(TOKENS);
  assert_int_equal(t.steps, steps);
  assert_int_equal(t.most_sent, b->grows ? pages * (int)sizeof(char *) : 0);
  /* A report that is longer than the last: two more; one that is longer than
   * its room: a window, three more. Pages: two more. */
  if (t.most_ops > (b->lane > b->usual ? 9 : 6) + 2 * b->grows)
    fail_msg("%s: %d calls", b->spec, (int)t.most_ops);
  if (t.ops > 4 * t.steps + t.steps / 8)
    fail_msg("%s: %d calls in %d steps", b->spec, (int)t.ops, (int)t.steps);
  if (t.most_read > most)
    fail_msg("%s: %d bytes in a step, not %d", b->spec, (int)t.most_read,
             (int)most);
  if (t.read > usual * t.steps)
    fail_msg("%s: %d bytes a step, not %d", b->spec, (int)(t.read / t.steps),
             (int)usual);
}

static void check_method(const bound *b, const shape *s) {
  check_steps(b, s, LAYERS * (TOKENS - PROMPT));
}

static const shape *small_shape(void) {
  static shape s = {small, 4, 2, 32};
  return &s;
}
static const shape *large_shape(void) {
  static shape s = {large, 16, 8, 32};
  return &s;
}

TEST(test_step) {
  for (int i = 0; i < BOUNDS; i++) check_method(&bounds[i], small_shape());
}

TEST(test_heads) {
  for (int i = 0; i < BOUNDS; i++) check_method(&bounds[i], large_shape());
}

/* With weights, which lie beside a trace of six layers and 400 tokens: of palu
 * a row in the log and its two blocks a step. */
TEST(test_weights) {
  enum { ALL = 400, LONG = 385 };
  static const bound of[] = {
      {"palu", ALL, 1, 8 + 16, 2048, 2048, false},
      {"palu:latent=int4", ALL, 1, 8 + 16, 2048, 2048, false}};
  char *path = bundled_path("text_400.safetensors");
  const shape s = {path, 8, 2, 64};
  prompt = LONG;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++)
    check_steps(&of[i], &s, 6 * (ALL - LONG));
  prompt = 0;
  free(path);
}

/* --- once a layer --------------------------------------------------------- */

TEST(test_uploads) {
  static const char *const cells[CELLS] = {"h2o", "kivi", "quest", "snapkv"};
  traffic t;
  int64_t one = replay(small, 1, cells, false, &t).puts;
  gpudevice_count all = replay(small, CELLS, cells, false, &t);
  int64_t rows = LAYERS * (4 + 2 + 2) * TOKENS * 32 * 4;
  /* params; K, V, q; lanes, bad; in the first layer pages for the prompt */
  assert_int_equal(one, 1 + LAYERS * (3 + 2) + 1);
  /* and the settings of kivi's two codings; pages once more for quest */
  assert_int_equal(all.puts, CELLS + 2 + LAYERS * (3 + 2 * CELLS) + CELLS + 1);
  assert_int_equal(all.gets, 0);
  assert_in_range(all.sent, rows, rows + LAYERS * CELLS * 16384);
}

TEST(test_logits) {
  static const char *const dense = "dense";
  traffic without, with;
  replay(small, 1, &dense, false, &without);
  replay(small, 1, &dense, true, &with);
  int64_t logits = 0;
  for (int t = PROMPT; t < TOKENS; t++) logits += LAYERS * 4 * 4 * (t + 1);
  assert_true(with.read - without.read >= logits);
  assert_true(with.read - without.read < logits * 2);
}

/* What selections are shown comes with what else there is: no more calls, and
 * no more bytes than so many lists of a step. */
TEST(test_scores) {
  static const struct {
    const char *spec;
    int lists, n; /* a layer and step; scores of one, at least */
  } shown[] = {{"quest:skip=0:page=8", 4, PROMPT / 8},
               {"h2o", 2, BUDGET / 2},
               {"tova", 1, BUDGET},
               {"oracle-topk", 4, PROMPT},
               {"dense", 0, 0}};
  for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
    traffic without, with;
    replay(small, 1, &shown[i].spec, false, &without);
    scores = true;
    replay(small, 1, &shown[i].spec, false, &with);
    scores = false;
    int64_t lists = with.steps * shown[i].lists, structs = with.steps * 512;
    int64_t more = with.read - without.read;
    if (with.ops > 4 * with.steps + with.steps / 8 ||
        with.most_sent != without.most_sent)
      fail_msg("%s: %d calls in %d steps", shown[i].spec, (int)with.ops,
               (int)with.steps);
    if (more < lists * 4 * shown[i].n || more > lists * 4 * TOKENS + structs)
      fail_msg("%s: %d bytes more", shown[i].spec, (int)more);
  }
}

/* A prompt that is taken token by token: each is one start, one recorded
 * sequence, one copy and one wait, as a decode step is. Before the first come
 * the layer's uploads, and pages for the rows. */
TEST(test_blocks) {
  static const char *const zsmerge = "zsmerge";
  traffic t;
  replay(small, 1, &zsmerge, false, &t);
  if (t.prompt > LAYERS * (4 * PROMPT + PROMPT / 4))
    fail_msg("%d calls for %d blocks", (int)t.prompt, LAYERS * PROMPT);
}

/* Who says stop while a prompt begins gets no tile of its observation. */
TEST(test_stop) {
  static const char *const h2o = "h2o";
  traffic t;
  stop_at = 1 << 30;
  int64_t whole = replay(small, 1, &h2o, false, &t).call[GPUDEVICE_START];
  for (int at = 1; at < 3; at++) {
    polls = 0;
    stop_at = at;
    int64_t some = replay(small, 1, &h2o, false, &t).call[GPUDEVICE_START];
    if (some > 8)
      fail_msg("stopped at question %d: %d starts of %d", at, (int)some,
               (int)whole);
  }
  stop_at = 0;
}

/* A prompt that is coded at once is longer than the room for a report. */
TEST(test_windows) {
  static const char *const kivi = "kivi";
  traffic t;
  gpudevice_count c = replay(small, 1, &kivi, false, &t);
  assert_true(c.windows > 0);
}

static void make_trace(char *path, const char *name, int heads, int kv_heads) {
  const kv_small t = {"traffic", LAYERS, heads,  kv_heads,
                      32,        KV_F32, TOKENS, PROMPT};
  kv_err e = {0};
  snprintf(path, 512, "%s", scratch_path(name));
  if (kv_small_write(&t, 3, path, &e)) fail_msg("%s", e.text);
}

static int setup(void **state) {
  if (scratch_make(state)) return 1;
  make_trace(small, "small.safetensors", 4, 2);
  make_trace(large, "large.safetensors", 16, 8);
  return 0;
}

int main(void) {
  backend = gpudevice_open();
  if (!backend) return 77;
  return tests_run("gpu_traffic", setup, scratch_remove);
}

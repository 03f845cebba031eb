/* SPDX-License-Identifier: Apache-2.0
 *
 * A session (sim/run/session/session.h) and a replay of the same tokens are one
 * thing:
 *   - on every bundled trace every method of the registry, and variants that
 *     enter in blocks, re-index or keep a lane a query head, has the digests
 *     and the ledger of the replay, however the prompt is cut and whichever
 *     layer is ahead; so has a made-up method with blocks of seven;
 *   - lanes, views, outputs and LSE are the replay's at every step;
 *   - a prompt token's output is what dense answers at that step, in any
 *     pieces;
 *   - so it is where layers have windows and sinks and logits a cap, and where
 *     the prompt is read in chunks (prefill=N), whose rows are the replay's;
 *   - what is held (kv_session_held) is what the next decode step attends: a
 *     dense session that is fed these rows answers bit for bit the same;
 *   - sessions in two threads do not touch.
 * What is refused, and strides and dtypes: check_session_calls. Forks:
 * check_session_fork.
 */
#include "sim/run/laws/law_walk.h"
#include "sim/run/session/session_part.h"
#include "tests/made/made_up.h"
#include "tests/support/bundled.h"
#include "tests/support/draw.h"
#include "tests/support/feed.h"
#include "tests/support/rig.h"
#include "tests/support/scratch.h"
#include "tests/support/told.h"
#include "tests/support/traces/opened.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kv_spec parse(const char *text) {
  kv_spec spec = {0};
  works(kv_spec_parse(made_up_at, text, &spec, &told));
  return spec;
}

static int fifth(const kv_trace *t) { return t->shape.prompt_len / 5; }

/* The replay of a specification at 20 % of the prompt. */
static void replay(const kv_trace *t, const char *text, const kv_watch *watch,
                   kv_cell *out) {
  kv_spec spec = parse(text);
  kv_law_case c = {.backend = &kv_backend_ref,
                   .trace = t,
                   .spec = &spec,
                   .entries = fifth(t)};
  kv_law_how how = {.threads = 1, .watch = watch};
  works(kv_law_replay(&c, &how, out, &told));
  kv_spec_free(&spec);
}

static kv_session *start(const kv_trace *t, const char *text, int prompt_len) {
  kv_spec spec = parse(text);
  kv_session_shape x = feed_shape(t);
  kv_session *s = NULL;
  char budget[16];
  snprintf(budget, sizeof budget, "%d", fifth(t));
  works(kv_session_open_spec(&x, &spec, budget, prompt_len, NULL, &s, &told));
  feed_free(&x);
  kv_spec_free(&spec);
  return s;
}

/* Ends the session: fails unless its digests and ledger are the replay's. */
static void end_as(kv_session *s, kv_cell *c) {
  kv_session_digests d;
  kv_session_bytes b;
  const kv_totals *t = &c->result.totals;
  works(kv_session_end_step(s, c->shape.n_tokens, &told));
  works(kv_session_ledger(s, &b, &told));
  assert_int_equal(b.step, c->shape.n_tokens);
  assert_memory_equal(&b.now, &t->end, sizeof t->end);
  assert_true(b.peak == t->peak && b.mean == t->mean);
  works(kv_session_digest(s, &d, &told));
  if (memcmp(&d.journal, &c->result.journal, sizeof d.journal) ||
      memcmp(&d.state, &c->result.state, sizeof d.state) ||
      memcmp(&d.output, &c->result.output, sizeof d.output))
    fail_msg("%s on %s: other digests than the replay's", c->result.spec,
             c->trace->name);
  assert_string_equal(kv_session_spec(s), c->result.spec);
  kv_session_close(s);
  kv_cell_close(c);
}

/* --- digests of the replay ---------------------------------------------- */

static void check_spec(const kv_trace *t, const char *text, uint64_t seed) {
  kv_cell c = {0};
  replay(t, text, NULL, &c);
  kv_session *s = start(t, text, t->shape.prompt_len);
  /* Where layers read what those above publish, layer by layer. */
  bool down = c.plan.needs.across == KV_DOWN;
  works(feed_all(s, t, down ? 0 : seed, &told));
  end_as(s, &c);
}

static const char *const variants[] = {
    "snapkv:budget=34/9/20/60:grow=no:every=40",
    "h2o:budget=34/9/20/60",
    "zsmerge:variant=paper",
    "h2o:group=query_head",
    "snapkv:group=query_head:pooling=avg",
    "streamingllm:positions=original",
    "snapkv:group=max:grow=no:every=40",
    "pyramidkv:window=8:sinks=1:grow=past_more",
    "adakv:grow=no:every=40",
    "kivi:group=8:residual=16:variant=code",
    "quest:page=8:skip=0",
    "int4:key_bias=subtract:rotate=keys",
    "snapkv+nvfp4:scale=tensor",
    "mad",
    "rest",
    "rest+kivi:group=8:residual=8"};
enum { VARIANTS = sizeof variants / sizeof *variants };
static const char *const chunked[] = {"dense:prefill=37",
                                      "h2o:prefill=48",
                                      "snapkv+int4:prefill=31",
                                      "keydiff:prefill=40",
                                      "quest:page=8:skip=0:prefill=50",
                                      "int4:key_bias=mean:prefill=37"};
enum { CHUNKED = sizeof chunked / sizeof *chunked };
enum { LEAST_CHUNK = 31 }; /* tokens of the shortest of these */

static void check_methods(const kv_trace *t) {
  for (int i = 0; kv_method_at(i); i++)
    if (rig_in_session(kv_method_at(i)))
      check_spec(t, kv_method_at(i)->name, (uint64_t)i + 1);
}

/* A sanitizer makes this slow, and sees in a small trace what it would in a
 * large one. */
#ifdef __SANITIZE_ADDRESS__
enum { LEAST = 2 };
static const char *const part = "_small";
#else
enum { LEAST = 6 };
static const char *const part = "";
#endif

/* Not the long traces: one lacks query rows of its prompt, which a session has
 * to be given, and what 1,500 steps show, 300 do. */
TEST(digests_are_of_run) {
  char folder[1024];
  const char *top = getenv("top_srcdir");
  snprintf(folder, sizeof folder, "%s/traces/tiny", top ? top : ".");
  DIR *d = opendir(folder);
  int seen = 0;
  assert_non_null(d);
  for (struct dirent *f; (f = readdir(d));) {
    const char *end = strrchr(f->d_name, '.');
    if (!end || strcmp(end, ".safetensors") != 0) continue;
    if (!strstr(f->d_name, part)) continue;
    kv_trace *t = bundled_open(f->d_name);
    int short_one = t->shape.n_tokens <= 1000;
    if (short_one) check_methods(t);
    kv_trace_close(t);
    seen += short_one;
  }
  closedir(d);
  assert_true(seen >= LEAST);
}

static void check_list(const kv_trace *t, size_t n, const char *const *list) {
  for (size_t i = 0; i < n; i++) check_spec(t, list[i], (uint64_t)i + 91);
}

TEST(variants_are_of_run) {
  static float bias[4096];
  uint64_t seed = 9;
  kv_trace *t = bundled_open("retrieval_8_small.f32.safetensors");
  assert_true(t->shape.n_kv_heads * t->shape.d <= 4096);
  for (int i = 0; i < 4096; i++) bias[i] = (float)draw_below(&seed, 9) - 4;
  for (int i = 0; i < t->n_layers; i++) t->layer[i].data.k_bias = bias;
  check_list(t, VARIANTS, variants);
  check_list(t, CHUNKED, chunked);
  kv_trace_close(t);
}

/* --- lanes, views, outputs ---------------------------------------------- */

static uint64_t mix(uint64_t h, size_t n, const void *data) {
  const unsigned char *p = data;
  for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;
  return h;
}

/* Everything of all steps in one number, in whatever order it comes. */
typedef struct sums {
  int prompt_len;
  uint64_t lanes, views, outputs;
} sums;

static uint64_t key(int layer, int step, int index) {
  int x[3] = {layer, step, index};
  return mix(0xcbf29ce484222325u, sizeof x, x);
}

static void saw(void *self, int layer, int step, const kv_seen *seen) {
  sums *n = self;
  const kv_lane *l = seen->lane;
  size_t d_v = (size_t)l->shape->d_v;
  for (int h = 0; h < seen->queries; h++) {
    uint64_t v = key(layer, step, l->first_head + h), o = v;
    for (int r = 0; r < seen->view[h].runs; r++)
      v = mix(v, (size_t)seen->view[h].run[r].count * 4,
              l->id + seen->view[h].run[r].first);
    o = mix(o, d_v * 4, seen->out + (size_t)h * d_v);
    n->views += v;
    n->outputs += mix(o, 4, seen->lse + h);
  }
}

static void compressed(void *self, int layer, int step, const kv_lane *l) {
  sums *n = self;
  if (step < n->prompt_len) return; /* a piece may pass several blocks */
  uint64_t h = mix(key(layer, step, l->lane), (size_t)l->n * 4, l->id);
  n->lanes += mix(h, (size_t)l->n * 4, l->weight);
}

static void look(kv_session *s, const kv_trace *t, int layer, int step,
                 const float *out, sums *n) {
  static uint32_t id[4096], weight[4096];
  float lse[64];
  size_t d_v = (size_t)t->shape.d_v;
  int m = 0;
  for (int i = 0; i < kv_session_lanes(s); i++) {
    works(kv_session_lane(s, layer, i, 4096, id, weight, &m, &told));
    uint64_t h = mix(key(layer, step, i), (size_t)m * 4, id);
    n->lanes += mix(h, (size_t)m * 4, weight);
  }
  if (step == t->shape.prompt_len) return;
  works(kv_session_lse(s, layer, lse, &told));
  for (int h = 0; h < t->shape.n_heads; h++) {
    works(kv_session_view(s, layer, h, 4096, id, &m, &told));
    n->views += mix(key(layer, step, h), (size_t)m * 4, id);
    uint64_t o = mix(key(layer, step, h), d_v * 4, out + (size_t)h * d_v);
    n->outputs += mix(o, 4, lse + h);
  }
}

TEST(steps_are_of_run) {
  /* Compression at every step, so that the replay tells of every lane. */
  static const char *const specs[] = {"h2o", "zsmerge:variant=paper",
                                      "h2o:group=query_head", "mad"};
  kv_trace *t = bundled_open(BUNDLED_SMALL);
  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
    kv_cell c = {0};
    int p = t->shape.prompt_len;
    sums a = {.prompt_len = p}, b = {.prompt_len = p};
    kv_watch watch = {.self = &a, .compressed = compressed, .seen = saw};
    replay(t, specs[i], &watch, &c);
    kv_session *s = start(t, specs[i], p);
    for (int l = 0; l < t->n_layers; l++) {
      float out[1024];
      int layer = t->layer[l].data.layer;
      works(feed_block(s, t, l, 0, p, NULL, &told));
      look(s, t, layer, p, NULL, &b);
      for (int step = p + 1; step <= t->shape.n_tokens; step++) {
        works(feed_block(s, t, l, step - 1, 1, out, &told));
        look(s, t, layer, step, out, &b);
      }
    }
    assert_true(a.lanes == b.lanes && a.views == b.views &&
                a.outputs == b.outputs);
    kv_session_close(s);
    kv_cell_close(&c);
  }
  kv_trace_close(t);
}

/* --- outputs of the prompt ---------------------------------------------- */

/* Outputs of tokens 0..n-1 of layer 0: [n][n_heads][d_v]. The prompt comes in
 * pieces of `most` tokens, or of fewer, as the seed draws. */
static float *outputs(const kv_trace *t, const char *text, int prompt_len,
                      int n, int most, uint64_t seed) {
  size_t row = (size_t)t->shape.n_heads * (size_t)t->shape.d_v;
  float *out = kv_zalloc((size_t)n * row, sizeof *out);
  kv_session *s = start(t, text, prompt_len);
  for (int first = 0, m; first < n; first += m) {
    int left = first < prompt_len ? prompt_len - first : 1;
    if (left > most) left = most;
    m = seed ? 1 + draw_below(&seed, left) : left;
    if (m > n - first) m = n - first;
    works(feed_block(s, t, 0, first, m, out + (size_t)first * row, &told));
  }
  kv_session_close(s);
  return out;
}

static void same_outputs(const kv_trace *t, int n, float *a, float *b) {
  size_t row = (size_t)t->shape.n_heads * (size_t)t->shape.d_v;
  assert_memory_equal(a, b, (size_t)n * row * sizeof *a);
  free(a);
  free(b);
}

TEST(prompt_outputs_are_exact) {
  kv_trace *t = bundled_open("retrieval_8_small.f32.safetensors");
  int p = t->shape.prompt_len;
  /* A prompt token of any method with block = 0 sees all before it, as a
   * decode step of dense does; the first block of others too. */
  same_outputs(t, p, outputs(t, "dense", 1, p, p, 0),
               outputs(t, "dense", p, p, p, 0));
  same_outputs(t, p, outputs(t, "dense", 1, p, p, 0),
               outputs(t, "h2o", p, p, p, 3));
  same_outputs(t, 7, outputs(t, "dense", 1, 7, p, 0),
               outputs(t, "mad", p, 7, p, 4));
  same_outputs(t, p, outputs(t, "mad", p, p, p, 0),
               outputs(t, "mad", p, p, p, 5));
  /* Re-indexed places are the recorded ones while nothing is dropped. */
  same_outputs(t, p, outputs(t, "dense", 1, p, p, 0),
               outputs(t, "streamingllm", p, p, p, 6));
  kv_trace_close(t);
}

/* --- windows ------------------------------------------------------------ */

/* Layers with a window and without, sinks, a cap: left to their windows and
 * within them. */
static const char *const windowed[] = {
    "dense",
    "h2o",
    "snapkv:grow=no:every=9",
    "quest:page=8:skip=0",
    "h2o:windowed=compress",
    "pyramidkv:grow=no:every=40:windowed=compress",
    "kivi:group=8:residual=16:windowed=compress"};

TEST(windows_are_of_run) {
  kv_trace *t = opened_windows(kv_law_open);
  check_list(t, sizeof windowed / sizeof *windowed, windowed);
  int p = t->shape.prompt_len;
  same_outputs(t, p, outputs(t, "dense", 1, p, p, 0),
               outputs(t, "h2o", p, p, p, 3));
  kv_trace_close(t);
}

/* --- prompts in chunks --------------------------------------------------- */

/* A row of the replay, of layer 0, where it stands in [n][n_heads][d_v]. */
static void keep_row(void *self, int layer, const kv_seen *seen) {
  const kv_lane *l = seen->lane;
  size_t d_v = (size_t)l->shape->d_v, heads = (size_t)l->shape->n_heads;
  float *out = self;
  out += ((size_t)(l->step - 1) * heads + (size_t)l->first_head) * d_v;
  if (layer == 0)
    memcpy(out, seen->out, (size_t)seen->queries * d_v * sizeof *out);
}

TEST(rows_are_of_run) {
  kv_trace *t = bundled_open("retrieval_8_small.f32.safetensors");
  int p = t->shape.prompt_len;
  size_t row = (size_t)t->shape.n_heads * (size_t)t->shape.d_v;
  size_t all = (size_t)p * row * sizeof(float);
  float *dense = outputs(t, "dense", p, p, p, 0);
  for (size_t i = 1; i < CHUNKED; i++) {
    float *want = outputs(t, "dense", p, p, p, 0), *got[3];
    kv_cell c = {0};
    replay(t, chunked[i], &(kv_watch){.self = want, .row = keep_row}, &c);
    assert_memory_equal(want, dense, LEAST_CHUNK * row * sizeof *want);
    assert_memory_not_equal(want, dense, all);
    got[0] = outputs(t, chunked[i], p, p, p, 0);
    got[1] = outputs(t, chunked[i], p, p, 20, 7 + i);
    got[2] = outputs(t, chunked[i], p, p, 1, 0);
    for (int k = 0; k < 3; k++) {
      assert_memory_equal(want, got[k], all);
      free(got[k]);
    }
    free(want);
    kv_cell_close(&c);
  }
  free(dense);
  kv_trace_close(t);
}

/* Where layers read messages a piece ends at a chunk's end. */
TEST(messages_go_by_chunks) {
  static const char down[] = "omnikv:layers=0:k=9:prefill=40";
  kv_cell c = {0};
  kv_trace *t = bundled_open("retrieval_8_small.f32.safetensors");
  int p = t->shape.prompt_len, n;
  kv_session *s = start(t, down, p);
  replay(t, down, NULL, &c);
  fails(feed_block(s, t, 0, 0, 37, NULL, &told), KV_USAGE,
        "within a chunk of prefill=40");
  for (int at = 0; at < t->shape.n_tokens; at += n) {
    n = at >= p ? 1 : p - at < 80 ? p - at : 80;
    for (int l = 0; l < t->n_layers; l++)
      works(feed_block(s, t, l, at, n, NULL, &told));
  }
  end_as(s, &c);
  kv_trace_close(t);
}

/* --- what is held --------------------------------------------------------- */

/* A session of the method, layer 0's prompt fed. */
static kv_session *prompted(const kv_trace *t, const char *spec) {
  int p = t->shape.prompt_len;
  kv_session *s = start(t, spec, p);
  works(feed_block(s, t, 0, 0, p, NULL, &told));
  return s;
}

/* Rows of token `token` of the heads from `head` on. */
static kv_session_in row(const kv_trace *t, const void *data, kv_dtype type,
                         int width, int head, int token) {
  int64_t each = (int64_t)t->shape.n_tokens * width;
  int64_t skip = (head * each + (int64_t)token * width);
  return (kv_session_in){(const char *)data +
                             skip * (int64_t)kv_dtype_size(type),
                         (int32_t)type, width, each};
}

/* What dense attends to those n rows and the first decode step's: out of the
 * query heads [queries][d_v] of KV head g. */
static void attend(const kv_trace *t, int g, int n, const float *k,
                   const float *v, float *out) {
  const kv_shape *p = &t->shape;
  const kv_layer_data *data = &t->layer[0].data;
  int queries = p->n_heads / p->n_kv_heads, token = p->prompt_len;
  kv_session_shape x = {.abi = KV_SESSION_ABI,
                        .n_layers = 1,
                        .n_heads = queries,
                        .n_kv_heads = 1,
                        .d = p->d,
                        .d_v = p->d_v,
                        .n_tokens = n + 1,
                        .dtype = KV_F32,
                        .scale = p->scale};
  float *none = calloc((size_t)(queries * n * p->d), sizeof *none);
  kv_session_in q = {none, KV_F32, p->d, (int64_t)n * p->d},
                key = {k, KV_F32, p->d, (int64_t)n * p->d},
                value = {v, KV_F32, p->d_v, (int64_t)n * p->d_v};
  kv_session *s = NULL;
  works(kv_session_open(&x, "dense", NULL, n, &s, &told));
  works(kv_session_block(s, 0, n, n, &q, &key, &value, NULL, &told));
  q = row(t, data->q, data->q_dtype, p->d, g * queries, token);
  key = row(t, data->k, p->dtype, p->d, g, token);
  value = row(t, data->v, p->dtype, p->d_v, g, token);
  kv_session_out to = {out, KV_F32, p->d_v, p->d_v};
  works(kv_session_block(s, 0, n + 1, 1, &q, &key, &value, &to, &told));
  kv_session_close(s);
  free(none);
}

TEST(what_is_held_is_attended) {
  static const char *const specs[] = {"snapkv",
                                      "adakv",
                                      "zsmerge:merge_bias=0",
                                      "kivi:group=16:residual=16",
                                      "leankv",
                                      "snapkv+int4",
                                      "dense"};
  kv_trace *t = bundled_open(BUNDLED_SMALL);
  const kv_shape *p = &t->shape;
  int layer = t->layer[0].data.layer;
  size_t group = (size_t)(p->n_heads / p->n_kv_heads * p->d_v);
  float *want = calloc((size_t)(p->n_heads * p->d_v), sizeof *want);
  float *own = calloc(group * (size_t)p->n_kv_heads, sizeof *own);
  float *k = calloc((size_t)(p->n_tokens * p->d), sizeof *k);
  float *v = calloc((size_t)(p->n_tokens * p->d_v), sizeof *v);
  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
    kv_session *s = prompted(t, specs[i]);
    for (int g = 0, n = 0; g < p->n_kv_heads; g++) {
      works(kv_session_lane(s, layer, g, 0, NULL, NULL, &n, &told));
      works(kv_session_held(s, layer, g, n, k, v, &told));
      attend(t, g, n, k, v, own + (size_t)g * group);
    }
    works(feed_block(s, t, 0, p->prompt_len, 1, want, &told));
    if (memcmp(own, want, group * (size_t)p->n_kv_heads * sizeof *own))
      fail_msg("%s: another output than over the rows it holds", specs[i]);
    kv_session_close(s);
  }
  free(want), free(own), free(k), free(v);
  kv_trace_close(t);
}

TEST(room_is_kept) {
  kv_trace *t = bundled_open(BUNDLED_SMALL);
  kv_session *s = prompted(t, "snapkv");
  float k[3 * 256], first[256];
  int layer = t->layer[0].data.layer, d = t->shape.d;
  k[2 * d] = 77;
  works(kv_session_held(s, layer, 0, 2, k, NULL, &told));
  assert_true(k[2 * d] == 77);
  works(kv_session_held(s, layer, 0, 1, first, NULL, &told));
  assert_memory_equal(k, first, (size_t)d * sizeof *k);
  works(kv_session_held(s, layer, 0, -1, k, NULL, &told));
  assert_int_equal(kv_session_held(s, layer, 99, 1, k, NULL, &told), KV_USAGE);
  assert_int_equal(kv_session_held(s, 99, 0, 1, k, NULL, &told), KV_USAGE);
  assert_int_equal(kv_session_held(NULL, 0, 0, 1, k, NULL, &told), KV_USAGE);
  kv_session_close(s);
  kv_trace_close(t);
}

/* Attention that is more, or less, than that over the rows. */
TEST(more_than_rows_is_refused) {
  static const struct {
    const char *spec, *says;
  } cases[] = {
      {"quest:page=8:skip=0", "reads only some of its entries"},
      {"twilight:skip=0", "reads only some of its entries"},
      {"oracle-topk", "reads only some of its entries"},
      {"hardkv", "reads only some of its entries"},
      {"omnikv:layers=1", "reads only some of its entries"},
      {"quest:page=8:skip=0+int4", "reads only some of its entries"},
      {"streamingllm", "rotates keys to new positions"},
      {"zsmerge:variant=paper", "adds to the logits of merged entries"}};
  kv_trace *t = bundled_open(BUNDLED_SMALL);
  int layer = t->layer[0].data.layer;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kv_session *s = prompted(t, cases[i].spec);
    fails(kv_session_held(s, layer, 0, 0, NULL, NULL, &told), KV_REFUSED,
          cases[i].says);
    kv_session_close(s);
  }
  kv_trace_close(t);
}

/* Outputs of the prompt find the logit, before anything has been kept. */
TEST(nothing_is_kept) {
  enum { P = 4, D = 2 };
  float one[P * 2 * D], wild[P * 2 * D], out[P * 2 * D];
  kv_session_shape x = {.abi = KV_SESSION_ABI,
                        .n_layers = 2,
                        .n_heads = 2,
                        .n_kv_heads = 2,
                        .d = D,
                        .d_v = D,
                        .n_tokens = P + 1,
                        .dtype = KV_F32};
  for (int i = 0; i < P * 2 * D; i++) one[i] = 1, wild[i] = 3e38f;
  kv_session_in in = {one, KV_F32, 2 * D, D}, q = {wild, KV_F32, 2 * D, D};
  kv_session_out to = {out, KV_F32, 2 * D, D};
  kv_session *s = NULL;
  works(kv_session_open(&x, "replay", NULL, P, &s, &told));
  assert_int_equal(kv_session_block(s, 0, P, P, &q, &in, &in, &to, &told),
                   KV_REFUSED);
  told.text[0] = 0;
  fails(kv_session_keep(s, 0, 0, 1, &(uint32_t){0}, &told), KV_REFUSED,
        "is not finite");
  works(kv_session_block(s, 1, P, P, &in, &in, &in, &to, &told));
  fails(kv_session_keep(s, 1, 0, 1, NULL, &told), KV_USAGE,
        "name at least one token");
  assert_int_equal(kv_session_keep(NULL, 1, 0, 1, &(uint32_t){0}, &told),
                   KV_USAGE);
  kv_session_close(s);
}

/* --- two threads -------------------------------------------------------- */

typedef struct job {
  const kv_trace *trace;
  const char *spec;
  kv_session_digests digests;
  kv_rc rc;
} job;

static void *work(void *arg) {
  job *j = arg;
  kv_session *s = NULL;
  kv_session_shape x = feed_shape(j->trace);
  j->rc = kv_session_open(&x, j->spec, "20%", j->trace->shape.prompt_len, &s,
                          &told);
  if (!j->rc) j->rc = feed_all(s, j->trace, 5, &told);
  if (!j->rc) j->rc = kv_session_digest(s, &j->digests, &told);
  kv_session_close(s);
  feed_free(&x);
  return NULL;
}

TEST(threads_do_not_touch) {
  static const char *const specs[] = {"h2o", "kivi", "zsmerge", "quest:page=8"};
  kv_trace *t = bundled_open(BUNDLED_SMALL);
  for (int i = 0; i < 4; i += 2) {
    job alone[2] = {{.trace = t, .spec = specs[i]},
                    {.trace = t, .spec = specs[i + 1]}};
    job both[2] = {alone[0], alone[1]};
    pthread_t thread[2];
    for (int k = 0; k < 2; k++)
      assert_int_equal(pthread_create(&thread[k], NULL, work, &both[k]), 0);
    for (int k = 0; k < 2; k++) pthread_join(thread[k], NULL);
    for (int k = 0; k < 2; k++) {
      work(&alone[k]);
      assert_int_equal(both[k].rc, KV_OK);
      assert_memory_equal(&both[k].digests, &alone[k].digests,
                          sizeof alone[k].digests);
    }
  }
  kv_trace_close(t);
}

int main(void) { return tests_run("session", scratch_make, scratch_remove); }

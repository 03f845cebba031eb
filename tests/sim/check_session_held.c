/* SPDX-License-Identifier: Apache-2.0
 *
 * kv_session_held: K and V of a lane are what the next decode step attends. A
 * dense session of one KV head that is fed these rows as its prompt, and then
 * that step's, answers bit for bit what the method's own session does, of rows
 * that were kept, merged and coded. A method whose attention is more, or less,
 * than that over its rows is refused; so is a lane that does not exist. Of a
 * layer that has ended nothing can be kept, nor a list that is not there.
 */
#include "sim/run/session/session.h"
#include "tests/support/bundled.h"
#include "tests/support/feed.h"
#include "tests/support/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(kv_rc rc, const kv_err *e) {
  if (rc) fail_msg("%s", e->text);
}

/* A session of the method at a fifth of the prompt, layer 0's prompt fed. */
static kv_session *prompted(const kv_trace *t, const char *spec) {
  kv_session_shape x = feed_shape(t);
  kv_session *s = NULL;
  kv_err e = {0};
  char budget[16];
  int p = t->shape.prompt_len;
  snprintf(budget, sizeof budget, "%d", p / 5);
  must(kv_session_open(&x, spec, budget, p, &s, &e), &e);
  feed_free(&x);
  must(feed_block(s, t, 0, 0, p, NULL, &e), &e);
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
  kv_err e = {0};
  must(kv_session_open(&x, "dense", NULL, n, &s, &e), &e);
  must(kv_session_block(s, 0, n, n, &q, &key, &value, NULL, &e), &e);
  q = row(t, data->q, data->q_dtype, p->d, g * queries, token);
  key = row(t, data->k, p->dtype, p->d, g, token);
  value = row(t, data->v, p->dtype, p->d_v, g, token);
  kv_session_out to = {out, KV_F32, p->d_v, p->d_v};
  must(kv_session_block(s, 0, n + 1, 1, &q, &key, &value, &to, &e), &e);
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
    kv_err e = {0};
    for (int g = 0, n = 0; g < p->n_kv_heads; g++) {
      must(kv_session_lane(s, layer, g, 0, NULL, NULL, &n, &e), &e);
      must(kv_session_held(s, layer, g, n, k, v, &e), &e);
      attend(t, g, n, k, v, own + (size_t)g * group);
    }
    must(feed_block(s, t, 0, p->prompt_len, 1, want, &e), &e);
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
  kv_err e = {0};
  int layer = t->layer[0].data.layer, d = t->shape.d;
  k[2 * d] = 77;
  must(kv_session_held(s, layer, 0, 2, k, NULL, &e), &e);
  assert_true(k[2 * d] == 77);
  must(kv_session_held(s, layer, 0, 1, first, NULL, &e), &e);
  assert_memory_equal(k, first, (size_t)d * sizeof *k);
  must(kv_session_held(s, layer, 0, -1, k, NULL, &e), &e);
  assert_int_equal(kv_session_held(s, layer, 99, 1, k, NULL, &e), KV_USAGE);
  assert_int_equal(kv_session_held(s, 99, 0, 1, k, NULL, &e), KV_USAGE);
  assert_int_equal(kv_session_held(NULL, 0, 0, 1, k, NULL, &e), KV_USAGE);
  kv_session_close(s);
  kv_trace_close(t);
}

TEST(more_than_rows_is_refused) {
  static const struct {
    const char *spec, *says;
  } cases[] = {{"quest:page=8:skip=0", "reads some of its entries"},
               {"twilight:skip=0", "reads some of its entries"},
               {"oracle-topk", "reads some of its entries"},
               {"hardkv", "reads some of its entries"},
               {"omnikv:layers=1", "reads some of its entries"},
               {"quest:page=8:skip=0+int4", "reads some of its entries"},
               {"streamingllm", "turns keys to the places"},
               {"zsmerge:variant=paper", "adds to logits of merged entries"}};
  kv_trace *t = bundled_open(BUNDLED_SMALL);
  int layer = t->layer[0].data.layer;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kv_session *s = prompted(t, cases[i].spec);
    kv_err e = {0};
    assert_int_equal(kv_session_held(s, layer, 0, 0, NULL, NULL, &e),
                     KV_REFUSED);
    if (!strstr(e.text, cases[i].says)) fail_msg("%s", e.text);
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
  kv_err e = {0};
  must(kv_session_open(&x, "replay", NULL, P, &s, &e), &e);
  assert_int_equal(kv_session_block(s, 0, P, P, &q, &in, &in, &to, &e),
                   KV_REFUSED);
  e.text[0] = 0;
  assert_int_equal(kv_session_keep(s, 0, 0, 1, &(uint32_t){0}, &e), KV_REFUSED);
  assert_non_null(strstr(e.text, "is not finite"));
  must(kv_session_block(s, 1, P, P, &in, &in, &in, &to, &e), &e);
  assert_int_equal(kv_session_keep(s, 1, 0, 1, NULL, &e), KV_USAGE);
  assert_non_null(strstr(e.text, "name a token"));
  assert_int_equal(kv_session_keep(NULL, 1, 0, 1, &(uint32_t){0}, &e),
                   KV_USAGE);
  kv_session_close(s);
}

int main(void) { return tests_run("session held", NULL, NULL); }

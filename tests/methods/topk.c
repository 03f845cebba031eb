/* SPDX-License-Identifier: Apache-2.0
 *
 * Top-k, and the scores of a file in every method that spends scores. The
 * worked case: eight tokens score 3 1 4 1 5 9 2 6. Then SnapKV's own scores,
 * as a replay on the reference shows them to an observer of selections, are
 * written down as a file: of it each method keeps what it keeps of
 * score=snapkv.
 */
#include "ref/lane/select.h"
#include "ref/parts/scorers.h"
#include "tests/support/rig.h"

#include <stdio.h>
#include <string.h>

enum { KV = 2, T = 44, P = 30, WINDOW = 3 };

/* A file of scores of one layer, [kv_heads][n], as the engine would open it. */
typedef struct file {
  float score[KV * T];
  int layer, lane, tokens;
  kv_tensor tensor;
  kv_asset_text text;
  kv_asset asset;
} file;

static void fill(file *f, int kv_heads, int n, const float *score) {
  if (score) memcpy(f->score, score, (size_t)(kv_heads * n) * sizeof *score);
  f->tokens = n;
  f->text = (kv_asset_text){"version", "1"};
  f->tensor = (kv_tensor){f->score, kv_heads * n, {kv_heads, n}};
  f->asset = (kv_asset){.path = "scores.safetensors",
                        .ask = kv_scores_kind.tensors,
                        .asked = 1,
                        .layers = 1,
                        .layer = &f->layer,
                        .tensor = &f->tensor,
                        .texts = 1,
                        .text = &f->text,
                        .of_trace = true,
                        .bytes = sizeof f->score};
}

static const float eight[8] = {3, 1, 4, 1, 5, 9, 2, 6};

TEST(worked) {
  file f = {.layer = 0};
  rig_case c = rig_eight(8);
  fill(&f, 1, 8, eight);
  c.scores = &f.asset;
  rig_keeps(&c, "topk:budget=3", 0, (int[]){4, 5, 7, -1});
  rig_keeps(&c, "topk:budget=4:window=2", 0, (int[]){4, 5, 6, 7, -1});
  rig_keeps(&c, "topk:budget=4:window=1:sinks=1", 0, (int[]){0, 4, 5, 7, -1});
  rig_keeps(&c, "topk:budget=7", 0, (int[]){0, 1, 2, 4, 5, 6, 7, -1});
  rig_keeps(&c, "topk:threshold=4", 0, (int[]){2, 4, 5, 7, -1});
  rig_keeps(&c, "topk:threshold=4:budget=3", 0, (int[]){4, 5, 7, -1});
  rig_keeps(&c, "topk:threshold=4:budget=6", 0, (int[]){2, 4, 5, 7, -1});
  rig_keeps(&c, "topk:threshold=9.5:window=2", 0, (int[]){6, 7, -1});
  c.scores = NULL; /* 1 above what eight rows can give to a token */
  rig_keeps(&c, "topk:score=h2o:threshold=9", 0, (int[]){-1});
}

/* The other methods: chunks of two are worth 2, 2.5, 7 and 4; values of sizes
 * 1 1 1 1 1 1 1 1 change no order, but 9 of token 1 does: 9 after 9, 6. */
TEST(others) {
  float values[8] = {1, 9, 1, 1, 1, 1, 1, 1};
  file f = {.layer = 0};
  rig_case c = rig_eight(8);
  fill(&f, 1, 8, eight);
  c.scores = &f.asset;
  rig_keeps(&c, "chunkkv:score=file:budget=4:chunk=2", 0,
            (int[]){4, 5, 6, 7, -1});
  rig_keeps(&c, "chunkkv:score=file:budget=8:chunk=2:threshold=2.5", 0,
            (int[]){2, 3, 4, 5, 6, 7, -1});
  rig_keeps(&c, "adakv:score=file:budget=5", 0, (int[]){0, 2, 4, 5, 7, -1});
  rig_keeps(&c, "adakv:score=file:budget=8:threshold=4", 0,
            (int[]){2, 4, 5, 7, -1});
  rig_keeps(&c, "headkv:score=file:budget=3", 0, (int[]){4, 5, 7, -1});
  rig_keeps(&c, "headkv:score=file:budget=5:threshold=4:sinks=1", 0,
            (int[]){0, 2, 4, 5, 7, -1});
  c.v = values;
  c.d_v = 1;
  rig_keeps(&c, "criticalkv:score=file:budget=4:epsilon=0", 0,
            (int[]){1, 4, 5, 7, -1});
  rig_keeps(&c, "criticalkv:score=file:budget=8:epsilon=0:threshold=4", 0,
            (int[]){2, 4, 5, 7, -1});
}

/* --- snapkv's own scores -------------------------------------------------- */

static void selected(void *self, const kv_selection *s) {
  file *f = self;
  assert_in_range(f->lane, 0, KV - 1);
  memcpy(f->score + f->lane++ * f->tokens, s->score[0],
         (size_t)s->n[0] * sizeof(float));
}

static const int32_t *keeps(void *self, const kv_lane *lane, const bool *flags,
                            const int32_t *list, int *n) {
  (void)self, (void)lane, (void)flags, (void)n;
  return list;
}

/* What the window would have is never asked for: it always stays. */
static void export(const rig_case *c, file *f) {
  kv_selecting looks = {f, selected, keeps};
  fill(f, KV, P, NULL);
  rig_use(&kv_backend_ref);
  kv_selecting_now = &looks;
  rig *r = rig_open(c, "topk:score=snapkv:budget=9:window=3");
  kv_selecting_now = NULL;
  rig_close(r);
  rig_use(NULL);
  assert_int_equal(f->lane, KV);
}

static rig_case sample(void) {
  rig_case c = RIG_SHAPE(4, KV, 8, 8, T, P);
  rig_data(&c, 34);
  return c;
}

TEST(as_snapkv) {
  static const char *const method[] = {
      "topk",   "adakv",      "adakv:safeguard=minimum:alpha=0.5", "chunkkv",
      "headkv", "criticalkv", "chunkkv:chunk=2:count=share"};
  rig_case c = sample();
  file f = {.layer = 0};
  export(&c, &f);
  for (size_t i = 0; i < sizeof method / sizeof *method; i++) {
    char own[96], of_file[96];
    snprintf(own, sizeof own, "%s:budget=9:window=3:score=snapkv", method[i]);
    snprintf(of_file, sizeof of_file, "%s:budget=9:window=3:score=file",
             method[i]);
    c.scores = NULL;
    kv_layer_digests a = rig_replay(&c, own);
    c.scores = &f.asset;
    kv_layer_digests b = rig_replay(&c, of_file);
    if (!rig_same(&a.journal, &b.journal) || !rig_same(&a.output, &b.output))
      fail_msg("%s decides otherwise than %s", of_file, own);
  }
  rig_data_free(&c);
}

/* Of what the file does not cover everything stays: decoded tokens, and of two
 * heads that share a KV head each reads its row. */
TEST(lanes) {
  rig_case c = sample();
  file f = {.layer = 0};
  uint32_t a[T], b[T];
  export(&c, &f);
  c.scores = &f.asset;
  rig *r = rig_open(&c, "topk:budget=9"),
      *each = rig_open(&c, "topk:budget=9:"
                           "group=query_head");
  rig_to(r, T);
  rig_to(each, T);
  assert_int_equal(rig_lanes(each), 4);
  for (int l = 0; l < 4; l++) {
    int n = rig_ids(r, l / 2, a);
    assert_int_equal(n, 9 + T - P);
    assert_int_equal(rig_ids(each, l, b), n);
    assert_memory_equal(a, b, (size_t)n * sizeof *a);
  }
  rig_close(each);
  rig_close(r);
  rig_data_free(&c);
}

/* A file of all tokens: compressed while decoding, too. */
TEST(decodes) {
  rig_case c = sample();
  file f = {.layer = 0};
  float score[KV * T];
  uint32_t id[T];
  for (int i = 0; i < KV * T; i++) score[i] = (float)(i % T * 7 % T);
  fill(&f, KV, T, score);
  c.scores = &f.asset;
  rig *r = rig_open(&c, "topk:budget=9:form=both:every=2");
  rig_to(r, T);
  assert_int_equal(rig_ids(r, 1, id), 9);
  for (int i = 0; i < 9; i++) assert_true(id[i] * 7 % T >= T - 9);
  rig_close(r);
  rig_law(&c, "topk:budget=9:form=both:every=2", rig_each, (int[]){9, 2});
  rig_data_free(&c);
}

TEST(laws) {
  rig_case c = sample();
  file f = {.layer = 0};
  export(&c, &f);
  c.scores = &f.asset;
  rig_law(&c, "topk:budget=9", rig_grown, &(int){9});
  rig_law(&c, "topk:threshold=0.25:budget=9", rig_grown, &(int){9});
  rig_law_dense(&c, "topk:budget=30");
  rig_law_dense(&c, "topk:threshold=0");
  rig_law_dense(&c, "headkv:budget=30:score=file");
  rig_law_dense(&c, "adakv:budget=30:score=file:threshold=-1");
  rig_law_dense(&c, "chunkkv:budget=30:score=file:threshold=-1");
  rig_data_free(&c);
}

/* A search for bytes may leave out queries where these decide nothing. */
TEST(lengths) {
  static const struct {
    const char *spec;
    bool is;
  } s[] = {{"topk:budget=9:score=snapkv", true},
           {"topk:budget=9:score=keydiff:window=1", true},
           {"topk:budget=9:score=lagkv", true},
           {"topk:budget=9:score=tova", false},
           {"topk:budget=9:score=snapkv:threshold=1", false},
           {"headkv:budget=9", true},
           {"headkv:budget=9:score=tova", false},
           {"headkv:budget=9:score=tova:window=1:threshold=1", false}};
  rig_case c = sample();
  for (size_t i = 0; i < sizeof s / sizeof *s; i++) {
    kv_needs needs = {0};
    kv_err e;
    if (rig_try(&c, s[i].spec, &needs, &e) || needs.lengths != s[i].is)
      fail_msg("%s: needs.lengths", s[i].spec);
  }
  rig_data_free(&c);
}

TEST(opening) {
  rig_case c = sample();
  file f = {.layer = 0};
  rig_law_refused(&c, "topk:budget=9", KV_USAGE, "reads a file", "scores=NAME");
  rig_law_refused(&c, "topk:budget=9:score=snapkv:window=0", KV_USAGE,
                  "no query that votes", "window=1");
  export(&c, &f);
  c.scores = &f.asset;
  rig_law_refused(&c, "topk", KV_USAGE, "needs a budget", "topk");
  rig_law_refused(&c, "topk:budget=9:score=keydiff", KV_REFUSED, "score=file",
                  "scores.safetensors");
  rig_law_refused(&c, "headkv:budget=9", KV_REFUSED, "score=file",
                  "scores.safetensors");
  rig_law_refused(&c, "hardkv:upper=9", KV_REFUSED, "adapter=score",
                  "scores.safetensors");
  rig_law_refused(&c, "topk:budget=9:form=decode", KV_REFUSED,
                  "layer 0 has scores of 30 tokens and needs those of 44",
                  "while decoding");
  rig_law_refused(&c, "adakv:budget=9:score=file:normalise=yes", KV_REFUSED,
                  "a file may be no shares", "normalise=no");
  rig_law_refused(&c, "headkv:budget=9:score=file:grow=no", KV_REFUSED, "grow",
                  "score=snapkv");
  rig_law_refused(&c, "headkv:budget=9:threshold=1", KV_REFUSED, "threshold",
                  "votes");
  f.score[P + 4] = -0x1p99f;
  rig_law_refused(&c, "topk:budget=9", KV_REFUSED,
                  "layer 0, KV head 1, token 4: the score is", "2^99");
  f.tensor.dim[1] = P - 1;
  rig_law_refused(&c, "topk:budget=9", KV_REFUSED, "scores of 29 tokens",
                  "the prompt");
  f.asset.of_trace = false;
  rig_law_refused(&c, "topk:budget=9", KV_REFUSED, "metadata trace is missing",
                  "kvtrace info");
  f.text.value = "2";
  rig_law_refused(&c, "topk:budget=9", KV_REFUSED, "metadata version is 2",
                  "write 1");
  rig_data_free(&c);
}

RIG_TESTS(topk, RIG_CASE(worked), RIG_CASE(others), RIG_CASE(as_snapkv),
          RIG_CASE(lanes), RIG_CASE(decodes), RIG_CASE(laws), RIG_CASE(lengths),
          RIG_CASE(opening))

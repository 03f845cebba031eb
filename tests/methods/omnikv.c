/* SPDX-License-Identifier: Apache-2.0
 *
 * OmniKV. The worked case: the eight keys, two query heads (2, 0) and
 * (-.5, .5); the largest logits are 1.414214 .353553 2.828427 .353553 1.414214
 * 0 1.414214 .707107, the largest probabilities .129572 .151389 .532964
 * .151389 .151389 .074645 .129572 .215596: of three the one takes 0, 2 and 4 (a
 * tie of 0, 4, 6), the other 1, 2 and 7 (a tie of 1, 3, 4). Then: what each
 * layer of a model does, by hand; what is chosen for those that follow, against
 * the definition in binary64; where prompts lie; refusals.
 */
#include "ref/methods/omnikv.h"
#include "sim/ask/spec.h"
#include "tests/support/rig.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- the worked case ------------------------------------------------------ */

/* What the layer below the filter attends in the row that ends at `step`. */
static void attends(const float *q, const char *spec, int step,
                    const int *ids) {
  static const float v[9] = {0};
  float k[18] = {0};
  memcpy(k, rig_key8, sizeof rig_key8);
  rig_case c =
      RIG_SHAPE(2, 1, 2, 1, 9, 8, .n_layers = 2, .q = q, .k = k, .v = v);
  rig *filter = rig_open(&c, spec);
  c.layer = 1;
  rig *below = rig_below(&c, spec, filter);
  rig_to(filter, step);
  rig_to(below, step);
  for (int h = 0; h < 2; h++) {
    assert_int_equal(rig_view(filter, h)->entries, step);
    rig_saw(below, h, ids);
  }
  rig_close(below);
  rig_close(filter);
}

/* At the ninth token. */
static void chooses(const char *spec, const int *ids) {
  attends((const float[36]){[16] = 2, [34] = -.5f, [35] = .5f}, spec, 9, ids);
}

TEST(worked) {
  chooses("omnikv:layers=0:k=3", (int[]){1, 2, 7, 8, -1});
  chooses("omnikv:layers=0:k=3:score=logit", (int[]){0, 2, 4, 8, -1});
  chooses("omnikv:layers=0:k=3:score=dot", (int[]){0, 2, 4, 8, -1});
  chooses("omnikv:layers=0:k=3:window=1:selector=uniform",
          (int[]){1, 2, 7, 8, -1});
  chooses("omnikv:layers=0:share=0.38", (int[]){1, 2, 7, 8, -1});
  chooses("omnikv:layers=0", (int[]){2, 8, -1}); /* one at least */
  chooses("omnikv:layers=0:k=8", (int[]){0, 1, 2, 3, 4, 5, 6, 7, 8, -1});
  chooses("omnikv:layers=0:k=3:roles=sparse-vllm:sink=1:recent=2",
          (int[]){0, 2, 4, 6, 7, 8, -1});
  chooses("omnikv:layers=1:k=3", (int[]){0, 1, 2, 3, 4, 5, 6, 7, 8, -1});
}

/* A prompt of two chunks of four: the first tokens are what the second chooses
 * from. Head 0 asks (4, 0) in the chunk's first row, head 1 (-8, 0) in its
 * last, (0, 0) elsewhere. Their mean queries, (1, 0) and (-2, 0), give 1 0 2 -1
 * and -2 0 -4 2: the best is 2 (a tie of 2, 3), by the last query alone it
 * would be 3. The sums of the probabilities are .8056 .7533 1.6909 .7502 and
 * .75 .7535 .75 1.7465: 3, then 2, then 0. */
static void chooses_in_chunk(const char *spec, const int *ids) {
  attends((const float[36]){[8] = 4, [32] = -8}, spec, 8, ids);
}

TEST(chunk) {
  chooses_in_chunk("omnikv:layers=0:prefill=4:k=1:score=dot",
                   (int[]){2, 4, 5, 6, 7, -1});
  chooses_in_chunk("omnikv:layers=0:prefill=4:k=1:score=logit",
                   (int[]){2, 4, 5, 6, 7, -1});
  chooses_in_chunk("omnikv:layers=0:prefill=4:k=1", (int[]){3, 4, 5, 6, 7, -1});
  chooses_in_chunk("omnikv:layers=0:prefill=4:k=3",
                   (int[]){0, 2, 3, 4, 5, 6, 7, -1});
  chooses_in_chunk("omnikv:layers=0:prefill=4:k=1:score=dot:sink=1",
                   (int[]){0, 2, 4, 5, 6, 7, -1});
  chooses_in_chunk("omnikv:layers=0:prefill=4:k=1:recent=1:score=dot",
                   (int[]){2, 3, 4, 5, 6, 7, -1});
  chooses_in_chunk("omnikv:layers=0:prefill=4:k=1:recent=9",
                   (int[]){0, 1, 2, 3, 4, 5, 6, 7, -1});
}

/* --- layers --------------------------------------------------------------- */

static void opened(const char *text, int layers, params *out) {
  kv_shape shape = {.n_layers = layers,
                    .n_heads = 2,
                    .n_kv_heads = 1,
                    .d = 4,
                    .d_v = 4,
                    .n_tokens = 1000,
                    .prompt_len = 900,
                    .dtype = KV_F32,
                    .scale = .5f};
  kv_spec s = {0};
  kv_needs needs = {0};
  kv_err e = {0};
  if (kv_spec_parse(kv_method_at, text, &s, &e) ||
      s.method->open(&shape, s.params, &needs, &e))
    fail_msg("%s: %s", text, e.text);
  memcpy(out, s.params, sizeof *out);
  kv_spec_free(&s);
}

/* A letter a layer: whole, chooses, follows. */
static void does(const char *spec, int layers, const char *list,
                 const char *roles) {
  char is[128] = "";
  params o;
  opened(spec, layers, &o);
  assert_string_equal(o.layers, list);
  for (int l = 0; l < layers; l++) is[l] = "wcf"[role_of(&o, layers, l)];
  assert_string_equal(is, roles);
}

TEST(roles) {
  does("omnikv:layers=2/8/18:wait=1", 32, "2/8/18",
       "wwcwffffcwffffffffcwffffffffffff");
  does("omnikv", 32, "2/8/18", "wwcwffffcwffffffffcwffffffffffff");
  does("omnikv:wait=0", 32, "2/8/18", "wwcfffffcfffffffffcfffffffffffff");
  does("omnikv", 1, "0", "c");
  does("omnikv", 2, "1", "wc");
  does("omnikv", 8, "2", "wwcfffff");
  does("omnikv", 15, "3", "wwwcfffffffffff");
  does("omnikv", 16, "1/4/9", "wcwfcwfffcwfffff");
  does("omnikv", 24, "2/6/14", "wwcwffcwffffffcwffffffff");
  does("omnikv", 28, "2/7/16", "wwcwfffcwfffffffcwffffffffff");
  does("omnikv:roles=sparse-vllm", 32, "0/1/2/8/18",
       "wwcfffffcfffffffffcfffffffffffff");
  does("omnikv:roles=sparse-vllm", 28, "0/1/2/4/7/14",
       "wwcfcffcffffffcfffffffffffff");
  does("omnikv:roles=sparse-vllm", 64, "0/1/2/3/4/5/17/29/40",
       "wwwwwcfffffffffffcfffffffffffcffffffffffcfffffffffffffffffffffff");
  does("omnikv:roles=sparse-vllm", 4, "0/1", "wcff");
  does("omnikv:roles=sparse-vllm:layers=1/2/5", 6, "1/2/5", "wwcffw");
}

/* Parameters that follow from others. */
TEST(defaults) {
  params o;
  opened("omnikv", 32, &o);
  assert_int_equal(o.k, 60); /* of 900, by 0.067: 60.3 */
  assert_true(o.wait == 1 && o.score == KV_VOTE_PROB && o.candidates == PROMPT);
  assert_true(o.sink == 0 && o.recent == 0 && o.tier == HOST);
  opened("omnikv:roles=sparse-vllm", 32, &o);
  assert_true(o.k == 4096 && o.wait == 0 && o.score == KV_VOTE_DOT);
  assert_true(o.sink == 64 && o.recent == 512 && o.tier == DEVICE);
  opened("omnikv:share=0.2", 32, &o);
  assert_int_equal(o.k, 180);
  opened("omnikv:share=0.7", 32, &o);
  assert_int_equal(o.k, 630); /* whose binary32 is less */
  opened("omnikv:k=63:share=0.07", 32, &o);
  assert_int_equal(o.k, 63);
}

static const rig_laws refusals = {
    RIG_SHAPE(2, 1, 4, 4, 20, 10, .n_layers = 4),
    {{"omnikv:layers=1/4", KV_REFUSED, .says = {"layers=1/4", "0 to 3"}},
     {"omnikv:layers=2/1", KV_REFUSED, .says = {"2/1", "ascend"}},
     {"omnikv:layers=2/2", KV_REFUSED, .says = {"2/2", "ascend"}},
     {"omnikv:layers=2/", KV_USAGE, .says = {"2/", "no list"}},
     {"omnikv:layers=-1", KV_USAGE, .says = {"-1", "no list"}},
     {"omnikv:k=3:share=0.5", KV_REFUSED, .says = {"k=3", "share=0.5"}},
     {"omnikv:selector=exp:score=logit", KV_REFUSED,
      .says = {"exp", "score=prob"}},
     {"omnikv:selector=exp:candidates=history", KV_REFUSED,
      .says = {"exp", "candidates=prompt"}},
     {"omnikv:roles=sparse-vllm:wait=1", KV_REFUSED,
      .says = {"wait=1", "sparse-vllm"}}}};

/* --- the definition, in binary64 ------------------------------------------ */

enum { T = 60, P = 40, HEADS = 4, KV_HEADS = 2, D = 8 };

static double dot(const rig_case *c, int h, int t, int j) {
  const float *q = c->q + ((size_t)h * T + (size_t)t) * D;
  const float *k =
      c->k + ((size_t)(h / (HEADS / KV_HEADS)) * T + (size_t)j) * D;
  double sum = 0;
  for (int x = 0; x < D; x++) sum += (double)q[x] * (double)k[x];
  return sum;
}

/* score[j] += weight * the largest of all heads, of query t. */
static void one_vote(const rig_case *c, const params *o, int t, int first,
                     int end, double weight, double *score) {
  double most[T];
  for (int h = 0; h < HEADS; h++) {
    double x[T], mass = 0;
    for (int j = first; j < end; j++) {
      x[j] = dot(c, h, t, j) / sqrt(D);
      mass += exp(x[j]);
    }
    for (int j = first; j < end; j++) {
      if (o->score == KV_VOTE_PROB) x[j] = exp(x[j]) / mass;
      most[j] = h ? fmax(most[j], x[j]) : x[j];
    }
  }
  for (int j = first; j < end; j++) score[j] += weight * most[j];
}

/* Fails unless the row attended the best k of tokens first .. end - 1 by score,
 * to `near`, and all others before `step`. */
static void holds_best(const rig *r, const double *score, int first, int end,
                       int k, int step, double near) {
  double worst = INFINITY, out = -INFINITY;
  bool in[T] = {false};
  uint32_t id[T];
  int n = 0;
  for (int i = rig_seen(r, 1, id) - 1; i >= 0; i--) in[id[i]] = true;
  for (int j = 0; j < step; j++) {
    bool competes = j >= first && j < end;
    if (!competes) assert_true(in[j]);
    if (!competes) continue;
    n += in[j];
    if (in[j])
      worst = fmin(worst, score[j]);
    else
      out = fmax(out, score[j]);
  }
  assert_int_equal(n, k < end - first ? k : end - first);
  assert_true(worst >= out - near);
}

static void as_defined(const rig_case *c, const rig *r, const params *o) {
  int step = rig_step(r), t = step - 1;
  int votes = o->selector == LAST ? 1 : o->window;
  int inside = o->selector == LAST || votes < step - P ? 0 : votes - (step - P);
  int first = o->sink, end = o->candidates == PROMPT ? P - inside : t;
  double score[T] = {0};
  if (end > step - o->recent) end = step - o->recent;
  for (int i = 0; i < votes; i++)
    one_vote(c, o, t - i, first, end, o->selector == EXP ? pow(2, -i) : 1,
             score);
  holds_best(r, score, first, end, o->k - inside > 1 ? o->k - inside : 1, step,
             1e-6);
}

TEST(definition) {
  static const char *const specs[] = {
      "omnikv:k=9",
      "omnikv:k=9:score=logit",
      "omnikv:k=9:selector=uniform:window=5",
      "omnikv:k=9:selector=exp:window=7",
      "omnikv:k=4:selector=exp:window=7",
      "omnikv:k=9:sink=2:recent=3",
      "omnikv:k=9:candidates=history:sink=3:recent=0",
      "omnikv:k=9:roles=sparse-vllm:sink=2:recent=6",
      "omnikv:k=9:roles=sparse-vllm:score=prob:sink=2:recent=30"};
  rig_case c = RIG_SHAPE(HEADS, KV_HEADS, D, 4, T, P, .n_layers = 4);
  rig_data(&c, 31);
  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
    params o;
    opened(specs[i], 4, &o);
    c.layer = 1; /* the filter of four layers */
    rig *filter = rig_open(&c, specs[i]);
    c.layer = 3;
    rig *below = rig_below(&c, specs[i], filter);
    for (int step = P + 1; step <= T; step++) {
      rig_to(filter, step);
      rig_to(below, step);
      as_defined(&c, below, &o);
      for (int h = 0; h < HEADS; h++)
        assert_int_equal(rig_view(filter, h)->entries, step);
    }
    rig_close(below);
    rig_close(filter);
  }
  rig_data_free(&c);
}

/* Of the last row of the prompt: score[j] is the largest, over heads, of the
 * sum over the queries of the last chunk, which begins at `a`. */
static void chunk_as_defined(const rig_case *c, const rig *r, const params *o,
                             int a) {
  double best[T] = {0}, scale = o->score == KV_VOTE_DOT ? 1 : sqrt(D);
  int first = o->sink, end = a - o->recent;
  for (int h = 0; h < HEADS; h++) {
    double sum[T] = {0};
    for (int t = a; t < P; t++) {
      double x[T], mass = 0;
      for (int j = first; j < end; j++) {
        x[j] = dot(c, h, t, j) / scale;
        mass += exp(x[j]);
      }
      for (int j = first; j < end; j++)
        sum[j] += o->score == KV_VOTE_PROB ? exp(x[j]) / mass : x[j];
    }
    for (int j = first; j < end; j++)
      best[j] = h ? fmax(best[j], sum[j]) : sum[j];
  }
  holds_best(r, best, first, end, o->k, P, 1e-5);
}

TEST(chunks) {
  static const char *const specs[] = {
      "omnikv:k=9", "omnikv:k=5:score=logit:sink=1",
      "omnikv:k=9:selector=uniform:window=5:recent=2",
      "omnikv:k=9:roles=sparse-vllm:layers=1:sink=2:recent=6", "omnikv:k=30"};
  static const int chunk[] = {7, 9, 16, 24, 39};
  rig_case c = RIG_SHAPE(HEADS, KV_HEADS, D, 4, T, P, .n_layers = 4);
  rig_data(&c, 31);
  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
    for (size_t j = 0; j < sizeof chunk / sizeof *chunk; j++) {
      char spec[128];
      params o;
      snprintf(spec, sizeof spec, "%s:prefill=%d", specs[i], chunk[j]);
      opened(specs[i], 4, &o);
      c.layer = 1;
      rig *filter = rig_open(&c, spec);
      c.layer = 3;
      rig *below = rig_below(&c, spec, filter);
      chunk_as_defined(&c, below, &o, (P - 1) / chunk[j] * chunk[j]);
      rig_close(below);
      rig_close(filter);
    }
  rig_data_free(&c);
}

/* Of so many that all are chosen each row of the prompt is dense's, and after a
 * chunk that is the prompt nothing is other than after the whole one. */
TEST(everything_in_chunks) {
  rig_case c = RIG_SHAPE(HEADS, KV_HEADS, D, 4, T, P, .n_layers = 2);
  rig_data(&c, 34);
  rig *filter = rig_open(&c, "omnikv:layers=0:k=60:prefill=7");
  c.layer = 1;
  rig *below = rig_below(&c, "omnikv:layers=0:k=60:prefill=7", filter);
  for (int step = P + 1; step <= T; step++) {
    rig_to(filter, step);
    rig_to(below, step);
  }
  kv_layer_digests got = rig_digests(below);
  kv_layer_digests dense = rig_replay(&c, "dense:prefill=7");
  assert_true(rig_same(&dense.output, &got.output));
  c.layer = 0;
  kv_layer_digests one = rig_replay(&c, "omnikv:layers=0:k=9:prefill=40");
  kv_layer_digests whole = rig_replay(&c, "omnikv:layers=0:k=9");
  assert_true(rig_same(&one.journal, &whole.journal));
  assert_true(rig_same(&one.output, &whole.output));
  assert_true(rig_same(&one.state, &whole.state));
  rig_close(below);
  rig_close(filter);
  rig_data_free(&c);
}

/* --- laws ----------------------------------------------------------------- */

/* Prompts of layers that follow lie in class 1; queries that vote are paid. */
TEST(memory) {
  rig_case c = RIG_SHAPE(HEADS, KV_HEADS, D, 4, T, P, .n_layers = 4);
  kv_bytes at[4] = {{0}};
  rig_data(&c, 32);
  for (c.layer = 0; c.layer < 4; c.layer++) {
    rig *r = rig_open(&c, "omnikv:selector=exp:window=5:sink=3:recent=2");
    rig_to(r, T);
    kv_lane_bytes(rig_lane(r, 1), &at[c.layer]);
    rig_close(r);
    int host = c.layer > 1 ? P - 5 : 0;
    assert_int_equal(at[c.layer].tier_1, host * ((D + 4) * 4 + 1));
    assert_int_equal(at[c.layer].side, 5 * HEADS / KV_HEADS * D * 4);
    assert_int_equal(at[c.layer].metadata, T);
  }
  rig *r = rig_open(&c, "omnikv:tier=device");
  at[0] = (kv_bytes){0};
  kv_lane_bytes(rig_lane(r, 0), &at[0]);
  rig_close(r);
  assert_int_equal(at[0].tier_0 + at[0].tier_1 + at[0].side + at[0].metadata,
                   0);
  rig_data_free(&c);
}

TEST(laws) {
  rig_case c = RIG_SHAPE(HEADS, KV_HEADS, D, 4, T, P, .n_layers = 2);
  int most = T;
  rig_data(&c, 33);
  rig_law(&c, "omnikv:layers=0:k=9", rig_at_most, &most);
  rig_law(&c, "omnikv:layers=0:k=9:selector=uniform", rig_at_most, &most);
  rig_law_dense(&c, "omnikv:layers=0:k=9");
  rig *filter = rig_open(&c, "omnikv:layers=0:k=40");
  c.layer = 1;
  rig *below = rig_below(&c, "omnikv:layers=0:k=40", filter);
  for (int step = P + 1; step <= T; step++) {
    rig_to(filter, step);
    rig_to(below, step);
  }
  kv_layer_digests whole = rig_replay(&c, "dense");
  kv_layer_digests got = rig_digests(below);
  assert_true(rig_same(&whole.output, &got.output));
  rig_close(below);
  rig_close(filter);
  rig_data_free(&c);
}

RIG_TESTS(omnikv, RIG_CASE(worked), RIG_CASE(chunk), RIG_CASE(roles),
          RIG_CASE(defaults), RIG_LAWS(refusals), RIG_CASE(definition),
          RIG_CASE(chunks), RIG_CASE(everything_in_chunks), RIG_CASE(memory),
          RIG_CASE(laws))

/* SPDX-License-Identifier: Apache-2.0
 *
 * LeanKV. Worked cases of a step are in leankv_steps.c. Here are whole replays
 * against a plain account of the paper and of the code, written from their
 * words in binary64 and sharing nothing with the method: who is in which of one
 * to four tiers after every step. Laws: the window is in the high tier, at most
 * one entry goes a step, equal counts in every head where they are asked for,
 * bytes of an entry by formula, tiers that are none, weights of heads.
 */
#include "ref/methods/leankv.h"
#include "tests/support/lean_account.h"
#include "tests/support/rig.h"
#include <stdio.h>
#include <string.h>

/* --- whole replays ------------------------------------------------------ */

typedef struct followed {
  int window, queries, prompt, tiers;
  double alpha[TIERS];
  const float *weight; /* NULL: all 1 */
} followed;

static void spell(const followed *f, int code, char *spec, size_t size) {
  static const char *const low[] = {"k16v16", "k16v8", "k8v8", "k4v4"};
  int n = snprintf(spec, size,
                   "leankv:variant=%s:window=%d:queries=%d:alpha_h=%g:"
                   "alpha_l=%g:high=k16v16:low=%s",
                   code ? "code" : "paper", f->window, code ? f->queries : 0,
                   f->alpha[0], f->alpha[f->tiers - 1], low[f->tiers - 1]);
  if (f->tiers > 2)
    n += snprintf(spec + n, size - (size_t)n, ":middle_1=k16v8:alpha_1=%g",
                  f->alpha[1]);
  if (f->tiers == 4)
    snprintf(spec + n, size - (size_t)n, ":middle_2=k8v8:alpha_2=%g",
             f->alpha[2]);
}

static void follow_by(const followed *f, int code, uint32_t seed, int *moved) {
  rig_case c = RIG_SHAPE(3, 1, 8, 6, 60, f->prompt, .n_layers = 2, .layer = 1);
  lean_account a = {.c = &c,
                    .code = code,
                    .tiers = f->tiers,
                    .window = f->window,
                    .queries = code ? f->queries : 0};
  account_weights w = {.weight = {0}};
  char spec[240];
  rig_data(&c, seed);
  account_weigh(&w, 2, 1, f->tiers);
  for (int t = 0; t < f->tiers; t++) {
    w.weight[f->tiers + t] = f->weight ? f->weight[t] : 1;
    a.alpha[t] = f->alpha[t] * (double)w.weight[f->tiers + t];
  }
  if (f->weight) c.asset = &w.asset;
  spell(f, code, spec, sizeof spec);
  account_follow(a, spec, moved);
  rig_data_free(&c);
}

TEST(replays) {
  static const float weight[] = {.5f, .75f, .875f, 1.5f};
  static const followed many[] = {{6, 8, 30, 2, {1, .5}, NULL},
                                  {1, 8, 30, 2, {1.5, 1}, NULL},
                                  {12, 8, 30, 2, {1, .7}, NULL},
                                  {6, 64, 30, 2, {2, .3}, NULL},
                                  {6, 8, 5, 2, {1, .9}, NULL},
                                  {6, 8, 1, 2, {1, .9}, NULL},
                                  {6, 8, 30, 2, {16, 16}, NULL},
                                  {6, 8, 30, 1, {1}, NULL},
                                  {100, 8, 30, 2, {1, .5}, NULL},
                                  {6, 8, 30, 2, {0, 0}, NULL},
                                  {6, 8, 30, 3, {1.25, .9, .5}, NULL},
                                  {6, 8, 30, 4, {1.5, 1.1, .9, .6}, NULL},
                                  {1, 64, 20, 4, {2, 1.3, .8, .7}, NULL},
                                  {6, 8, 30, 2, {1, .5}, weight},
                                  {6, 8, 30, 4, {3, 1.5, 1, .4}, weight}};
  int moved[TIERS + 1] = {0};
  for (size_t i = 0; i < sizeof many / sizeof *many; i++)
    for (int code = 0; code < 2; code++)
      follow_by(&many[i], code, 31 + (uint32_t)i, moved);
  for (int t = 0; t <= TIERS; t++) assert_true(moved[t] > 100);
}

/* --- laws --------------------------------------------------------------- */

static int lows(const kv_lane *l) {
  int n = 0;
  for (int i = 0; i < l->n; i++) n += l->k[i].format == KV_CODED + 2;
  return n;
}

/* Formats of the default: codings 0 and 1 are the high tier's. */
TEST(window_and_steps) {
  rig_case c = RIG_SHAPE(4, 2, 8, 6, 60, 30);
  static const char *const variant[] = {"paper", "code"};
  rig_data(&c, 51);
  for (int i = 0; i < 4; i++) {
    char spec[120];
    snprintf(spec, sizeof spec,
             "leankv:variant=%s:window=5:alpha_l=.8:alpha_h=1.2%s",
             variant[i % 2], i < 2 ? "" : ":sparsity=layer");
    rig *r = rig_open(&c, spec);
    for (int step = 31; step <= 60; step++) {
      int was = rig_lane(r, 1)->n;
      rig_to(r, step);
      const kv_lane *l = rig_lane(r, 1);
      assert_in_range(l->n, was, was + 1);
      for (int e = 0; e < l->n; e++) {
        assert_true(l->k[e].format >= KV_CODED && l->v[e].format >= KV_CODED);
        if ((int)l->id[e] >= step - 4)
          assert_int_equal(l->k[e].format, KV_CODED);
      }
    }
    rig_close(r);
  }
  rig_data_free(&c);
}

TEST(counts) {
  rig_case c = RIG_SHAPE(4, 2, 8, 6, 60, 34);
  rig_data(&c, 52);
  rig *r = rig_open(&c, "leankv:sparsity=static:window=4:high_share=0.5:"
                        "low_share=0.25:variant=paper");
  for (int step = 34; step <= 60; step++) {
    rig_to(r, step);
    int past = step - 4, low = lows(rig_lane(r, 0)), n = rig_lane(r, 0)->n;
    assert_int_equal(n - low, 4 + (past + 1) / 2);
    assert_in_range(low, (past + 3) / 4 - 1, (past + 3) / 4); /* one a step */
    if (step == 34) assert_int_equal(low, (past + 3) / 4);
    assert_int_equal(lows(rig_lane(r, 1)), low);
    assert_int_equal(rig_lane(r, 1)->n, n);
  }
  rig_close(r);
  r = rig_open(&c, "leankv:sparsity=layer:window=4:alpha_l=.8:alpha_h=1.2");
  assert_int_equal(rig_lane(r, 0)->n, rig_lane(r, 1)->n);
  assert_int_equal(lows(rig_lane(r, 0)), lows(rig_lane(r, 1)));
  rig_close(r);
  rig_data_free(&c);
}

/* Shares of three tiers: .25, .125 and .25. */
TEST(counts_of_three) {
  rig_case c = RIG_SHAPE(4, 2, 8, 6, 60, 34);
  rig_data(&c, 52);
  rig *r =
      rig_open(&c, "leankv:sparsity=static:window=4:high_share=0.25:"
                   "middle_1=k8v2:alpha_1=.5:share_1=0.125:low_share=0.25");
  for (int step = 34; step <= 60; step++) {
    rig_to(r, step);
    const kv_lane *l = rig_lane(r, 1);
    /* A step decides for the token that comes next: the window has left it. */
    int past = step - 4 + (step > 34), n[3] = {0};
    for (int i = 0; i < l->n; i++)
      n[l->k[i].format == KV_CODED + 3 ? 2 : l->v[i].format == KV_CODED + 2]++;
    assert_in_range(n[0], 4, 5 + (past + 3) / 4);
    assert_in_range(n[1], (past + 7) / 8 - 1, (past + 7) / 8 + 1);
    assert_in_range(n[2], (past + 3) / 4 - 1, (past + 3) / 4 + 1);
  }
  rig_close(r);
  rig_data_free(&c);
}

static void alike(const rig_case *c, const char *spec, const char *other,
                  bool journals) {
  kv_layer_digests a = rig_replay(c, spec), b = rig_replay(c, other);
  assert_true(rig_same(&a.output, &b.output));
  assert_int_equal(rig_same(&a.journal, &b.journal), journals);
  assert_int_equal(rig_same(&a.state, &b.state), journals);
}

/* A middle tier that is as the one above or below is none; one into which no
 * score falls decides nothing, though a coding of its own has a number. */
TEST(two_of_three) {
#define LEAN "leankv:window=5:alpha_h=1.2:alpha_l=.8"
  rig_case c = RIG_SHAPE(4, 2, 8, 6, 60, 30);
  rig_data(&c, 54);
  alike(&c, LEAN, LEAN ":middle_1=k8v4:alpha_1=1.2", true);
  alike(&c, LEAN, LEAN ":middle_1=k4v2:alpha_1=1", true);
  alike(&c, LEAN, LEAN ":middle_2=k4v2:alpha_2=1.1", true);
  alike(&c, LEAN, LEAN ":middle_1=k8v4:alpha_1=1.2:middle_2=k4v2:alpha_2=0.9",
        true);
  alike(&c, LEAN, LEAN ":middle_1=k8v2:alpha_1=1.2", false);
  alike(&c, LEAN ":variant=paper",
        LEAN ":variant=paper:middle_1=k4v4:alpha_1=1.2", true);
  rig_data_free(&c);
}

static int lane_ids(const rig_case *c, const char *spec, int lane,
                    uint32_t *id) {
  rig *r = rig_open(c, spec);
  rig_to(r, c->n_tokens);
  int n = rig_ids(r, lane, id);
  rig_close(r);
  return n;
}

/* Weights of 1 change nothing; a head with its alphas halved is as that head
 * where all are, and the other as it was. */
TEST(weights) {
  static const char *const spec[] = {LEAN,
                                     "leankv:window=5:alpha_h=.6:alpha_l=.4"};
  rig_case c = RIG_SHAPE(4, 2, 8, 6, 60, 30);
  account_weights w = {.weight = {1, 1, 1, 1}};
  rig_data(&c, 54);
  account_weigh(&w, 1, 2, 2);
  kv_layer_digests plain = rig_replay(&c, LEAN);
  c.asset = &w.asset;
  kv_layer_digests same = rig_replay(&c, LEAN);
  assert_true(rig_same(&plain.journal, &same.journal));
  w.weight[2] = w.weight[3] = .5f;
  for (int l = 0; l < 2; l++) {
    uint32_t is[64], was[64];
    int n = lane_ids(&c, LEAN, l, is);
    rig_case without = c;
    without.asset = NULL;
    assert_int_equal(lane_ids(&without, spec[l], l, was), n);
    assert_memory_equal(is, was, (size_t)n * sizeof *is);
  }
  rig_data_free(&c);
}

TEST(weights_refused) {
  rig_case c = RIG_SHAPE(4, 2, 8, 6, 60, 30);
  account_weights w = {.weight = {1, 1, 1, 2}};
  rig_data(&c, 54);
  c.asset = &w.asset;
  account_weigh(&w, 1, 2, 2);
  rig_law_refused(&c, LEAN, KV_REFUSED, "KV head 1 of layer 0", "rise");
  w.weight[3] = -1;
  rig_law_refused(&c, LEAN, KV_REFUSED, "weights.safetensors", "below 0");
  account_weigh(&w, 1, 2, 3);
  rig_law_refused(&c, LEAN, KV_REFUSED, "3 weights", "2 tiers");
  rig_data_free(&c);
}

/* 128 elements a side: 272 bytes in the tier of k8v8, 208 in that of k8v4, 144
 * in that of k4v4, 112 in that of k4v2, of them 4 of a score and 4 of a
 * position, as in the paper's pages; and 4 that say where the row lies, as of
 * every lane that drops. By their order codings are k8, v8, v4, k4, v2. */
TEST(bytes) {
  static const int of[TIERS][3] = {
      {0, 1, 276}, {0, 2, 212}, {3, 2, 148}, {3, 4, 116}};
  rig_case c = RIG_SHAPE(1, 1, 128, 128, 60, 50, .half = true);
  kv_bytes b = {0};
  int held[TIERS] = {0}, bytes = 0;
  rig_data(&c, 53);
  rig *r = rig_open(&c, "leankv:window=4:high=k8v8:alpha_h=1.1:middle_1=k8v4:"
                        "alpha_1=.8:middle_2=k4v4:alpha_2=.6:alpha_l=.4");
  rig_to(r, 60);
  const kv_lane *l = rig_lane(r, 0);
  kv_lane_bytes(l, &b);
  for (int i = 0; i < l->n; i++)
    for (int t = 0; t < TIERS; t++)
      if (l->k[i].format == KV_CODED + of[t][0] &&
          l->v[i].format == KV_CODED + of[t][1]) {
        held[t]++;
        bytes += of[t][2];
      }
  for (int t = 0; t < TIERS; t++) assert_true(held[t]);
  assert_true(l->dropped);
  assert_int_equal(kv_bytes_total(&b), bytes);
  rig_close(r);
  rig_data_free(&c);
}

static const rig_laws laws = {
    RIG_SHAPE(4, 2, 8, 6, 40, 21),
    {{.spec = "leankv:window=5"},
     {.spec = "leankv:window=5:variant=paper:alpha_l=.5"},
     {.spec = "leankv:window=5:sparsity=layer:alpha_l=.5"},
     {.spec = "leankv:window=5:sparsity=static:high=k4v4:low=k4v2"},
     {.spec = "leankv:window=5:high=k8v8:low=k8v8:alpha_l=1"},
     {.spec = "leankv:window=5:high=k16v1:alpha_l=.5"},
     {"leankv:high=k16v16:alpha_l=0:alpha_h=0", .dense = true},
     {"leankv:high=k16v16:window=40:variant=paper", .dense = true},
     {"leankv:alpha_l=2", KV_REFUSED, .says = {"alpha_l=2", "alpha_h=1"}},
     {"leankv:low_k_groups=3", KV_REFUSED,
      .says = {"3 groups", "low_k_groups"}},
     {"leankv:low_share=0.6", KV_REFUSED, .says = {"low_share", "than 1"}},
     {.spec = "leankv:window=5:middle_1=k4v4:alpha_1=.8:alpha_l=.5"},
     {.spec =
          "leankv:window=5:high=k8v8:middle_1=k8v4:alpha_1=.9:middle_2=k4v4:"
          "alpha_2=.7:alpha_l=.5:sparsity=layer"},
     {.spec = "leankv:window=5:variant=paper:high=k16v16:middle_1=k16v4:"
              "alpha_1=.9:middle_2=k8v4:alpha_2=.6:low=k1v1:alpha_l=.4"},
     {"leankv:middle_1=k4v4", KV_REFUSED, .says = {"alpha_1", "not given"}},
     {"leankv:alpha_2=.5", KV_REFUSED, .says = {"alpha_2", "middle_2"}},
     {"leankv:middle_2=k4v4:alpha_2=2", KV_REFUSED,
      .says = {"alpha_2=2", "alpha_h=1"}},
     {"leankv:middle_2=k4v4:alpha_2=.01", KV_REFUSED,
      .says = {"alpha_l=0.02", "alpha_2=0.01"}},
     {"leankv:share_1=.6", KV_REFUSED, .says = {"those between", "than 1"}},
     {"leankv:high=k3v4", KV_USAGE, .says = {"k3v4", "k8v4"}}}};

int kv_test_leankv_steps(void); /* leankv_steps.c */

int kv_test_leankv(void) {
  const struct CMUnitTest all[] = {RIG_CASE(replays),
                                   RIG_CASE(window_and_steps),
                                   RIG_CASE(counts),
                                   RIG_CASE(counts_of_three),
                                   RIG_CASE(two_of_three),
                                   RIG_CASE(weights),
                                   RIG_CASE(weights_refused),
                                   RIG_CASE(bytes),
                                   RIG_LAWS(laws)};
  return cmocka_run_group_tests_name("leankv", all, NULL, NULL) +
         kv_test_leankv_steps();
}

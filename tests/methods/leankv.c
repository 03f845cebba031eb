/* SPDX-License-Identifier: Apache-2.0
 *
 * LeanKV. The worked case of four high and two low entries, step by step, by
 * both rules. Then whole replays against a plain account of the paper and of
 * the code, written from their words in binary64 and sharing nothing with the
 * method: who is in which tier after every step. Laws: the window is in the
 * high tier, at most one entry goes a step, scores never fall, equal counts in
 * every head where they are asked for, bytes of an entry by formula.
 */
#include "ref/methods/leankv.h"
#include "tests/support/lean_account.h"
#include "tests/support/rig.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- the worked case ---------------------------------------------------- */

enum { A, B, C, D, E, F, X1, X2, X3, X4, NEW0, NEW1, NEW2, NAMES };

typedef struct worked {
  float score[NAMES];
  int tier[NAMES]; /* GONE: not there */
} worked;

static worked start(void) {
  worked w = {.score = {.03f, .0125f, .006f, .015f, .004f, .0001f, .02f, .005f,
                        .0001f, .011f}};
  for (int i = 0; i < NAMES; i++)
    w.tier[i] = i < E ? HIGH : i <= F ? LOW : GONE;
  return w;
}

static int least(const worked *w, int tier, int end) {
  int best = -1;
  for (int i = 0; i < end; i++)
    if (w->tier[i] == tier && (best < 0 || w->score[i] < w->score[best]))
      best = i;
  return best;
}

static void carry_out(worked *w, decision d) {
  if (d.demote >= 0) w->tier[d.demote] = LOW;
  if (d.prune >= 0) w->tier[d.prune] = GONE;
}

static void holds(const worked *w, const char *high, const char *low) {
  static const char names[] = "abcdef1234xyz";
  for (int i = 0; i < NAMES; i++) {
    assert_int_equal(w->tier[i] == HIGH, strchr(high, names[i]) != NULL);
    assert_int_equal(w->tier[i] == LOW, strchr(low, names[i]) != NULL);
  }
}

/* The candidate is in the high tier, as the window is. */
static void paper_step(worked *w, int candidate) {
  w->tier[candidate] = HIGH;
  carry_out(w, kv_lean_paper(w->score, .01f, .0002f, candidate,
                             least(w, HIGH, NAMES), least(w, LOW, NAMES)));
}

TEST(by_paper) {
  worked w = start();
  paper_step(&w, X1);
  holds(&w, "abd1", "cef");
  paper_step(&w, X2);
  holds(&w, "abd1", "ce2");
  paper_step(&w, X3);
  holds(&w, "abd1", "ce2");
  paper_step(&w, X4);
  holds(&w, "abd14", "ce2");
  w = start();
  paper_step(&w, X4);
  holds(&w, "abd4", "cef");
}

/* Only what stands before `end` is outside the window. */
static void code_step(worked *w, int end, int arrives) {
  carry_out(w, kv_lean_code(w->score, .01f, .0002f, least(w, HIGH, end),
                            least(w, LOW, end)));
  w->tier[arrives] = HIGH;
}

TEST(by_code) {
  worked w = start();
  w.tier[X1] = w.tier[X2] = w.tier[X3] = HIGH; /* x1 just left the window */
  code_step(&w, X2, NEW0);
  holds(&w, "abd123x", "ce");
  w.tier[X2] = w.tier[X3] = GONE; /* the window is not looked at */
  code_step(&w, X2, NEW1);
  code_step(&w, X2, NEW2);
  holds(&w, "abd1xyz", "ce");
  w.score[C] = .0001f; /* both tiers have one below the lower threshold */
  w.score[A] = .0001f;
  code_step(&w, X2, NEW2);
  assert_int_equal(w.tier[A],
                   LOW); /* not less than the low one's: not pruned */
  assert_int_equal(w.tier[C], GONE);
  w = start();
  for (int i = A; i <= F; i++) w.tier[i] = GONE;
  code_step(&w, X1, NEW0); /* nothing is outside the window */
  holds(&w, "x", "");
}

TEST(edges) {
  params o = {.variant = CODE, .window = 4, .alpha = {2, 1}};
  assert_true(kv_lean_threshold(&o, HIGH, 1) == 1.0f); /* not 2 */
  assert_true(kv_lean_threshold(&o, HIGH, 8) == .25f);
  o.tiers.tell = -1; /* one tier: nothing is demoted */
  assert_true(kv_lean_threshold(&o, HIGH, 8) == .125f);
  assert_int_equal(kv_lean_bound(&o, 3, 0, false), 0);
  assert_int_equal(kv_lean_bound(&o, 9, 0, false), 5);
  assert_int_equal(kv_lean_bound(&o, 9, 0, true), 6);
  assert_int_equal(kv_lean_bound(&o, 9, 6, true), 0); /* three have counted */
  assert_int_equal(kv_lean_seen(&o, 9, 6, 2), 3);
  assert_int_equal(kv_lean_seen(&o, 9, 6, 8), 1); /* its own */
  o.variant = PAPER;
  assert_int_equal(kv_lean_seen(&o, 9, 0, 7), 1);
}

/* --- whole replays ------------------------------------------------------ */

/* The high tier is as it came, the low one has 8 bits for keys. */
static void agrees(const lean_account *a, const kv_lane *l, int n) {
  int i = 0;
  for (int t = 0; t < n; t++) {
    if (a->tier[t] == GONE) continue;
    assert_true(i < l->n);
    assert_int_equal(l->id[i], t);
    if (!a->one_tier)
      assert_int_equal(l->k[i].format != KV_RAW, a->tier[t] == LOW);
    assert_true(fabs((double)l->column[0].f[i] - a->sum[t]) < 1e-5);
    i++;
  }
  assert_int_equal(i, l->n);
}

static void follow(lean_account a, const char *spec) {
  uint32_t id[ACCOUNT_MOST];
  float key[ACCOUNT_MOST * 8];
  int held = 0;
  rig *r = rig_open(a.c, spec);
  const kv_lane *l = rig_lane(r, 0);
  account_prompt(&a);
  for (int n = a.c->prompt_len;; n++) {
    account_judge(&a, n);
    agrees(&a, l, n);
    if (n == a.c->n_tokens) break;
    held = account_keys(l, id, key);
    rig_to(r, n + 1);
    account_step(&a, n + 1, held, id, key);
  }
  rig_close(r);
}

TEST(replays) {
  static const struct {
    int window, queries, prompt;
    double alpha_h, alpha_l;
    bool one_tier;
  } many[] = {{6, 8, 30, 1, .5, false},   {1, 8, 30, 1.5, 1, false},
              {12, 8, 30, 1, .7, false},  {6, 64, 30, 2, .3, false},
              {6, 8, 5, 1, .9, false},    {6, 8, 1, 1, .9, false},
              {6, 8, 30, 16, 16, false},  {6, 8, 30, 1, 1, true},
              {100, 8, 30, 1, .5, false}, {6, 8, 30, 0, 0, false}};
  rig_case c = RIG_SHAPE(3, 1, 8, 6, 60, 0);
  for (size_t i = 0; i < sizeof many / sizeof *many; i++)
    for (int code = 0; code < 2; code++) {
      char spec[200];
      c.prompt_len = many[i].prompt;
      rig_data(&c, 31 + (uint32_t)i);
      lean_account a = {.c = &c,
                        .code = code,
                        .one_tier = many[i].one_tier,
                        .window = many[i].window,
                        .queries = code ? many[i].queries : 0,
                        .alpha_h = many[i].alpha_h,
                        .alpha_l = many[i].alpha_l};
      snprintf(spec, sizeof spec,
               "leankv:variant=%s:window=%d:queries=%d:alpha_h=%g:alpha_l=%g:"
               "high=k16v16:low=%s",
               code ? "code" : "paper", a.window, a.queries, a.alpha_h,
               a.alpha_l, a.one_tier ? "k16v16" : "k8v4");
      follow(a, spec);
      rig_data_free(&c);
    }
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

/* 128 elements a side: 208 bytes in the high tier, 112 in the low one, of them
 * 4 of a score and 4 of a position, as in the paper's pages; and 4 that say
 * where the row lies, as of every lane that drops. */
TEST(bytes) {
  rig_case c = RIG_SHAPE(1, 1, 128, 128, 40, 30, .half = true);
  kv_bytes b = {0};
  rig_data(&c, 53);
  rig *r = rig_open(&c, "leankv:window=4:alpha_l=.8:alpha_h=1.1");
  rig_to(r, 40);
  const kv_lane *l = rig_lane(r, 0);
  kv_lane_bytes(l, &b);
  int low = lows(l);
  assert_true(low > 0 && l->dropped);
  assert_int_equal(kv_bytes_total(&b), 212 * (l->n - low) + 116 * low);
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
     {"leankv:high=k3v4", KV_USAGE, .says = {"k3v4", "k8v4"}}}};

RIG_TESTS(leankv, RIG_CASE(by_paper), RIG_CASE(by_code), RIG_CASE(edges),
          RIG_CASE(replays), RIG_CASE(window_and_steps), RIG_CASE(counts),
          RIG_CASE(bytes), RIG_LAWS(laws))

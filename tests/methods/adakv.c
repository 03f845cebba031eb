/* SPDX-License-Identifier: Apache-2.0
 *
 * AdaKV. The worked case: two KV heads, eight tokens, window 2; the scores,
 * worked out in binary64 as means over the window, are
 *   head 0 .033237 .018292 .562337 .001081 .309481 .001965
 *   head 1 .135930 .129078 .128780 .143521 .143190 .122251
 * (sums here: a common divisor decides nothing). Counts, caps and kept tokens
 * follow by hand, ties to even included. Budgets of a layer add up as the
 * rule says, also where rounding loses some.
 */
#include "tests/support/rig.h"
#include <math.h>
#include <string.h>

static rig_case two_lanes(float q[32], float k[32]) {
  static const float other[16] = {1, 1,    1,    0.9f, 0.9f, 1, 1.1f, 1,
                                  1, 1.1f, 0.9f, 0.9f, 1,    1, 1.1f, 0.9f};
  static const float a[4] = {1.5f, 2.5f, 4, 0}, b[4] = {1, 0.5f, 0.5f, 1};
  static float v[128];
  rig_case c = rig_eight(8);
  memset(q, 0, 32 * sizeof *q);
  memcpy(q + 12, a, sizeof a);
  memcpy(q + 28, b, sizeof b);
  memcpy(k, rig_key8, sizeof rig_key8);
  memcpy(k + 16, other, sizeof other);
  memcpy(v, rig_unit8, sizeof rig_unit8);
  memcpy(v + 64, rig_unit8, sizeof rig_unit8);
  c.heads = c.kv_heads = 2;
  c.q = q;
  c.k = k;
  c.v = v;
  return c;
}

TEST(worked) {
  static const struct {
    const char *spec;
    int kept[2][8];
  } at[] = {
      {"adakv:budget=5:window=2:kernel=1",
       {{2, 4, 6, 7, -1}, {0, 3, 4, 6, 7, -1}}},
      {"adakv:budget=5:window=2:kernel=1:alpha=0.5",
       {{2, 4, 6, 7, -1}, {0, 3, 4, 6, 7, -1}}},
      {"adakv:budget=5:window=2:kernel=1:normalise=yes",
       {{2, 4, 6, 7, -1}, {0, 3, 4, 6, 7, -1}}},
      {"adakv:budget=5:window=2:kernel=3",
       {{1, 2, 3, 4, 6, 7, -1}, {2, 6, 7, -1}}},
      {"adakv:budget=5:window=2:kernel=3:alpha=0.5",
       {{1, 2, 3, 4, 6, 7, -1}, {2, 3, 6, 7, -1}}},
      {"adakv:budget=4:window=2:kernel=3", {{1, 2, 3, 6, 7, -1}, {6, 7, -1}}},
      {"adakv:budget=4:window=2:kernel=3:alpha=0.5",
       {{1, 2, 3, 6, 7, -1}, {2, 6, 7, -1}}},
      {"adakv:budget=5:window=2:kernel=1:safeguard=minimum",
       {{2, 4, 6, 7, -1}, {0, 1, 3, 4, 6, 7, -1}}},
      {"adakv:budget=5:window=2:kernel=3:safeguard=minimum:alpha=1",
       {{1, 2, 3, 6, 7, -1}, {2, 3, 4, 6, 7, -1}}},
      {"adakv:budget=5:window=2:kernel=3:skip=1",
       {{1, 2, 3, 6, 7, -1}, {2, 3, 4, 6, 7, -1}}},
  };
  float q[32], k[32];
  rig_case c = two_lanes(q, k);
  for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
    rig *r = rig_open(&c, at[i].spec);
    for (int l = 0; l < 2; l++) rig_holds(r, l, at[i].kept[l]);
    rig_close(r);
  }
}

/* Two equal heads count 3 each, and 3 * 0.5 + 1 = 2.5 goes to the even 2. */
TEST(halves_to_even) {
  float q[32], k[32];
  rig_case c = two_lanes(q, k);
  memcpy(k + 16, k, 16 * sizeof *k);
  memcpy(q + 28, q + 12, 4 * sizeof *q);
  rig *r = rig_open(&c, "adakv:budget=5:window=2:kernel=1:alpha=0.5");
  for (int l = 0; l < 2; l++) rig_holds(r, l, (int[]){2, 4, 6, 7, -1});
  rig_close(r);
}

/* --- the rule in binary64, without pooling ------------------------------- */

typedef struct plain {
  int base, past, lanes;
  double score[4][64];
  bool in[4][64];
} plain;

/* Marks the k best of lanes from..to-1; equal ones do not occur. */
static void best(plain *s, int from, int to, int k) {
  for (int l = from; l < to; l++) memset(s->in[l], false, sizeof s->in[l]);
  for (; k > 0; k--) {
    int lane = -1, at = -1;
    for (int l = from; l < to; l++)
      for (int i = 0; i < s->past; i++)
        if (!s->in[l][i] && (lane < 0 || s->score[l][i] > s->score[lane][at])) {
          lane = l;
          at = i;
        }
    s->in[lane][at] = true;
  }
}

static void scores(plain *s, const rig_case *c, int window) {
  double p[64];
  int group = c->heads / c->kv_heads;
  for (int h = 0; h < c->heads; h++)
    for (int t = s->past; t < s->past + window; t++) {
      rig_exact(c, h, t, NULL, p);
      for (int i = 0; i < s->past; i++) s->score[h / group][i] += p[i];
    }
}

static void weigh(plain *s) {
  for (int l = 0; l < s->lanes; l++) {
    double top = 0, all = 0;
    best(s, l, l + 1, s->base);
    for (int i = 0; i < s->past; i++) {
      all += s->score[l][i];
      top += s->in[l][i] ? s->score[l][i] : 0;
    }
    for (int i = 0; i < s->past; i++) s->score[l][i] *= top / all;
  }
}

static void caps(plain *s, double alpha) {
  int cap[4] = {0};
  best(s, 0, s->lanes, s->lanes * s->base);
  for (int l = 0; l < s->lanes; l++) {
    for (int i = 0; i < s->past; i++) cap[l] += s->in[l][i];
    cap[l] = (int)rint(cap[l] * (1 - alpha) + floor(s->base * alpha));
  }
  for (int l = 0; l < s->lanes; l++) best(s, l, l + 1, cap[l]);
}

/* The kept tokens are those of the plain rule; returns a number made of the
 * lanes' lengths, to tell two settings apart. */
static int as_plain(const rig_case *c, bool normalise, const char *spec) {
  plain s = {.base = 10, .past = c->prompt_len - 4, .lanes = c->kv_heads};
  int ids[65], mixed = 0;
  scores(&s, c, 4);
  if (normalise) weigh(&s);
  caps(&s, 0.2);
  rig *r = rig_open(c, spec);
  for (int l = 0; l < s.lanes; l++) {
    int n = 0;
    for (int i = 0; i < c->prompt_len; i++)
      if (i >= s.past || s.in[l][i]) ids[n++] = i;
    ids[n] = -1;
    rig_holds(r, l, ids);
    mixed = 31 * mixed + n;
  }
  rig_close(r);
  return mixed;
}

TEST(plain_rule) {
  rig_case c = RIG_SHAPE(8, 4, 8, 4, 60, 60);
  int different = 0;
  for (uint32_t seed = 60; seed < 66; seed++) {
    rig_data(&c, seed);
    int off = as_plain(&c, false, "adakv:budget=14:window=4:kernel=1");
    int on =
        as_plain(&c, true, "adakv:budget=14:window=4:kernel=1:normalise=yes");
    different += on != off;
    rig_data_free(&c);
  }
  assert_true(different > 0);
}

/* --- laws ---------------------------------------------------------------- */

static int total(const rig *r) {
  int n = 0;
  for (int l = 0; l < rig_lanes(r); l++) n += rig_lane(r, l)->n;
  return n;
}

TEST(totals) {
  rig_case c = RIG_SHAPE(8, 4, 8, 4, 90, 80, .n_layers = 3, .layer = 2);
  for (uint32_t seed = 40; seed < 48; seed++) {
    rig_data(&c, seed);
    rig *r = rig_open(&c, "adakv:budget=21:safeguard=minimum");
    assert_int_equal(total(r), 4 * 21);
    for (int l = 0; l < 4; l++) assert_true(rig_lane(r, l)->n >= 10);
    rig_to(r, 90);
    assert_int_equal(total(r), 4 * 31);
    rig_close(r);
    r = rig_open(&c, "adakv:budget=21");
    /* each cap is off by at most half, and floor(base * alpha) loses < 1 */
    assert_in_range(total(r), 4 * 21 - 6, 4 * 21 + 2);
    rig_close(r);
    r = rig_open(&c, "adakv:budget=21:alpha=1:window=1");
    for (int l = 0; l < 4; l++) assert_int_equal(rig_lane(r, l)->n, 21);
    rig_close(r);
    rig_data_free(&c);
  }
}

/* --- compression again --------------------------------------------------- */

/* Every fifth step the layer's two lanes share anew, by the votes of the last
 * two queries: the best 2 * (9 - 2) of both, and two of each that stay. */
typedef struct shared {
  bool in[2][64];
  double vote[2][64];
} shared;

static void vote_again(shared *s, const rig_case *c, int t, bool prompt) {
  double p[64];
  for (int h = 0; h < c->heads; h++) {
    rig_exact(c, h, t, prompt ? NULL : s->in[h / 2], p);
    for (int j = 0; j <= t; j++) s->vote[h / 2][j] += p[j];
  }
}

static void share_again(shared *s, int n) {
  int held = 0;
  for (int l = 0; l < 2; l++)
    for (int j = 0; j < n; j++) held += s->in[l][j];
  for (; held > 18; held--) {
    int lane = -1, worst = -1;
    for (int l = 0; l < 2; l++)
      for (int j = 0; j < n - 2; j++)
        if (s->in[l][j] && (lane < 0 || s->vote[l][j] < s->vote[lane][worst])) {
          lane = l;
          worst = j;
        }
    s->in[lane][worst] = false;
  }
  memset(s->vote, 0, sizeof s->vote);
}

TEST(again) {
  rig_case c = RIG_SHAPE(4, 2, 8, 4, 46, 20);
  shared s = {.vote = {{0}}};
  int ids[65], unequal = 0;
  rig_data(&c, 33);
  memset(s.in, true, sizeof s.in);
  for (int t = 18; t < 20; t++) vote_again(&s, &c, t, true);
  share_again(&s, 20);
  rig *r = rig_open(&c, "adakv:budget=9:window=2:kernel=1:alpha=0:grow=no:"
                        "every=5");
  for (int step = 20; step <= 46; step++) {
    rig_to(r, step);
    int since = (step - 20) % 5;
    if (step > 20 && (since == 0 || since == 4))
      vote_again(&s, &c, step - 1, false);
    if (step > 20 && since == 0) share_again(&s, step);
    for (int l = 0; l < 2; l++) {
      int n = 0;
      for (int j = 0; j < step; j++)
        if (s.in[l][j]) ids[n++] = j;
      ids[n] = -1;
      rig_holds(r, l, ids);
    }
    unequal += rig_lane(r, 0)->n != rig_lane(r, 1)->n;
  }
  assert_true(unequal > 0);
  rig_close(r);
  rig_data_free(&c);
}

/* All of the layer's share in one lane, 2 * (12 - 6) and the window. */

static const rig_laws laws = {
    RIG_SHAPE(4, 2, 16, 8, 50, 30, .n_layers = 2),
    {{"adakv:budget=12", .grown = 18},
     {"adakv:budget=12:group=max:pooling=avg", .grown = 18},
     {"adakv:budget=12:normalise=yes:alpha=0", .grown = 18},
     {"adakv:budget=12:safeguard=minimum", .grown = 18},
     {"adakv:budget=12:group=query_head", .grown = 30},
     {"adakv:budget=6:window=6", .grown = 6},
     {"adakv:budget=12:grow=no:every=7", .at_most = 18, .every = 7},
     {"adakv:budget=12:grow=no:every=7:safeguard=minimum:group=max",
      .at_most = 18, .every = 7},
     {"adakv:budget=12:grow=no:every=7:score=h2o", .at_most = 18, .every = 7},
     {"adakv:budget=30", .dense = true},
     {"adakv:budget=50:grow=no:every=32", .dense = true},
     {"adakv:budget=12:skip=1", .same = "snapkv:budget=12"},
     {"adakv:budget=12:alpha=1", .same = "snapkv:budget=12"},
     {"adakv:budget=12:alpha=1:grow=no:every=7",
      .same = "snapkv:budget=12:grow=no:every=7"},
     {"adakv:budget=12", .grown = 1, .prompt_len = 1},
     {"adakv:budget=4:window=5", KV_REFUSED, .says = {"window=5", "4"}},
     {"adakv:budget=4:every=9", KV_REFUSED, .says = {"every=9", "grow=yes"}},
     {"adakv:budget=9:grow=no:every=3", KV_REFUSED,
      .says = {"every=3", "window=4"}}}};

/* Of the shortest keys of a layer: every scorer, at equal budgets. */
TEST(scorers) {
  static const char *const score[] = {"h2o", "knorm", "keydiff", "lagkv"};
  rig_case c = RIG_SHAPE(4, 2, 8, 8, 34, 30);
  rig_data(&c, 51);
  for (int i = 0; i < 4; i++) {
    char spec[64] = "adakv:budget=9:safeguard=minimum:score=";
    strcat(spec, score[i]);
    rig *r = rig_open(&c, spec);
    assert_int_equal(rig_lane(r, 0)->n + rig_lane(r, 1)->n, 18);
    rig_close(r);
    rig_law(&c, spec, NULL, NULL);
  }
  rig_law_refused(&c, "adakv:budget=9:score=knorm:normalise=yes", KV_REFUSED,
                  "normalise=yes", "below 0");
  rig_data_free(&c);
  c = rig_eight(8);
  rig_keeps(&c, "adakv:budget=4:score=knorm:alpha=0", 0,
            (int[]){0, 1, 3, 5, -1});
}

RIG_TESTS(adakv, RIG_CASE(scorers), RIG_CASE(worked), RIG_CASE(halves_to_even),
          RIG_CASE(plain_rule), RIG_CASE(totals), RIG_CASE(again),
          RIG_LAWS(laws))

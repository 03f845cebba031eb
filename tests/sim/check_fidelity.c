/* SPDX-License-Identifier: Apache-2.0
 *
 * The law of fidelity: for lanes that were kept from, merged, moved and coded
 * in every mixture, with views of any shape, each measure equals to the bit
 * what the plain loops of this file give - one token after the other, in
 * binary64, from probabilities made with the scalar arithmetic. An untouched
 * cache has TV 0, KL 0, error 0, drift 0, the whole mass and every recall 1.
 * (The exact row itself and the statistics: tests/sim/check_measures.c.)
 */
#include "ref/ground/arith.h"
#include "sim/replay/measure/fidelity_part.h"
#include "tests/support/world.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void good(kv_rc rc) { assert_int_equal(rc, KV_OK); }

/* --- the plain loops ---------------------------------------------------- */

typedef struct plain {
  double p[T], hat[T]; /* by token */
  int kind[T];         /* 0 not in the view, 1 held, 2 member of a merged one */
  int live[T];         /* the same over what is stored */
  float s[T];
} plain;

static void probabilities(int n, const float *s, double *p) {
  float m = s[0], r;
  int64_t sum = 0;
  for (int i = 1; i < n; i++) m = kv_max(m, s[i]);
  for (int i = 0; i < n; i++) sum += kv_fix(kv_expm(s[i] - m));
  r = 1.0f / kv_unfix(sum);
  for (int i = 0; i < n; i++) p[i] = (double)(kv_expm(s[i] - m) * r);
}

static int entry_of(const world *w, int token) {
  for (int i = 0; i < w->lane.n; i++)
    if ((int)w->lane.id[i] == w->rep[token]) return i;
  return -1;
}

/* Place of an entry in the view of head h, or -1. */
static int place_of(const world *w, int h, int entry) {
  int place = 0;
  for (int r = 0; r < w->view[h].runs; r++)
    for (int i = 0; i < w->run[h][r].count; i++, place++)
      if (w->run[h][r].first + i == entry) return place;
  return -1;
}

static void lay_out(const world *w, int h, int t, plain *x) {
  const kv_lane *l = &w->lane;
  double hat[T];
  float g[T] = {0};
  int n = 0;
  for (int i = 0; i <= t; i++)
    x->s[i] = world_logit(w, l->first_head + h, l->kv_head, t, i);
  probabilities(t + 1, x->s, x->p);
  for (int i = 0; i < l->n; i++)
    if (place_of(w, h, i) >= 0) g[n++] = w->s[h * T + i];
  probabilities(n, g, hat);
  for (int i = 0; i <= t; i++) {
    int e = entry_of(w, i), at = e < 0 ? -1 : place_of(w, h, e);
    uint32_t weight = e < 0 ? 0 : l->weight[e];
    x->live[i] = weight == 0 ? 0 : weight == 1 ? 1 : 2;
    x->kind[i] = at < 0 ? 0 : x->live[i];
    x->hat[i] = at < 0 ? 0 : weight == 1 ? hat[at] : hat[at] / (double)weight;
  }
}

static double masses(const plain *x, const int *kind, int which, int t) {
  double sum = 0;
  for (int i = 0; i <= t; i++) sum += kind[i] == which ? x->p[i] : 0;
  return sum;
}

static double distance(const plain *x, int t) {
  double sum = 0;
  for (int i = 0; i <= t; i++) sum += fabs(x->p[i] - x->hat[i]);
  return 0.5 * sum;
}

static double divergence(const plain *x, int t) {
  double sum = 0, least = 0x1p-126;
  for (int i = 0; i <= t; i++) {
    double p = x->p[i] < least ? least : x->p[i];
    if (x->hat[i] < least) continue;
    sum += x->hat[i] *
           ((double)kv_log((float)x->hat[i]) - (double)kv_log((float)p));
  }
  return sum;
}

/* Tokens with a larger logit, or an equal one and a lower index. */
static int rank_among(const plain *x, int t, int i) {
  int n = 0;
  for (int j = 0; j <= t; j++)
    n += kv_key(x->s[j]) > kv_key(x->s[i]) ||
         (kv_key(x->s[j]) == kv_key(x->s[i]) && j < i);
  return n;
}

static double recall(const plain *x, int t, int k) {
  int most = k < t + 1 ? k : t + 1, hit = 0;
  for (int i = 0; i <= t; i++)
    hit += x->kind[i] == 1 && rank_among(x, t, i) < most;
  return (double)hit / (double)most;
}

static void same(const world *w, kv_measure m, int h, int t, double x) {
  double got = kv_fidelity_value(w->fid, m, 0, w->lane.first_head + h, t);
  if (memcmp(&got, &x, sizeof x))
    fail_msg("%s, head %d, token %d: %.17g, not %.17g",
             kv_measure_table[m].name, h, t, got, x);
}

static void check_output(const world *w, int h, int t) {
  const float *o =
      w->truth->out +
      (w->lane.first_head + h - w->lane.kv_head * kv_group(&w->shape)) * DV;
  double a = 0, b = 0, most = 0;
  for (int i = 0; i < DV; i++) {
    double gap = (double)w->out[h * DV + i] - (double)o[i];
    a += gap * gap;
    b += (double)o[i] * (double)o[i];
    if (fabs(gap) > most) most = fabs(gap);
  }
  same(w, KV_OUTPUT_ERROR, h, t, sqrt(a) / sqrt(b));
  same(w, KV_OUTPUT_ABS, h, t, most);
}

/* LSE in binary64 over what is stored, from keys as attention reads them. */
static double stored_lse(const world *w, int h, int t) {
  const kv_lane *l = &w->lane;
  const float *q = w->q + ((size_t)(l->first_head + h) * T + (size_t)t) * D;
  double s[T], most = -HUGE_VAL, sum = 0;
  for (int i = 0; i < l->n; i++) {
    float key[D];
    s[i] = 0;
    kv_lane_key(l, i, key);
    for (int j = 0; j < D; j++) s[i] += (double)q[j] * (double)key[j];
    s[i] = s[i] * (double)w->shape.scale +
           (double)w->needs.merge_bias * log((double)l->weight[i]);
    if (s[i] > most) most = s[i];
  }
  for (int i = 0; i < l->n; i++) sum += exp(s[i] - most);
  return most + log(sum);
}

/* Logits are chains of 16 roundings to 2^-24 of values below 128 scale. */
static void check_lse(const world *w, int h, int t, const plain *x) {
  double got =
      kv_fidelity_value(w->fid, KV_LSE_ERROR, 0, w->lane.first_head + h, t);
  double most = -HUGE_VAL, sum = 0;
  for (int i = 0; i <= t; i++) most = fmax(most, (double)x->s[i]);
  for (int i = 0; i <= t; i++) sum += exp((double)x->s[i] - most);
  double want = stored_lse(w, h, t) - (most + log(sum));
  assert_true(fabs(got - want) < 1.6e-5 * (double)w->shape.scale);
}

/* What row t looks for, of the first answer that claims it; -1: nothing. */
static int sought(int t) {
  for (int a = 0; a < ANSWERS; a++) {
    int i = t - (world_answer[a].start - 1);
    if (i >= 0 && t < world_answer[a].end - 1)
      return world_answer[a].source_start + i;
  }
  return -1;
}

static void check_row(const world *w, int t) {
  for (int h = 0; h < w->lane.queries; h++) {
    plain x;
    lay_out(w, h, t, &x);
    same(w, KV_MASS, h, t, masses(&x, x.kind, 1, t));
    same(w, KV_MASS_STORED, h, t, masses(&x, x.live, 1, t));
    same(w, KV_MASS_MERGED, h, t, masses(&x, x.kind, 2, t));
    same(w, KV_TV, h, t, distance(&x, t));
    same(w, KV_KL, h, t, divergence(&x, t));
    same(w, KV_RECALL_1, h, t, recall(&x, t, 1));
    same(w, KV_RECALL_16, h, t, recall(&x, t, 16));
    same(w, KV_RECALL_B, h, t, recall(&x, t, BUDGET));
    check_output(w, h, t);
    check_lse(w, h, t, &x);
    int token = sought(t);
    if (token < 0) continue;
    same(w, KV_NEEDLE_STORED, h, t, x.live[token] == 1);
    same(w, KV_NEEDLE_MERGED, h, t, x.live[token] == 2);
    same(w, KV_NEEDLE_VIEW, h, t, x.kind[token] == 1);
    same(w, KV_NEEDLE_MASS, h, t, x.hat[token]);
    same(w, KV_NEEDLE_DENSE, h, t, x.p[token]);
  }
}

enum { DROP = 1, MERGE = 2, MOVE = 4, CODE = 8, SOME = 16, SHARP = 32 };

/* Who only drops has no term of drift above 0 but by the sums' roundings. */
static void check_falls(const world *w) {
  for (int i = 0; i < w->lane.queries * (T - P); i++)
    assert_true(kv_fidelity_value(
                    w->fid, KV_LSE_ERROR, 0, w->lane.first_head + i / (T - P),
                    P + i % (T - P)) < 1.6e-5 * (double)w->shape.scale);
}

static void replay(world *w, unsigned what) {
  if (what & SHARP) w->shape.scale = 16.0f;
  kv_lane_append(&w->lane, 0, P);
  for (int t = P; t < T; t++) {
    kv_lane_append(&w->lane, t, 1);
    if (what & SOME)
      world_see_some(w);
    else
      world_see_all(w);
    kv_seen seen = world_attend(w, t);
    kv_fidelity_row(w->fid, 0, &seen, w->truth);
    check_row(w, t);
    w->lane.verbs.n = 0;
    if (what & DROP) world_drop(w);
    for (int i = 0; i < 4 && what & MERGE; i++) world_merge(w);
    if (what & MOVE) world_move(w);
    if (what & CODE) world_code(w);
    assert_int_equal(w->lane.fault.rc, KV_OK);
  }
}

/* --- tests -------------------------------------------------------------- */

static void run(unsigned what, bool merges) {
  static const int group[] = {1, 2, 4, 7, 8};
  for (int i = 0; i < 5; i++)
    for (int own = 0; own < 2; own++) {
      world w;
      int lane = own ? group[i] + group[i] / 2 : 1;
      world_open(&w, 2, group[i], own ? QUERY_HEAD : KV_HEAD, lane, merges);
      replay(&w, what);
      if (what == DROP || what == (DROP | SOME)) check_falls(&w);
      world_close(&w);
    }
}

TEST(untouched_is_exact) {
  world w;
  world_open(&w, 2, 3, KV_HEAD, 1, false);
  replay(&w, 0);
  for (int h = 0; h < 3; h++)
    for (int t = P; t < T; t++) {
      plain x;
      lay_out(&w, h, t, &x);
      same(&w, KV_TV, h, t, 0);
      same(&w, KV_KL, h, t, 0);
      same(&w, KV_OUTPUT_ERROR, h, t, 0);
      same(&w, KV_LSE_ERROR, h, t, 0);
      same(&w, KV_RECALL_B, h, t, 1);
      double all = kv_fidelity_value(w.fid, KV_MASS, 0, 3 + h, t);
      assert_true(fabs(all - 1) < 1e-5);
    }
  world_close(&w);
}

/* SHARP: probabilities below 2^-126 on both sides. */
TEST(changed_lanes) {
  static const struct {
    unsigned what;
    bool merges;
    int times;
  } of[] = {{SOME, false, 1},
            {DROP, false, 1},
            {DROP | SOME, false, 1},
            {MERGE, true, 1},
            {MERGE | SOME, true, 1},
            {MOVE | SOME, false, 1},
            {CODE, false, 1},
            {CODE | SOME, false, 1},
            {SHARP | SOME, false, 1},
            {SHARP | SOME | MERGE, true, 1},
            {DROP | MERGE | MOVE | SOME, true, 5}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++)
    for (int k = 0; k < of[i].times; k++) run(of[i].what, of[i].merges);
}

TEST(answers_as_a_whole) {
  world w;
  int last[] = {P + 5, P, T - 1, P + 7}; /* rows of answers 0, 1, 3, 4 */
  for (int gone = 4; gone < 9; gone++) { /* token 8 is nobody's needle */
    world_open(&w, 1, 1, KV_HEAD, 0, false);
    kv_lane_append(&w.lane, 0, P);
    for (int t = P; t < T; t++) {
      kv_lane_append(&w.lane, t, 1);
      world_see_all(&w);
      w.view[0].runs = w.view[0].entries = 0;
      kv_view_add(&w.view[0], 0, gone);
      kv_view_add(&w.view[0], gone + 1, w.lane.n - gone - 1);
      kv_seen seen = world_attend(&w, t);
      kv_fidelity_row(w.fid, 0, &seen, w.truth);
    }
    for (int t = P; t < T; t++) {
      double x = kv_fidelity_value(w.fid, KV_NEEDLE_ALL, 0, 0, t);
      if (t == last[0])
        assert_true(x == (gone == 8));
      else if (t == last[1] || t == last[2] || t == last[3])
        assert_true(x == 1);
      else
        assert_true(isnan(x));
    }
    assert_true(isnan(kv_fidelity_value(w.fid, KV_NEEDLE_VIEW, 0, 0, P + 1)));
    world_close(&w);
  }
}

/* A quotient of means, not a mean of quotients. */
TEST(share_of_the_needle) {
  kv_stat stat[KV_MEASURES] = {0};
  stat[KV_NEEDLE_MASS] = (kv_stat){.count = 18, .mean = 0.25};
  stat[KV_NEEDLE_DENSE] = (kv_stat){.count = 18, .mean = 0.625};
  assert_true(kv_needle_share(stat) == 0.25 / 0.625);
  stat[KV_NEEDLE_DENSE].count = 0; /* as in rows of an earlier kvreplay */
  assert_true(isnan(kv_needle_share(stat)));
}

/* Shares 1/2, 1/4, 1, none, 0, 1/4 of masses 4, 8, 2, 0, 1, 25: 21/2 - 1/4 of
 * 40 are kept. A tenth is 4: 1 of the lane with 0, then 3 of lane 1, since it
 * comes before lane 5. */
static void make_lanes(kv_kept out[6]) {
  static const double dense[] = {4, 8, 2, 0, 1, 25}, kept[] = {2, 2, 2, 0, 0};
  for (int i = 0; i < 6; i++) out[i] = (kv_kept){kept[i % 5], dense[i], i};
  out[5].kept = 6.25;
}

TEST(kept_of_all_and_of_the_worst) {
  kv_kept lane[6];
  make_lanes(lane);
  assert_true(kv_kept_share(6, lane) == 12.25 / 40);
  assert_true(kv_kept_worst(6, lane) == .25 * 3 / 4);
  const int order[] = {4, 1, 5, 0}; /* then lanes 2 and 3, or 3 and 2 */
  for (int i = 0; i < 4; i++) assert_int_equal(lane[i].lane, order[i]);
  kv_kept few[] = {{0, .125, 0}, {39, 39, 1}, {0, .875, 2}};
  assert_true(kv_kept_worst(3, few) == 3. / 4); /* not 1/3 of the lanes */
  for (int i = 0; i < 3; i++) few[i] = (kv_kept){0, 0, i};
  assert_true(isnan(kv_kept_share(3, few)) && isnan(kv_kept_worst(3, few)));
  assert_true(isnan(kv_kept_worst(0, few)));
}

/* Dense's mass of the rows whose token the view holds: merged tokens and those
 * that are stored but not seen are not among them, coded ones are. */
static void kept_after(unsigned what, bool merges, double least, double most) {
  world w;
  kv_totals t = {0};
  double kept = 0, dense = 0;
  world_open(&w, 2, 4, KV_HEAD, 1, merges);
  for (int h = 0; h < 4; h++) /* the other lane: nothing kept, no first row */
    for (int i = 1; i < w.fid->searches; i++) {
      kv_fidelity_head(w.fid, KV_NEEDLE_VIEW, 0, h)[i] = 0;
      kv_fidelity_head(w.fid, KV_NEEDLE_DENSE, 0, h)[i] = 0x1p-40;
    }
  replay(&w, what);
  for (int h = 4; h < 8; h++)
    for (int i = P; i < T; i++) {
      double p = kv_fidelity_value(w.fid, KV_NEEDLE_DENSE, 0, h, i);
      bool held = kv_fidelity_value(w.fid, KV_NEEDLE_VIEW, 0, h, i) == 1;
      if (sought(i) < 0) continue;
      dense += p;
      kept += held ? p : 0;
    }
  good(kv_fidelity_kept(w.fid, &t, NULL));
  double other = 4 * (w.fid->searches - 1) * 0x1p-40,
         tenth = (dense + other) / 10;
  assert_true(t.needle_kept == kept / (dense + other));
  assert_true(fabs(t.needle_worst * tenth - kept / dense * (tenth - other)) <
              1e-15);
  assert_true(kept / dense >= least && kept / dense <= most);
  world_close(&w);
}

TEST(kept_of_the_needles) {
  for (int i = 0; i < 4; i++) {
    kept_after(0, false, 1, 1);
    kept_after(CODE, false, 1, 1);
    kept_after(SOME, false, 0, .999);
    kept_after(DROP | SOME, false, 0, .999);
    kept_after(MERGE, true, 0, .999);
  }
}

/* Of what is not seen there are no values: head 0's lane, rows that look for
 * nothing. */
TEST(what_is_counted) {
  world w;
  kv_result r = {0};
  world_open(&w, 2, 2, KV_HEAD, 1, false);
  replay(&w, SOME);
  good(kv_fidelity_finish(w.fid, &r, NULL));
  assert_int_equal(r.n_parts, 1 + 2 + 16);
  assert_int_equal(r.part[0].layer, 3);
  assert_int_equal(r.part[0].head, -1);
  assert_int_equal(r.stat[KV_TV].count, 2 * (T - P));
  assert_int_equal(r.part[1].stat[KV_TV].count, 0);
  assert_int_equal(r.stat[KV_NEEDLE_VIEW].count, 2 * 9);
  assert_int_equal(r.stat[KV_NEEDLE_ALL].count, 2 * 4);
  kv_result_free(&r);
  world_close(&w);
}

/* prompt_len = T: no decode step, everything null. */
TEST(nothing_decoded) {
  static const int layer[] = {0, 2};
  kv_shape shape = {4, 4, 2, D, DV, T, T, 0, KV_F16, 1, 0, 0, NULL};
  kv_fidelity *f;
  kv_result r = {0};
  good(kv_fidelity_open(&shape, 2, layer, (int[]){-1, -1}, ANSWERS,
                        world_answer, &f, NULL));
  good(kv_fidelity_finish(f, &r, NULL));
  assert_int_equal(r.n_parts, 2 + 4);
  for (int m = 0; m < KV_MEASURES; m++) assert_int_equal(r.stat[m].count, 0);
  kv_result_free(&r);
  kv_fidelity_close(f);
}

int main(void) {
  kv_float_ground();
  return tests_run("fidelity", NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * H2O. The worked case: eight keys, a prompt of six, two heavy and two recent
 * tokens; sums and probabilities to six digits were worked out by hand from
 * the definition in binary64. The masked variant must be the simulator that
 * removes nothing, replayed literally beside it.
 */
#include "ref/parts/parts.h"
#include "tests/support/rig.h"
#include <math.h>
#include <string.h>

static void sums(const rig *r, const double *expected) {
  const kv_lane *l = rig_lane(r, 0);
  for (int i = 0; i < l->n; i++) {
    double a = (double)l->column[0].i[i] * 0x1p-40;
    if (!(fabs(a - expected[i]) <= 2e-6))
      fail_msg("step %d, entry %d: sum %.7f, expected %.6f", rig_step(r), i, a,
               expected[i]);
  }
}

TEST(worked_drop) {
  rig_case c = rig_eight(6);
  rig *r = rig_open(&c, "h2o:budget=4:recent=2");
  rig_holds(r, 0, (int[]){0, 2, 4, 5, -1});
  sums(r, (double[]){2.171753, 1.728537, .473034, .022694});
  rig_to(r, 7);
  rig_saw(r, 0, (int[]){0, 2, 4, 5, 6, -1});
  rig_shares(r, 0,
             (double[]){.103492, 0, .209894, 0, .425690, .051029, .209894, 0});
  rig_holds(r, 0, (int[]){0, 2, 5, 6, -1});
  sums(r, (double[]){2.275246, 1.938431, .073723, .209894});
  rig_to(r, 8);
  rig_saw(r, 0, (int[]){0, 2, 5, 6, 7, -1});
  rig_shares(r, 0,
             (double[]){.155873, 0, .641145, 0, 0, .037895, .155873, .009213});
  rig_holds(r, 0, (int[]){0, 2, 6, 7, -1});
  sums(r, (double[]){2.431119, 2.579576, .365768, .009213});
  rig_close(r);
}

TEST(worked_masked) {
  rig_case c = rig_eight(6);
  rig *r = rig_open(&c, "h2o:budget=4:recent=2:variant=masked");
  rig_holds(r, 0, (int[]){0, 2, 4, 5, -1}); /* 4 is the orphan */
  rig_to(r, 7);
  rig_saw(r, 0, (int[]){0, 2, 5, 6, -1});
  rig_shares(r, 0, (double[]){.180203, 0, .365472, 0, 0, .088852, .365472, 0});
  rig_to(r, 8);
  rig_saw(r, 0, (int[]){0, 2, 6, 7, -1});
  rig_shares(r, 0, (double[]){.162013, 0, .666399, 0, 0, 0, .162013, .009576});
  rig_close(r);
}

/* Column sums of all eight rows: 2.380124 1.585740 2.421312 .296011 ... */
TEST(worked_prefill) {
  rig_case c = rig_eight(8);
  rig_keeps(&c, "h2o:budget=4:recent=2:variant=prefill", 0,
            (int[]){0, 2, 6, 7, -1});
  c.prompt_len = 6;
  rig *r = rig_open(&c, "h2o:budget=4:recent=2:variant=prefill");
  rig_to(r, 8);
  rig_holds(r, 0, (int[]){0, 2, 4, 5, 6, 7, -1});
  rig_close(r);
}

/* Means over the rows that saw a token. Of eight rows .297515 .226534 .403552
 * .059202 .231681 ..: token 4 before token 1. Decoding from six, the seventh
 * row brings token 6 .286281 of one row, more than .280118 of token 1. */
TEST(worked_seen) {
  rig_case c = rig_eight(8);
  rig_keeps(&c, "h2o:budget=3:recent=0:variant=prefill", 0,
            (int[]){0, 1, 2, -1});
  rig_keeps(&c, "h2o:budget=3:recent=0:variant=prefill:scale=seen", 0,
            (int[]){0, 2, 4, -1});
  c.prompt_len = 6;
  rig *r = rig_open(&c, "h2o:budget=3:recent=0:scale=seen");
  rig_holds(r, 0, (int[]){0, 1, 2, -1});
  rig_to(r, 7);
  rig_shares(r, 0, (double[]){.141156, .286281, .286281, 0, 0, 0, .286281, 0});
  rig_holds(r, 0, (int[]){0, 2, 6, -1});
  rig_to(r, 8);
  rig_holds(r, 0, (int[]){0, 2, 6, -1});
  sums(r, (double[]){2.474922, 2.681217, .448294});
  rig_close(r);
}

/* The quotient is rounded once, and equal ones go by the lower entry: 3/3 and
 * 1/1 tie, 1/3 in binary32 is 0x1.555556p-2. */
TEST(seen_part) {
  const uint32_t id[4] = {0, 1, 2, 7};
  float score[4] = {3, 1, 1, 0.5f};
  bool keep[4];
  kv_scores_seen(3, id, 3, score);
  kv_scores_seen(8, id + 3, 1, score + 3);
  assert_true(score[0] == 1 && score[1] == 0.5f && score[2] == 1);
  assert_true(score[3] == 0.5f);
  kv_top(score, 4, 3, keep);
  for (int i = 0; i < 4; i++) assert_int_equal(keep[i], i < 3);
  score[0] = 1;
  kv_scores_seen(3, id, 1, score);
  assert_true(score[0] == 0x1.555556p-2f);
}

/* The simulator for one query head: mask and sums over all positions. */
typedef struct simulator {
  int heavy, recent;
  bool mask[64];
  double sum[64];
} simulator;

static void add_row(simulator *s, const rig_case *c, int t, const bool *mask) {
  double p[64];
  rig_exact(c, 0, t, mask, p);
  for (int j = 0; j <= t; j++) s->sum[j] += p[j];
}

/* After a step with n keys: the mask of the next, and the sums that live. */
static void next_mask(simulator *s, int n) {
  bool heavy[64] = {false};
  if (n <= s->heavy + s->recent) return;
  for (int k = 0; k < s->heavy; k++) {
    int best = -1;
    for (int j = 0; j < n - s->recent; j++)
      if (!heavy[j] && (best < 0 || s->sum[j] > s->sum[best])) best = j;
    heavy[best] = true;
  }
  for (int j = 0; j < n; j++) {
    s->mask[j] = heavy[j] || (s->recent ? j > n - s->recent : false);
    if (!heavy[j] && j < n - s->recent) s->sum[j] = 0;
  }
  s->mask[n] = true;
}

static void literal(const rig_case *c, int heavy, int recent,
                    const char *spec) {
  simulator s = {.heavy = heavy, .recent = recent};
  int ids[65];
  memset(s.mask, true, sizeof s.mask);
  for (int t = 0; t < c->prompt_len; t++) add_row(&s, c, t, NULL);
  rig *r = rig_open(c, spec);
  for (int t = c->prompt_len; t < c->n_tokens; t++) {
    int n = 0;
    next_mask(&s, t);
    for (int j = 0; j <= t; j++)
      if (s.mask[j]) ids[n++] = j;
    ids[n] = -1;
    rig_to(r, t + 1);
    rig_saw(r, 0, ids);
    add_row(&s, c, t, s.mask);
  }
  rig_close(r);
}

TEST(simulators) {
  rig_case c = RIG_SHAPE(1, 1, 8, 4, 60, 20);
  for (uint32_t seed = 20; seed < 24; seed++) {
    rig_data(&c, seed);
    literal(&c, 5, 4, "h2o:budget=9:recent=4:variant=masked");
    literal(&c, 3, 1, "h2o:budget=4:recent=1:variant=masked");
    literal(&c, 15, 15, "h2o:budget=30:variant=masked");
    literal(&c, 10, 10, "h2o:budget=20:variant=masked");
    literal(&c, 6, 0, "h2o:budget=6:recent=0:variant=masked");
    rig_data_free(&c);
  }
}

static const rig_laws laws = {
    RIG_SHAPE(4, 2, 16, 8, 60, 30),
    {{"h2o:budget=10", .at_most = 10},
     {"h2o:budget=10:recent=0", .at_most = 10},
     {"h2o:budget=10:recent=10", .at_most = 10},
     {"h2o:budget=1", .at_most = 1},
     {"h2o:budget=10:group=query_head", .at_most = 10},
     {"h2o:budget=10:variant=masked", .at_most = 10},
     {"h2o:budget=10:variant=prefill", .grown = 10},
     {"h2o:budget=10:variant=prefill:group=max", .grown = 10},
     {"h2o:budget=10:scale=seen", .at_most = 10},
     {"h2o:budget=10:variant=prefill:scale=seen", .grown = 10},
     {"h2o:budget=60", .dense = true},
     {"h2o:budget=59:variant=masked", .dense = true},
     {"h2o:budget=30:variant=prefill", .dense = true},
     {"h2o:budget=10", .same = "h2o:budget=10:group=mean"},
     {"window:budget=10", .same = "h2o:budget=10:recent=10"},
     {"h2o:budget=9", .same = "h2o:budget=9:recent=4"},
     {"h2o:budget=9", .unlike = "h2o:budget=9:recent=5"},
     {"h2o:budget=4:recent=5", KV_REFUSED, .says = {"recent=5", "4"}},
     {"h2o:budget=4:group=max", KV_REFUSED, .says = {"group=max", "drop"}},
     {"h2o:budget=4:variant=masked:scale=seen", KV_REFUSED,
      .says = {"scale=seen", "masked"}}}};

/* The sums of a lane are the group's: two equal query heads double them. */
TEST(groups) {
  rig_case c = rig_eight(6);
  float q[32];
  memcpy(q, rig_query8, sizeof rig_query8);
  memcpy(q + 16, rig_query8, sizeof rig_query8);
  c.heads = 2;
  c.q = q;
  rig *r = rig_open(&c, "h2o:budget=4");
  sums(r, (double[]){4.343506, 3.457074, .946068, .045388});
  assert_int_equal(rig_lanes(r), 1);
  rig_close(r);
  r = rig_open(&c, "h2o:budget=4:group=query_head");
  sums(r, (double[]){2.171753, 1.728537, .473034, .022694});
  assert_int_equal(rig_lanes(r), 2);
  rig_close(r);
}

TEST(too_long) {
  rig_case c = rig_eight(6);
  c.heads = 4;
  c.n_tokens = 1 << 21;
  rig_law_refused(&c, "h2o:budget=4", KV_REFUSED, "8388608", "4194304");
}

RIG_TESTS(h2o, RIG_CASE(worked_drop), RIG_CASE(worked_masked),
          RIG_CASE(worked_prefill), RIG_CASE(worked_seen), RIG_CASE(seen_part),
          RIG_CASE(simulators), RIG_CASE(groups), RIG_LAWS(laws),
          RIG_CASE(too_long))

/* SPDX-License-Identifier: Apache-2.0
 *
 * LagKV. The worked case, lag 2 behind one sink: of keys and values, tokens 1
 * and 2 are put between the least and the largest of tokens 3 and 4, those
 * between 5 and 6; 7 and what follows it stay with the last full partition. It
 * was worked out by hand. Otherwise plainly, in binary64.
 */
#include "tests/support/rig.h"
#include <math.h>

/* By the next pair: token 1 (0,1), 2 (.5,.5): deviations .7071 and 0, in keys
 * and values alike; token 3 (0,0) and 4 (1,2): 0 and .7071. */
static const float rows8[16] = {9, 9, 0, 2, 1, 1, 0, 0, 2, 2, 0, 0, 2, 1, 5, 5};

TEST(worked) {
  rig_case c =
      RIG_SHAPE(1, 1, 2, 2, 8, 8, .q = rig_query8, .k = rows8, .v = rows8);
  rig_keeps(&c, "lagkv:budget=6:sinks=1:lag=2", 0,
            (int[]){0, 1, 4, 5, 6, 7, -1});
  rig_keeps(&c, "lagkv:budget=5:sinks=1:lag=2", 0,
            (int[]){0, 1, 5, 6, 7, -1}); /* both rank first: the older */
  rig_keeps(&c, "lagkv:budget=7:sinks=1:lag=2", 0,
            (int[]){0, 1, 2, 4, 5, 6, 7, -1});
}

/* --- plainly -------------------------------------------------------------- */

enum { SINKS = 2, LAG = 5, D = 8, TOKENS = 40 };

static double deviation(const float *x, int i, int from) {
  double u[D], mean = 0, sum = 0;
  for (int c = 0; c < D; c++) {
    double lo = 1e9, hi = -1e9;
    for (int j = from; j < from + LAG; j++) {
      lo = fmin(lo, (double)x[j * D + c]);
      hi = fmax(hi, (double)x[j * D + c]);
    }
    u[c] = ((double)x[i * D + c] - lo) / (hi - lo);
    mean += u[c] / D;
  }
  for (int c = 0; c < D; c++) sum += (u[c] - mean) * (u[c] - mean);
  return sqrt(sum / (D - 1));
}

static void add_shares(const float *x, int first, double *share) {
  double e[LAG], all = 0;
  for (int i = 0; i < LAG; i++)
    all += e[i] = exp(deviation(x, first + i, first + LAG));
  for (int i = 0; i < LAG; i++) share[first + i] += e[i] / all;
}

/* Tokens of one lane that stay, by their share among all, or by how many of
 * their own partition they beat. */
static void plainly(const rig_case *c, int lane, int budget, bool cross,
                    int *ids) {
  double share[TOKENS] = {0}, score[TOKENS];
  int past = c->prompt_len - SINKS, end = past / LAG * LAG - LAG + SINKS, n = 0;
  size_t at = (size_t)lane * TOKENS * D;
  for (int a = SINKS; a < end; a += LAG) {
    add_shares(c->k + at, a, share);
    add_shares(c->v + at, a, share);
  }
  for (int i = SINKS; i < end; i++) {
    int a = i - (i - SINKS) % LAG, beaten = 0;
    for (int j = a; j < a + LAG; j++) beaten += share[j] < share[i];
    score[i] = cross ? share[i] : beaten;
  }
  for (int i = 0; i < c->prompt_len; i++) {
    int better = 0;
    for (int j = SINKS; j < end; j++)
      better += score[j] > score[i] || (score[j] == score[i] && j < i);
    if (i < SINKS || i >= end ||
        better < budget - SINKS - (c->prompt_len - end))
      ids[n++] = i;
  }
  ids[n] = -1;
}

static rig_case sample(uint32_t seed) {
  rig_case c = RIG_SHAPE(4, 2, D, D, TOKENS, 34);
  rig_data(&c, seed);
  return c;
}

TEST(by_hand) {
  rig_case c = sample(21);
  int ids[TOKENS + 1];
  for (int cross = 0; cross < 2; cross++) {
    rig *r = rig_open(&c, cross ? "lagkv:budget=20:sinks=2:lag=5:cross=yes"
                                : "lagkv:budget=20:sinks=2:lag=5");
    for (int lane = 0; lane < 2; lane++) {
      plainly(&c, lane, 20, cross, ids);
      rig_holds(r, lane, ids);
    }
    rig_close(r);
  }
  rig_data_free(&c);
}

static const rig_laws laws = {
    RIG_SHAPE(4, 2, D, D, TOKENS, 34),
    {{"lagkv:budget=7", .grown = 7},
     {"lagkv:budget=1", .grown = 1},
     {"lagkv:budget=2:form=both:every=1", .at_most = 2},
     {"lagkv:budget=12:lag=3:form=both:every=1", .at_most = 12},
     {"lagkv:budget=34", .dense = true},
     {"lagkv:budget=40:lag=2:form=both:every=3", .dense = true},
     {"lagkv:budget=12:lag=5", KV_REFUSED, .says = {"lag=5", "budget"}}}};

RIG_TESTS(lagkv, RIG_CASE(worked), RIG_CASE(by_hand), RIG_LAWS(laws))

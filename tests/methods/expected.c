/* SPDX-License-Identifier: Apache-2.0
 *
 * Expected Attention, plainly in binary64: queries turned back by their
 * positions, their mean and covariance, the mean rotation of the positions to
 * come, softmax, value norms. Every option decides otherwise somewhere; a trace
 * without rotation frequencies is refused by what it needs; forms.
 */
#include "tests/support/rig.h"
#include <math.h>
#include <string.h>

enum { D = 4, TOKENS = 30, PROMPT = 26 };
static const float inv_freq[D / 2] = {1, .01f};

static rig_case sample(uint32_t seed) {
  rig_case c = RIG_SHAPE(4, 2, D, 6, TOKENS, PROMPT, .inv_freq = inv_freq);
  rig_data(&c, seed);
  return c;
}

typedef struct asked {
  int sinks, future;
  bool covariance, vnorm;
  double epsilon;
} asked;

static void turn(const double *s, const double *c, double *x) {
  for (int i = 0; i < D / 2; i++) {
    double a = x[i], b = x[i + D / 2];
    x[i] = a * c[i] - b * s[i];
    x[i + D / 2] = b * c[i] + a * s[i];
  }
}

static void turn_by(int position, double *x) {
  double s[D / 2], c[D / 2];
  for (int i = 0; i < D / 2; i++) {
    s[i] = sin(position * (double)inv_freq[i]);
    c[i] = cos(position * (double)inv_freq[i]);
  }
  turn(s, c, x);
}

static void turn_ahead(int future, double *x) {
  double s[D / 2] = {0}, c[D / 2] = {0};
  for (int f = 0; f < future; f++)
    for (int i = 0; i < D / 2; i++) {
      s[i] += sin((PROMPT + f) * (double)inv_freq[i]) / future;
      c[i] += cos((PROMPT + f) * (double)inv_freq[i]) / future;
    }
  turn(s, c, x);
}

/* Mean and covariance of head h's queries to come. */
static void distribution(const rig_case *c, int h, const asked *a, double *mean,
                         double cov[D][D]) {
  double x[TOKENS][D];
  int n = PROMPT - a->sinks;
  memset(mean, 0, D * sizeof *mean);
  memset(cov, 0, D * sizeof *cov);
  for (int t = a->sinks; t < PROMPT; t++) {
    for (int i = 0; i < D; i++)
      x[t][i] = (double)c->q[(h * TOKENS + t) * D + i];
    turn_by(-t, x[t]);
    for (int i = 0; i < D; i++) mean[i] += x[t][i] / n;
  }
  for (int t = a->sinks; t < PROMPT; t++)
    for (int i = 0; i < D; i++)
      for (int j = 0; j < D; j++)
        cov[i][j] += (x[t][i] - mean[i]) * (x[t][j] - mean[j]) / n;
  turn_ahead(a->future, mean);
  for (int i = 0; i < D; i++) turn_ahead(a->future, cov[i]);
  for (int j = 0; j < D; j++) {
    double column[D];
    for (int i = 0; i < D; i++) column[i] = cov[i][j];
    turn_ahead(a->future, column);
    for (int i = 0; i < D; i++) cov[i][j] = column[i];
  }
}

static void add_head(const rig_case *c, int h, const asked *a, double *score) {
  double mean[D], cov[D][D], e[TOKENS], all = 0, scale = 1 / sqrt((double)D);
  distribution(c, h, a, mean, cov);
  for (int j = a->sinks; j < PROMPT; j++) {
    const float *k = c->k + (h / 2 * TOKENS + j) * D;
    double s = 0, square = 0;
    for (int i = 0; i < D; i++) {
      s += mean[i] * (double)k[i] * scale;
      for (int x = 0; x < D; x++)
        square += (double)k[i] * cov[i][x] * (double)k[x];
    }
    if (a->covariance) s += square * scale * scale / 2;
    all += e[j] = exp(s);
  }
  for (int j = a->sinks; j < PROMPT; j++) score[j] += e[j] / all / 2;
}

static void plainly(const rig_case *c, int lane, int budget, const asked *a,
                    int *ids) {
  double score[TOKENS] = {0};
  int n = 0;
  for (int h = 2 * lane; h < 2 * lane + 2; h++) add_head(c, h, a, score);
  for (int j = a->sinks; j < PROMPT && a->vnorm; j++) {
    double v = 0;
    for (int i = 0; i < 6; i++) {
      double x = (double)c->v[(lane * TOKENS + j) * 6 + i];
      v += x * x;
    }
    score[j] = (score[j] + a->epsilon) * sqrt(v);
  }
  for (int i = 0; i < PROMPT; i++) {
    int better = 0;
    for (int j = a->sinks; j < PROMPT; j++) better += score[j] > score[i];
    if (i < a->sinks || better < budget - a->sinks) ids[n++] = i;
  }
  ids[n] = -1;
}

TEST(options) {
  static const struct {
    const char *spec;
    asked a;
  } all[] = {
      {"expected:budget=10", {4, 512, true, true, 0}},
      {"expected:budget=10:covariance=no", {4, 512, false, true, 0}},
      {"expected:budget=10:vnorm=no", {4, 512, true, false, 0}},
      {"expected:budget=10:epsilon=0.25", {4, 512, true, true, .25}},
      {"expected:budget=10:future=1", {4, 1, true, true, 0}},
      {"expected:budget=10:sinks=0", {0, 512, true, true, 0}},
  };
  enum { N = sizeof all / sizeof *all };
  rig_case c = sample(34);
  int ids[N][2][TOKENS + 1];
  bool differ[N] = {false};
  for (int s = 0; s < N; s++) {
    rig *r = rig_open(&c, all[s].spec);
    for (int lane = 0; lane < 2; lane++) {
      plainly(&c, lane, 10, &all[s].a, ids[s][lane]);
      rig_holds(r, lane, ids[s][lane]);
    }
    rig_close(r);
    for (int lane = 0; lane < 2; lane++)
      differ[s] |= memcmp(ids[0][lane], ids[s][lane], 11 * sizeof(int)) != 0;
    assert_true(s == 0 || differ[s]);
  }
  rig_data_free(&c);
}

TEST(forms) {
  rig_case c = sample(32);
  rig *r = rig_open(&c, "expected:budget=9:form=both:every=2");
  assert_int_equal(rig_lane(r, 0)->n, 9);
  rig_to(r, 27);
  assert_int_equal(rig_lane(r, 0)->n, 10);
  rig_to(r, 28);
  assert_int_equal(rig_lane(r, 0)->n, 9);
  rig_close(r);
  r = rig_open(&c, "expected:budget=9:form=decode:every=3");
  assert_int_equal(rig_lane(r, 0)->n, PROMPT);
  rig_to(r, 29);
  assert_int_equal(rig_lane(r, 1)->n, 9);
  rig_close(r);
  rig_data_free(&c);
}

static const rig_laws laws = {
    RIG_SHAPE(4, 2, D, 6, TOKENS, PROMPT, .inv_freq = inv_freq),
    {{"expected:budget=7", .grown = 7},
     {"expected:budget=1", .grown = 1},
     {"expected:budget=7:last=3:reindex=yes", .grown = 7},
     {"expected:budget=7:form=both:every=1", .at_most = 7},
     {"expected:budget=26", .dense = true},
     {"expected:budget=7:form=both:reindex=yes", KV_REFUSED,
      .says = {"form=prefill", "reindex=no"}}}};

TEST(opening) {
  rig_case c = sample(33);
  kv_needs needs = rig_needs(&c, "expected:budget=7");
  assert_true(needs.rope && needs.ahead == 512);
  rig_data_free(&c);
}

RIG_TESTS(expected, RIG_CASE(options), RIG_CASE(forms), RIG_LAWS(laws),
          RIG_CASE(opening))

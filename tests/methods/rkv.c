/* SPDX-License-Identifier: Apache-2.0
 *
 * R-KV. The worked case: eight keys, window 2, budget 5, kernel 3, two query
 * heads of one KV head, threshold .5, lambda .1. From the definition, in
 * binary64, with last(i) = 4 3 3 2 0 6 5 and none for the last key:
 *   I                .289809 .289809 .289809 .217571 .217571 .200838
 *   Z code          -.099571 -.108143 -.087932 -.083272 -.091690 -.072829
 *   Z no fallback   -.086402 -.110483 -.089927 -.085065 -.093626 -.074415
 *   Z paper         -.086671 -.096599 -.090204 -.097428 -.093895 -.074635
 *   Z mean of heads -.108821 -.117393 -.097182 -.089317 -.079498 -.058964
 * Then whole replays are compared with plain loops in binary64, which are
 * written from the definition too and know of no cosine twice.
 */
#include "tests/support/rig.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const float key[16] = {-2, 1,   -2, -2, -.5f, -2, -.5f, -2,
                              -1, .5f, 2,  2,  .5f,  1,  2,    -1};
static const float query[32] = {0, 0,   0,   0, 0, 0, 0, 0,  0,    0, 0,
                                0, .5f, .5f, 0, 2, 0, 0, 0,  0,    0, 0,
                                0, 0,   0,   0, 0, 0, 0, -1, -.5f, -2};

static rig_case worked(void) {
  rig_case c = rig_eight(8);
  c.heads = 2;
  c.k = key;
  c.q = query;
  return c;
}

static void holds(const rig_case *c, const char *more, const int *ids) {
  char spec[128];
  snprintf(spec, sizeof spec, "rkv:budget=5:window=2:kernel=3%s", more);
  rig_keeps(c, spec, 0, ids);
}

TEST(variants) {
  rig_case c = worked();
  holds(&c, "", (int[]){5, 3, 2, 6, 7, -1}); /* best first, then the window */
  holds(&c, ":slots=position", (int[]){2, 3, 5, 6, 7, -1});
  holds(&c, ":fallback=none", (int[]){5, 3, 0, 6, 7, -1});
  holds(&c, ":redundancy=paper", (int[]){5, 0, 2, 6, 7, -1});
  holds(&c, ":redundancy=paper:fallback=none", (int[]){5, 0, 2, 6, 7, -1});
  holds(&c, ":group=mean_prob", (int[]){5, 4, 3, 6, 7, -1});
  /* Importance alone: I has ties, the lower entry first. */
  holds(&c, ":lambda=1", (int[]){0, 1, 2, 6, 7, -1});
}

/* --- plain loops --------------------------------------------------------- */

typedef struct plain {
  int budget, window, kernel, every, phase;
  double lambda, threshold;
  bool paper, index0, by_score, mean_prob;
} plain;

enum { MOST = 128 };

static double cosine(const rig_case *c, int i, int j) {
  double s = 0, a = 0, b = 0;
  for (int x = 0; x < c->d; x++) {
    double u = c->k[i * c->d + x], v = c->k[j * c->d + x];
    s += u * v, a += u * u, b += v * v;
  }
  return s / (sqrt(a) + 1e-8) / (sqrt(b) + 1e-8);
}

static void soften(int n, double *x) {
  double top = x[0], sum = 0;
  for (int i = 1; i < n; i++) top = fmax(top, x[i]);
  for (int i = 0; i < n; i++) sum += x[i] = exp(x[i] - top);
  for (int i = 0; i < n; i++) x[i] /= sum;
}

static double logit(const rig_case *c, int h, int t, int j) {
  double s = 0;
  for (int x = 0; x < c->d; x++)
    s += (double)c->q[(h * c->n_tokens + t) * c->d + x] * c->k[j * c->d + x];
  return s / sqrt(c->d);
}

static void importance(const rig_case *c, const plain *o, int step, int n,
                       const int *id, double *out) {
  int past = n - o->window;
  double mean[MOST] = {0}, s[MOST];
  for (int t = step - o->window; t < step; t++)
    for (int h = 0; h < (o->mean_prob ? c->heads : 1); h++) {
      for (int j = 0; j < past; j++) {
        s[j] = logit(c, h, t, id[j]);
        for (int g = 1; g < c->heads && !o->mean_prob; g++)
          s[j] = fmax(s[j], logit(c, g, t, id[j]));
      }
      soften(past, s);
      for (int j = 0; j < past; j++)
        mean[j] += s[j] / o->window / (o->mean_prob ? c->heads : 1);
    }
  for (int j = 0; j < past; j++) {
    out[j] = 0;
    for (int i = j - o->kernel / 2; i <= j + o->kernel / 2; i++)
      if (i >= 0 && i < past) out[j] = fmax(out[j], mean[i]);
  }
}

static void repeated(const rig_case *c, const plain *o, int n, const int *id,
                     double *r) {
  static double s[MOST][MOST];
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) s[i][j] = i == j ? 0 : cosine(c, id[i], id[j]);
  for (int i = 0; i < n; i++) {
    int last = o->index0 && !o->paper ? 0 : -1;
    for (int j = 0; j < n; j++)
      if (i != j && cosine(c, id[i], id[j]) > o->threshold) last = j;
    if (last >= 0) s[o->paper ? last : i][o->paper ? i : last] = 0;
  }
  for (int j = 0; j < n; j++) {
    r[j] = 0;
    for (int i = 0; i < n; i++) r[j] += s[i][j] / n;
  }
  soften(n, r);
}

static int compress(const rig_case *c, const plain *o, int step, int n,
                    int *id) {
  int past = n - o->window, left = 0, out[MOST];
  double score[MOST], r[MOST];
  bool taken[MOST] = {false};
  if (n <= o->budget) return n;
  importance(c, o, step, n, id, score);
  repeated(c, o, n, id, r);
  for (int j = 0; j < past; j++)
    score[j] = o->lambda * score[j] - (1 - o->lambda) * r[j];
  for (; left < o->budget - o->window; left++) {
    int best = -1;
    for (int j = 0; j < past; j++)
      if (!taken[j] && (best < 0 || score[j] > score[best])) best = j;
    taken[best] = true;
    out[left] = id[best];
  }
  if (!o->by_score) left = 0;
  for (int j = 0; j < past && !o->by_score; j++)
    if (taken[j]) out[left++] = id[j];
  for (int j = past; j < n; j++) out[left++] = id[j];
  memcpy(id, out, (size_t)left * sizeof *id);
  return left;
}

static void replay_plain(const rig_case *c, const plain *o, const char *spec) {
  int id[MOST], n = 0, p = c->prompt_len;
  rig *r = rig_open(c, spec);
  for (; n < p; n++) id[n] = n;
  for (int step = p;; step++) {
    rig_to(r, step);
    if (step > p) id[n++] = step - 1;
    if (step == p || (step - p - o->phase) % o->every == 0)
      n = compress(c, o, step, n, id);
    id[n] = -1;
    rig_holds(r, 0, id);
    if (step == c->n_tokens) break;
  }
  rig_close(r);
}

TEST(replays) {
  rig_case c = RIG_SHAPE(3, 1, 6, 4, 100, 67);
  static const char *const spec = "rkv:budget=24:window=3:kernel=5:every=10";
  char text[256];
  for (uint32_t seed = 1; seed < 3; seed++) {
    plain o = {24, 3, 5, 10, 0, .1, .5, false, true, true, false};
    rig_data(&c, seed);
    replay_plain(&c, &o, spec);
    o.paper = o.mean_prob = true, o.by_score = false;
    snprintf(text, sizeof text, "%s%s", spec,
             ":redundancy=paper:group=mean_prob:slots=position");
    replay_plain(&c, &o, text);
    o = (plain){24, 3, 5, 10, 4, .4, .25, false, false, true, false};
    snprintf(text, sizeof text, "%s%s", spec,
             ":fallback=none:lambda=0.4:threshold=0.25:trigger=global");
    replay_plain(&c, &o, text); /* compresses at 71, 81 and 91 */
    rig_data_free(&c);
  }
}

/* Keys of zeros are like no other; two equal ones are. */
TEST(odd_keys) {
  rig_case c = worked();
  float k[16];
  memcpy(k, key, sizeof k);
  k[0] = k[1] = k[6] = k[7] = 0;
  c.k = k;
  plain o = {5, 2, 3, 128, 0, .1, .5, false, true, true, false};
  replay_plain(&c, &o, "rkv:budget=5:window=2:kernel=3");
}

/* --- laws ---------------------------------------------------------------- */

static const rig_laws laws = {
    RIG_SHAPE(4, 2, 16, 8, 50, 25),
    {{"rkv:budget=10:every=8", .at_most = 10, .every = 8},
     {"rkv:budget=10:every=8:slots=position", .at_most = 10, .every = 8},
     {"rkv:budget=1:every=1", .at_most = 1},
     {"rkv:budget=8:window=8:every=1", .at_most = 8},
     {"rkv:budget=50", .dense = true},
     {"rkv:budget=50:every=3:slots=position", .dense = true},
     {"rkv:budget=10:window=8:every=8", .at_most = 10, .every = 8,
      .prompt_len = 3},
     {"rkv:budget=4:window=5", KV_REFUSED, .says = {"window=5", "4"}},
     {"rkv:budget=4:kernel=4", KV_USAGE, .says = {"kernel=4", "5"}}}};

TEST(opening) {
  rig_case c = worked();
  kv_needs n = rig_needs(&c, "rkv:budget=40");
  assert_int_equal(n.prompt_rows, 8);
  assert_int_equal(n.every, 128);
  assert_int_equal(n.want, KV_Q);
  assert_int_equal(n.meta[0].bytes, 8 * 2 * 2 * 4); /* window, heads, d */
  n = rig_needs(&c, "rkv:budget=5");
  assert_int_equal(n.prompt_rows, 2);
  n = rig_needs(&c, "rkv:budget=5:trigger=global:every=5");
  assert_int_equal((8 + n.phase) % 5, 1);
}

RIG_TESTS(rkv, RIG_CASE(variants), RIG_CASE(replays), RIG_CASE(odd_keys),
          RIG_LAWS(laws), RIG_CASE(opening))

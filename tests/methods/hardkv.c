/* SPDX-License-Identifier: Apache-2.0
 *
 * Hard-KV. The worked calibration: twelve logits, p = .9, pooling over three.
 * Of the logits themselves the first four by rank {0 7 3 11} hold .911195. Of
 * the pooled row they hold that at T = .411268 (at T = 1 only .695289, and a
 * share of .9 would take seven); the target .9 would give T = .435532. Of
 * logits to which .8 is added at odd places and from which .2 is taken at even
 * ones, T = 1.031524.
 * Then whole replays are compared with plain loops in binary64, written from
 * the definition.
 */
#include "ref/kernels/kernels.h"
#include "ref/parts/calibrate.h"
#include "tests/support/rig.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TWELVE = 12, P90 = 943718 /* .9 * 2^20 */ };
static const float twelve[TWELVE] = {4,   .5f,  .2f, 2.5f, .1f, -.3f,
                                     .4f, 3.2f, 0,   -.5f, .3f, 1};

static kv_at at_best(void) { return (kv_at){.kernels = kv_kernels_best()}; }

/* Sorts x, less its largest, into out; order may be NULL. */
static kv_sorted sorted(const float *x, int n, float *out, int32_t *order) {
  int32_t list[64], spare[64];
  for (int i = 0; i < n; i++) list[i] = i;
  kv_order(x, n, list, spare);
  for (int i = 0; i < n; i++) out[i] = x[list[i]] - x[list[0]];
  if (order) memcpy(order, list, (size_t)n * sizeof *order);
  return (kv_sorted){n, out};
}

static float share(const kv_at *at, kv_sorted row, float t, int k) {
  float e[64];
  double all = (double)kv_sorted_exp(at, row, t, e), sum = 0;
  for (int i = 0; i < k; i++) sum += (double)kv_fix(e[i]);
  return (float)(sum / all);
}

static void near(float got, double want, double within) {
  if (fabs((double)got - want) > within)
    fail_msg("got %.7f, want %.7f", (double)got, want);
}

static void calibration(void **state) {
  kv_at at = at_best();
  float less[TWELVE], pooled[TWELVE], e[TWELVE], moved[TWELVE];
  int32_t order[TWELVE];
  int64_t mass;
  bool met;
  (void)state;
  kv_sorted row = sorted(twelve, TWELVE, less, order);
  int64_t all = kv_sorted_exp(&at, row, 1, e);
  assert_int_equal(kv_sorted_prefix(TWELVE, e, all, P90, &mass), 4);
  assert_memory_equal(order, ((int32_t[]){0, 7, 3, 11}), 16);
  float want = (float)((double)mass / (double)all);
  near(want, .911195, 1e-6);

  kv_pool_max(twelve, TWELVE, 3, pooled);
  row = sorted(pooled, TWELVE, less, order);
  near(share(&at, row, 1, 4), .695289, 1e-6);
  float t = kv_calibrate(&at, row, 4, want, KV_CALIBRATE_BISECT, e, &met);
  near(t, .411268, 2e-6);
  assert_true(met);
  all = kv_sorted_exp(&at, row, t, e);
  assert_int_equal(kv_sorted_prefix(TWELVE, e, all, P90, &mass), 4);
  assert_memory_equal(order, ((int32_t[]){0, 1, 6, 7}), 16);
  near(kv_calibrate(&at, row, 4, .9f, KV_CALIBRATE_BISECT, e, &met), .435532,
       2e-6);
  /* From .5 on the slope leads to where a hundredth is left. */
  t = kv_calibrate(&at, row, 4, want, KV_CALIBRATE_GRADIENT, e, &met);
  assert_true(met && t < .5f && t > .4f);
  near(share(&at, row, t, 4), .911195, .01);

  for (int i = 0; i < TWELVE; i++) moved[i] = twelve[i] + (i % 2 ? .8f : -.2f);
  row = sorted(moved, TWELVE, less, NULL);
  near(kv_calibrate(&at, row, 4, want, KV_CALIBRATE_BISECT, e, &met), 1.031524,
       4e-6);
}

/* All of a row, equal rows, and masses that no T gives. */
static void edges(void **state) {
  static const float equal[3] = {2, 2, 2}, tied[4] = {3, 3, 3, 0};
  kv_at at = at_best();
  float less[4], e[4];
  bool met;
  (void)state;
  for (int rule = KV_CALIBRATE_BISECT; rule <= KV_CALIBRATE_GRADIENT; rule++) {
    kv_sorted row = sorted(equal, 3, less, NULL);
    assert_true(kv_calibrate(&at, row, 2, .5f, rule, e, &met) == 1 && met);
    row = sorted(tied, 4, less, NULL);
    assert_true(kv_calibrate(&at, row, 4, .5f, rule, e, &met) == 1 && met);
    /* Two of three that are tied hold two thirds at most. */
    float t = kv_calibrate(&at, row, 2, .9f, rule, e, &met);
    assert_false(met);
    assert_true(t >= .001f && t < (rule == KV_CALIBRATE_BISECT ? .0011f : .5f));
  }
}

/* --- plain loops --------------------------------------------------------- */

enum { MOST = 128 };

typedef struct plain {
  int upper, lower, every, window, sinks, kernel;
  double p;
  bool pooled, bisect, rkv;
  double t[MOST]; /* by place of the ring */
} plain;

typedef struct store {
  int n, id[MOST];
  bool read[MOST]; /* by token */
} store;

static double logit(const rig_case *c, int t, int j) {
  double best = -1e300;
  for (int h = 0; h < c->heads; h++) {
    double s = 0;
    for (int x = 0; x < c->d; x++)
      s += (double)c->q[(h * c->n_tokens + t) * c->d + x] * c->k[j * c->d + x];
    best = fmax(best, s / sqrt(c->d));
  }
  return best;
}

/* R-KV's score of the first n of the entries that t sees, all of s counted for
 * what is there twice. */
static void rkv_score(const rig_case *c, const store *s, int n, const int *seen,
                      const double *z, double *g) {
  static double cosine[MOST][MOST];
  double norm[MOST], r[MOST], all = 0, sum = 0, top = -1e300, least = 1e300;
  for (int i = 0; i < s->n; i++) {
    double square = 0;
    for (int x = 0; x < c->d; x++)
      square += pow((double)c->k[s->id[i] * c->d + x], 2);
    norm[i] = sqrt(square) + 1e-8;
  }
  for (int i = 0; i < s->n; i++) {
    int last = -1;
    for (int j = 0; j < s->n; j++) {
      double dot = 0;
      for (int x = 0; x < c->d; x++)
        dot += (double)c->k[s->id[i] * c->d + x] * c->k[s->id[j] * c->d + x];
      cosine[i][j] = i == j ? 0 : dot / norm[i] / norm[j];
      if (i != j && cosine[i][j] > .5) last = j;
    }
    if (last >= 0) cosine[i][last] = 0;
  }
  for (int j = 0; j < s->n; j++) {
    r[j] = 0;
    for (int i = 0; i < s->n; i++) r[j] += cosine[i][j] / s->n;
    r[j] = exp(r[j]);
    all += r[j];
  }
  for (int i = 0; i < n; i++) top = fmax(top, z[i]);
  for (int i = 0; i < n; i++) sum += exp(z[i] - top);
  for (int i = 0; i < n; i++) {
    g[i] = .07 * exp(z[i] - top) / sum - .93 * r[seen[i]] / all;
    least = fmin(least, g[i]);
  }
  sum = 0;
  for (int i = 0; i < n; i++) sum += g[i] -= least;
  for (int i = 0; i < n; i++) g[i] = log(g[i] / sum + 1e-10);
}

/* Places by falling g, of equals the lower. */
static void rank(int n, const double *g, int *order) {
  for (int i = 0; i < n; i++) {
    int at = i;
    for (; at > 0 && g[order[at - 1]] < g[i]; at--) order[at] = order[at - 1];
    order[at] = i;
  }
}

static double mass_of(int n, const double *g, const int *order, double t,
                      int k) {
  double all = 0, sum = 0;
  for (int i = 0; i < n; i++) {
    double e = exp((g[order[i]] - g[order[0]]) / t);
    all += e;
    if (i < k) sum += e;
  }
  return sum / all;
}

static int prefix_of(int n, const double *g, const int *order, double t,
                     double p) {
  int k = 1;
  while (k < n && mass_of(n, g, order, t, k) < p) k++;
  return k;
}

static double temperature(int n, const double *z, const double *g, double p) {
  int by_z[MOST] = {0}, by_g[MOST] = {0};
  double low = 1e-3, high = 1e3;
  rank(n, z, by_z);
  rank(n, g, by_g);
  int k = prefix_of(n, z, by_z, 1, p);
  double want = mass_of(n, z, by_z, 1, k);
  if (k == n || g[by_g[0]] == g[by_g[n - 1]]) return 1;
  for (int i = 0; i < 200; i++) {
    double t = sqrt(low * high);
    if (mass_of(n, g, by_g, t, k) > want)
      low = t;
    else
      high = t;
  }
  return sqrt(low * high);
}

static void vote(const rig_case *c, plain *o, const store *s, int t, int *votes,
                 double *mean) {
  double z[MOST], g[MOST];
  int seen[MOST], order[MOST] = {0}, n = 0;
  for (int i = 0; i < s->n && s->id[i] <= t; i++)
    if (s->read[s->id[i]]) seen[n++] = i;
  for (int i = 0; i < n; i++) z[i] = logit(c, t, s->id[seen[i]]);
  for (int i = 0; i < n; i++) {
    g[i] = z[i];
    for (int j = i - o->kernel / 2; j <= i + o->kernel / 2 && o->pooled; j++)
      if (j >= 0 && j < n) g[i] = fmax(g[i], z[j]);
  }
  if (o->rkv) rkv_score(c, s, n, seen, z, g);
  double *own = &o->t[t % o->window];
  bool calibrated = (o->pooled || o->rkv) && o->bisect;
  if (*own == 0) *own = calibrated ? temperature(n, z, g, o->p) : 1;
  rank(n, g, order);
  int k = prefix_of(n, g, order, *own, o->p);
  for (int i = 0; i < k; i++) votes[s->id[seen[order[i]]]]++;
  for (int i = 0; i < n; i++)
    mean[s->id[seen[order[i]]]] += mass_of(n, g, order, *own, i + 1) -
                                   (i ? mass_of(n, g, order, *own, i) : 0);
}

static void settle(const rig_case *c, plain *o, int step, store *s) {
  int votes[MOST] = {0}, n = 0, left = 0;
  double mean[MOST] = {0};
  bool chosen[MOST] = {false}, forced[MOST] = {false};
  if (s->n <= o->lower) return;
  for (int t = step - o->window < 0 ? 0 : step - o->window; t < step; t++)
    vote(c, o, s, t, votes, mean);
  for (int i = 0; i < s->n; i++) {
    int id = s->id[i];
    forced[id] = id < o->sinks || id >= step - o->window;
    chosen[id] = s->read[id] && (forced[id] || votes[id] > 0);
    n += chosen[id];
  }
  if (s->n <= o->upper) {
    for (int i = 0; i < s->n; i++) s->read[s->id[i]] = chosen[s->id[i]];
    return;
  }
  for (; n > o->upper; n--) {
    int worst = -1;
    for (int id = 0; id < step; id++)
      if (chosen[id] && !forced[id] &&
          (worst < 0 || votes[id] < votes[worst] ||
           (votes[id] == votes[worst] && mean[id] < mean[worst])))
        worst = id;
    chosen[worst] = false;
  }
  for (int i = 0; i < s->n; i++)
    if (chosen[s->id[i]]) s->id[left++] = s->id[i];
  s->n = left;
}

static void replay_plain(const rig_case *c, plain o, const char *spec,
                         int *masked, int *rewrites) {
  store s = {.n = 0};
  int p = c->prompt_len;
  rig *r = rig_open(c, spec);
  for (int step = 1; step <= c->n_tokens; step++) {
    int saw[MOST + 1], n = 0, before;
    s.id[s.n++] = step - 1;
    s.read[step - 1] = true;
    for (int i = 0; i < s.n; i++)
      if (s.read[s.id[i]]) saw[n++] = s.id[i];
    saw[n] = -1;
    *masked += n < s.n;
    if (step > p) {
      rig_to(r, step);
      rig_saw(r, 0, saw);
    }
    before = s.n;
    if (step == p || (step > p && (step - p) % o.every == 0))
      settle(c, &o, step, &s);
    *rewrites += s.n < before;
    int held[MOST + 1];
    memcpy(held, s.id, (size_t)s.n * sizeof *held);
    held[s.n] = -1;
    if (step >= p) rig_holds(r, 0, held);
  }
  rig_close(r);
}

static void replays(void **state) {
  rig_case c = {.heads = 3,
                .kv_heads = 1,
                .d = 6,
                .d_v = 4,
                .n_tokens = 100,
                .prompt_len = 33};
  static const char *const spec =
      "hardkv:upper=40:window=7:every=9:kernel=3:sinks=2:local=0:p=0.7";
  char text[256];
  int masked = 0, rewrites = 0;
  (void)state;
  for (uint32_t seed = 1; seed < 4; seed++) {
    plain o = {40, 20, 9, 7, 2, 3, .7, true, true, false, {0}};
    rig_data(&c, seed);
    replay_plain(&c, o, spec, &masked, &rewrites);
    o.bisect = false;
    snprintf(text, sizeof text, "%s:calibrate=none", spec);
    replay_plain(&c, o, text, &masked, &rewrites);
    o.pooled = false;
    snprintf(text, sizeof text, "%s:adapter=vanilla", spec);
    replay_plain(&c, o, text, &masked, &rewrites);
    o.bisect = o.rkv = true;
    snprintf(text, sizeof text, "%s:adapter=rkv", spec);
    replay_plain(&c, o, text, &masked, &rewrites);
    rig_data_free(&c);
  }
  assert_true(masked > 50 && rewrites > 10);
}

/* --- laws ---------------------------------------------------------------- */

static int bounded(const rig_case *c, int step, const void *ctx) {
  (void)ctx; /* upper 12, every 8 */
  return 12 + (step - c->prompt_len) % 8;
}

static void laws(void **state) {
  rig_case c = {.heads = 4,
                .kv_heads = 2,
                .d = 16,
                .d_v = 8,
                .n_tokens = 50,
                .prompt_len = 25};
  static const char *const more[] = {
      "", ":adapter=vanilla", ":calibrate=gradient",
      ":temperatures=every:p=0.5", ":adapter=rkv"};
  (void)state;
  rig_data(&c, 10);
  for (int i = 0; i < 5; i++) {
    char spec[128];
    snprintf(spec, sizeof spec, "hardkv:upper=12:window=4:every=8%s", more[i]);
    rig_law(&c, spec, bounded, NULL);
  }
  rig_law(&c, "hardkv:upper=2:window=1:sinks=1:every=1", rig_at_most,
          &(int){2});
  rig_law_dense(&c, "hardkv:upper=50:p=1:calibrate=none");
  rig_law_dense(&c, "hardkv:upper=20:lower=50:p=0.1");
  c.prompt_len = 3; /* shorter than the window */
  rig_law(&c, "hardkv:upper=12:window=6:every=8:p=0.6", bounded, NULL);
  rig_data_free(&c);
}

/* Bytes: of a mask of one bit a token, of the ring and its temperatures. */
static void opening(void **state) {
  rig_case c = rig_eight(8);
  kv_needs n;
  kv_err e;
  (void)state;
  assert_int_equal(rig_try(&c, "hardkv:upper=400", &n, &e), KV_OK);
  assert_int_equal(n.every, 128);
  assert_int_equal(n.meta[0].page, 8);
  assert_int_equal(n.meta[0].bytes, 1);
  assert_int_equal(n.meta[1].bytes, 128 * 2 * 4); /* window, d */
  assert_int_equal(n.meta[2].bytes, 128 * 4);
  rig_law_refused(&c, "hardkv", KV_USAGE, "hardkv", "upper");
  rig_law_refused(&c, "hardkv:upper=9:window=9", KV_REFUSED, "last 9",
                  "upper=9");
  rig_law_refused(&c, "hardkv:upper=9:window=3:local=10", KV_REFUSED, "last 10",
                  "upper=9");
  rig_law_refused(&c, "hardkv:upper=4:kernel=4", KV_USAGE, "kernel=4", "5");
}

int kv_test_hardkv(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(calibration), cmocka_unit_test(edges),
      cmocka_unit_test(replays), cmocka_unit_test(laws),
      cmocka_unit_test(opening)};
  return cmocka_run_group_tests_name("hardkv", tests, NULL, NULL);
}

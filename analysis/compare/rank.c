/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes the taus of analysis/compare/rank.h. A pair is a bit: for each
 * measure there are three sets of pairs: the first method has more, it has
 * less, both have a value. tau-b then only counts bits.
 */
#include "analysis/compare/rank.h"
#include "analysis/compare/draw.h"
#include "analysis/database/results.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct orders {
  uint64_t *up, *down, *has; /* [words] */
} orders;

/* Mean and squared deviations, value by value (Welford). */
typedef struct spread {
  double mean, squares;
} spread;

typedef struct work {
  const kv_ranks *x;
  int pairs, words;
  int *a, *b; /* [pairs] cells */
  uint64_t *bits;
  orders *of;        /* [measures] */
  uint64_t *every;   /* [words] */
  double *mean;      /* [measures][cells] NaN: none */
  int *weight;       /* [places][width] how often an item was drawn */
  spread *tau, *gap; /* [answers][measures] over the draws */
} work;

/* --- memory --------------------------------------------------------------- */

static void release(work *w) {
  free(w->a), free(w->b), free(w->bits), free(w->of), free(w->mean);
  free(w->weight), free(w->tau), free(w->gap);
}

static void find_pairs(work *w) {
  const kv_ranks *x = w->x;
  for (int g = 0; g < x->groups; g++)
    for (int i = x->group[g].first; i < x->group[g].end; i++)
      for (int j = i + 1; j < x->group[g].end; j++) {
        if (w->a) w->a[w->pairs] = i, w->b[w->pairs] = j;
        w->pairs++;
      }
}

static bool reserve(const kv_ranks *x, work *w) {
  size_t m = (size_t)x->measures, taus;
  *w = (work){.x = x};
  find_pairs(w);
  w->words = w->pairs / 64 + 1;
  w->a = calloc((size_t)w->pairs + 1, sizeof *w->a);
  w->b = calloc((size_t)w->pairs + 1, sizeof *w->b);
  w->bits = calloc((3 * m + 1) * (size_t)w->words, sizeof *w->bits);
  w->of = calloc(m, sizeof *w->of);
  w->mean = calloc(m * (size_t)x->cells + 1, sizeof *w->mean);
  w->weight =
      calloc((size_t)x->places * (size_t)x->width + 1, sizeof *w->weight);
  taus = (size_t)x->answers * m + 1;
  w->tau = calloc(taus, sizeof *w->tau);
  w->gap = calloc(taus, sizeof *w->gap);
  if (!w->a || !w->b || !w->bits || !w->of || !w->mean || !w->weight ||
      !w->tau || !w->gap)
    return false;
  w->pairs = 0;
  find_pairs(w);
  for (size_t i = 0; i < m; i++) {
    uint64_t *at = w->bits + 3 * i * (size_t)w->words;
    w->of[i] = (orders){at, at + w->words, at + 2 * w->words};
  }
  w->every = w->bits + 3 * m * (size_t)w->words;
  memset(w->every, 255, (size_t)w->words * sizeof *w->every);
  return true;
}

/* --- orders --------------------------------------------------------------- */

static double mean(const work *w, int g, const double *value) {
  const kv_ranks *x = w->x;
  const bool *counts = x->counts + g * x->width;
  const int *weight = w->weight + x->group[g].place * x->width;
  double s = 0;
  int n = 0;
  for (int i = 0; i < x->items[x->group[g].place]; i++) {
    if (!counts[i] || !weight[i]) continue;
    s += weight[i] * value[i];
    n += weight[i];
  }
  return n ? s / n : NAN;
}

static void find_means(work *w, int measure) {
  const kv_ranks *x = w->x;
  for (int g = 0; g < x->groups; g++)
    for (int c = x->group[g].first; c < x->group[g].end; c++) {
      int at = measure * x->cells + c;
      w->mean[at] = mean(w, g, x->value + (size_t)at * (size_t)x->width);
    }
}

/* Differences by rounding in another order of additions do not count. */
static int order(double a, double b) {
  if (a == b || fabs(a - b) <= 1e-12 * fmax(fabs(a), fabs(b))) return 0;
  return (a > b) - (a < b);
}

/* With a NaN neither has more. */
static void find_orders(work *w, int measure) {
  const double *m = w->mean + measure * w->x->cells;
  orders *o = &w->of[measure];
  memset(o->up, 0, 2 * (size_t)w->words * sizeof *o->up); /* and down */
  for (int p = 0; p < w->pairs; p++) {
    int sign = order(m[w->a[p]], m[w->b[p]]);
    o->up[p / 64] |= (uint64_t)(sign > 0) << p % 64;
    o->down[p / 64] |= (uint64_t)(sign < 0) << p % 64;
  }
}

/* Every item once; and which pairs have values, which draws do not change. */
static void find_first(work *w) {
  for (int i = 0; i < w->x->places * w->x->width; i++) w->weight[i] = 1;
  for (int m = 0; m < w->x->measures; m++) {
    const double *mean_of = w->mean + m * w->x->cells;
    find_means(w, m);
    find_orders(w, m);
    for (int p = 0; p < w->pairs; p++) {
      bool both = !isnan(mean_of[w->a[p]]) && !isnan(mean_of[w->b[p]]);
      w->of[m].has[p / 64] |= (uint64_t)both << p % 64;
    }
  }
}

static void draw(work *w, uint64_t *state) {
  const kv_ranks *x = w->x;
  memset(w->weight, 0,
         (size_t)x->places * (size_t)x->width * sizeof *w->weight);
  for (int p = 0; p < x->places; p++)
    for (int i = 0; i < x->items[p]; i++)
      w->weight[p * x->width + kv_draw_below(state, x->items[p])]++;
  for (int m = 0; m < x->measures; m++) {
    find_means(w, m);
    find_orders(w, m);
  }
}

/* --- tau ------------------------------------------------------------------ */

static int ones(uint64_t x) { return __builtin_popcountll(x); }

/* Over the pairs in `among`; NaN if none is untied in both. */
static double tau(const work *w, const orders *x, const orders *y,
                  const uint64_t *among) {
  int same = 0, opposite = 0, untied_x = 0, untied_y = 0;
  for (int i = 0; i < w->words; i++) {
    uint64_t both = x->has[i] & y->has[i] & among[i];
    uint64_t up = x->up[i] & both, down = x->down[i] & both;
    uint64_t more = y->up[i] & both, less = y->down[i] & both;
    same += ones((up & more) | (down & less));
    opposite += ones((up & less) | (down & more));
    untied_x += ones(up | down);
    untied_y += ones(more | less);
  }
  if (!untied_x || !untied_y) return NAN;
  return (same - opposite) / sqrt((double)untied_x * untied_y);
}

/* A draw without any order counts as 0. */
static double drawn(double t) { return isnan(t) ? 0 : t; }

/* Counts the pairs that both measures have, their groups, items and methods. */
static void count(const work *w, int answer, int m, kv_rank *out) {
  const kv_ranks *x = w->x;
  const double *a = w->mean + answer * x->cells, *b = w->mean + m * x->cells;
  int place = -1;
  for (int g = 0; g < x->groups; g++) {
    int n = 0;
    for (int c = x->group[g].first; c < x->group[g].end; c++)
      n += !isnan(a[c]) && !isnan(b[c]);
    if (n < 2) continue;
    out->pairs += n * (n - 1) / 2;
    out->groups++;
    if (x->group[g].place != place) out->items += x->items[x->group[g].place];
    place = x->group[g].place;
    out->methods = n > out->methods ? n : out->methods;
  }
}

static void leave_out(const work *w, const orders *x, const orders *y,
                      uint64_t *among, kv_rank *out) {
  for (int method = 0; method < w->x->methods; method++) {
    memset(among, 0, (size_t)w->words * sizeof *among);
    for (int p = 0; p < w->pairs; p++)
      among[p / 64] |= (uint64_t)(w->x->method[w->a[p]] != method &&
                                  w->x->method[w->b[p]] != method)
                       << p % 64;
    double t = tau(w, x, y, among);
    if (isnan(t)) continue;
    if (out->least_without < 0 || t < out->least)
      out->least = t, out->least_without = method;
    if (out->most_without < 0 || t > out->most)
      out->most = t, out->most_without = method;
  }
}

static bool find_points(const work *w, kv_rank *out) {
  uint64_t *among = calloc((size_t)w->words, sizeof *among);
  for (int a = 0; among && a < w->x->answers; a++)
    for (int m = 0; m < w->x->measures; m++) {
      kv_rank *r = &out[a * w->x->measures + m];
      *r = (kv_rank){.least_without = -1, .most_without = -1};
      r->low = r->high = r->least = r->most = NAN;
      r->best_tau = r->gap = r->gap_low = r->gap_high = NAN;
      count(w, a, m, r);
      r->tau = tau(w, &w->of[m], &w->of[a], w->every);
      leave_out(w, &w->of[m], &w->of[a], among, r);
    }
  free(among);
  return among;
}

static int best_of(const kv_ranks *x, const kv_rank *out) {
  int best = -1;
  for (int m = x->answers; m < x->measures; m++) {
    if (isnan(out[m].tau)) continue;
    if (best < 0 || out[m].pairs > out[best].pairs ||
        (out[m].pairs == out[best].pairs && out[m].tau > out[best].tau))
      best = m;
  }
  return best;
}

/* --- bootstrap ------------------------------------------------------------ */

static void add(spread *s, int n, double x) {
  double apart = x - s->mean;
  s->mean += apart / (n + 1);
  s->squares += apart * (x - s->mean);
}

/* 1.96 standard deviations of the results of n draws. */
static double half(const spread *s, int n) {
  return 1.959963984540054 * sqrt(s->squares / (n - 1));
}

/* Adds draw r's tau of measure m, and its gap to the best one, for answer a. */
static void add_draw(work *w, int r, int a, int m, int best) {
  const orders *y = &w->of[a];
  int at = a * w->x->measures + m;
  double t = drawn(tau(w, &w->of[m], y, w->of[best].has));
  add(&w->tau[at], r, drawn(tau(w, &w->of[m], y, w->every)));
  add(&w->gap[at], r, drawn(tau(w, &w->of[best], y, w->of[m].has)) - t);
}

static void resample(work *w, int resamples, const int *best) {
  const kv_ranks *x = w->x;
  uint64_t state = 1;
  for (int r = 0; r < resamples; r++) {
    draw(w, &state);
    for (int a = 0; a < x->answers; a++)
      for (int m = x->answers; m < x->measures && best[a] >= 0; m++)
        add_draw(w, r, a, m, best[a]);
  }
}

static void find_intervals(const work *w, int resamples, kv_rank *out) {
  for (int i = 0; i < w->x->answers * w->x->measures; i++) {
    kv_rank *r = &out[i];
    double tau = half(&w->tau[i], resamples), gap = half(&w->gap[i], resamples);
    r->low = fmax(r->tau - tau, -1);
    r->high = fmin(r->tau + tau, 1);
    r->gap_low = fmax(r->gap - gap, -2);
    r->gap_high = fmin(r->gap + gap, 2);
    bool few = r->items < KV_INTERVAL_LEAST;
    if (few || isnan(r->tau)) r->low = r->high = NAN;
    if (few || isnan(r->gap)) r->gap_low = r->gap_high = NAN;
  }
}

bool kv_rank_find(const kv_ranks *x, int resamples, kv_rank *out, int *best) {
  work w;
  bool good = reserve(x, &w);
  if (good) find_first(&w);
  good = good && find_points(&w, out);
  for (int a = 0; good && a < x->answers; a++) {
    kv_rank *r = &out[a * x->measures];
    best[a] = best_of(x, r);
    for (int m = 0; m < x->measures && best[a] >= 0; m++) {
      r[m].best_tau = tau(&w, &w.of[best[a]], &w.of[a], w.of[m].has);
      r[m].gap = r[m].best_tau - tau(&w, &w.of[m], &w.of[a], w.of[best[a]].has);
    }
  }
  if (good) resample(&w, resamples, best);
  if (good) find_intervals(&w, resamples, out);
  release(&w);
  return good;
}

bool kv_rank_wrong(const kv_ranks *x, int measure, int answer, int *wrong,
                   int *both) {
  work w;
  bool good = reserve(x, &w);
  if (good) find_first(&w);
  for (int p = 0; good && p < w.pairs; p++) {
    const double *m = w.mean + measure * x->cells;
    const double *y = w.mean + answer * x->cells;
    int a = w.a[p], b = w.b[p], i = x->method[a], j = x->method[b];
    int of_m = order(m[a], m[b]), of_y = order(y[a], y[b]);
    if (isnan(m[a]) || isnan(m[b]) || isnan(y[a]) || isnan(y[b])) continue;
    both[i * x->methods + j]++;
    both[j * x->methods + i]++;
    wrong[i * x->methods + j] += of_m > 0 && of_y < 0;
    wrong[j * x->methods + i] += of_m < 0 && of_y > 0;
  }
  release(&w);
  return good;
}

void kv_ranks_free(kv_ranks *x) {
  free(x->method), free(x->group), free(x->items), free(x->counts);
  free(x->value);
  *x = (kv_ranks){0};
}

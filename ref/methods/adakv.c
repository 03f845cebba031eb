/* SPDX-License-Identifier: Apache-2.0
 *
 * AdaKV: SnapKV's choice, with a layer's budget given to the heads that have
 * the highest scores.
 *
 *   after the prompt, n > budget, w = window, base = budget - w, H lanes:
 *   score[h][j] as in SnapKV, j < n - w
 *   normalise=yes: score[h] *= f, f = S(best base) / S(all) of the lane,
 *     S = RN32(sum of RN(score * 2^40)) * 2^-40, one division; all 0: unchanged
 *   c[h] = how many of the layer's best H * base scores belong to lane h
 *   safeguard=interpolate: least = trunc(RN(base * alpha))
 *     cap[h] = rint(RN(RN(c[h] * RN(1 - alpha)) + least)), ties to even
 *     keep the best cap[h] of lane h, and the last w
 *   safeguard=minimum: s = max(0, trunc(RN(budget * alpha)) - w); the best s of
 *     each lane come first; the rest of H * base goes by score over all lanes;
 *     keep these and the last w
 *   layers below `skip`: base in every lane
 *   grow=yes: then lanes grow; grow=no: the same again after every `every`
 *     decode steps, with new c and cap
 *
 * All of it is binary32. score= replaces SnapKV's votes by any scorer of
 * ref/parts/scorers.h, like a press of kvpress. The entries that this scorer
 * protects replace the window. `window` is then the number of last entries that
 * always stay: budget div 2 for h2o, 0 for the others. Each scorer has the
 * defaults of its method, except lagkv, because its ranks cannot be compared
 * across lanes (cross=yes). tova is the last row's probabilities, summed over
 * the group's heads. normalise=yes refuses scores of a file and of scorers by
 * keys, which are below 0. threshold drops entries that score less from what
 * the shares keep (METHODS.md, Scorers); with normalise=yes it compares
 * normalised scores. If an earlier prompt (--turns) left lanes unequal, each
 * lane has its own base, and their sum replaces H * base.
 *
 * Feng et al. 2024, Ada-KV: Optimizing KV Cache Eviction by Adaptive Budget
 * Allocation. snapkv describes group, pooling and order.
 * - The authors' code interpolates, and its rounding makes a layer's total miss
 *   H * base; it ships with normalising off. The default follows it. alpha is
 *   0.2 on its command line and 0.5 in its class. KVCache-Factory normalises.
 * - kvpress instead guarantees a minimum, which includes its window of w:
 *   safeguard=minimum. Of equal scores it keeps the higher entry; here the
 *   lower one stays, as everywhere.
 * - grow=no is in none of the sources. Scores live between steps as the
 *   scorer's observation, charged for budget + every entries of each lane.
 *
 * Family: drop. Acts: after the prompt; again with grow=no. Needs: what the
 * scorer needs; lanes of unequal length. Bound: min(P, H base + w) + t - P, of
 * a layer after the prompt interpolate within H B - 1.5 H .. H B + H / 2,
 * minimum H B; grow=no: H base + w + (t - P) mod every. Bytes: B R on average.
 * Gather: as the scorer. Reduce: as the scorer; a layer's lanes ranked
 * together. Sample: top-k. Cost: the scorer's, and a sort of a layer's scores.
 */
#include "ref/methods/adakv.h"
#include "ref/ground/arith.h"
#include "ref/parts/scorers.h"
#include <string.h>

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

/* A layer's lanes while their scores are compared. */
typedef struct plan {
  int lanes;
  int first;     /* the first candidate of every lane */
  int *n, *base; /* [lanes] candidates; the budget's share of them */
  float **score; /* [lanes][n] */
  bool **keep;   /* [lanes][n], of the candidates */
} plan;

/* grow=no is the scorers' form=both, with the votes' rule for `every`. */
static kv_rc resolve_grow(params *o, kv_err *e) {
  int window = o->s.w.window, votes = o->s.score == KV_SCORE_snapkv;
  if (window == KV_UNSET) window = kv_fallback_window(o->budget);
  kv_rc rc = kv_open_every("adakv", votes ? window : 1, &o->g, e);
  o->s.form = o->g.grow == KV_GROW_NO ? KV_FORM_BOTH : KV_FORM_PREFILL;
  o->s.every = o->g.every;
  return rc;
}

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  int score = o->s.score;
  o->s.sinks = KV_UNSET;
  o->s.cross = KV_CROSS_YES;
  if (o->normalise == YES &&
      (score == KV_SCORE_knorm || score == KV_SCORE_keydiff ||
       score == KV_SCORE_file))
    return kv_fail(e, KV_REFUSED,
                   "adakv: normalise=yes needs scores that are 0 or more, but "
                   "scores of %s; use normalise=no",
                   score == KV_SCORE_file ? "a file may be negative"
                                          : "keys are negative");
  kv_rc rc = kv_open_budget("adakv", o->budget, e);
  if (!rc) rc = resolve_grow(o, e);
  if (!rc) rc = kv_score_open(shape, "adakv", o->budget, &o->s, needs, e);
  size_t lanes = (size_t)shape->n_heads;
  needs->work += lanes * ((size_t)shape->n_tokens * 5 + 256);
  return rc;
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const params *o = at->params;
  kv_score_observe(at, lane, rows, &o->s);
}

static plan weigh(const kv_at *at, const params *o, kv_lane *const *lane,
                  int lanes) {
  plan x = {.lanes = lanes};
  x.n = KV_TAKE(at->work, int, lanes);
  x.base = KV_TAKE(at->work, int, lanes);
  x.score = KV_TAKE(at->work, float *, lanes);
  x.keep = KV_TAKE(at->work, bool *, lanes);
  for (int l = 0; l < lanes; l++) {
    int entries = lane[l]->n, n = kv_score_span(&o->s, entries, &x.first);
    x.n[l] = n;
    x.base[l] = o->budget - (entries - n);
    x.score[l] = n > 0 ? kv_score(at, lane[l], &o->s, x.first, n) : NULL;
    x.keep[l] = KV_TAKE(at->work, bool, entries);
    memset(x.keep[l], true, (size_t)entries);
    x.keep[l] += x.first;
  }
  return x;
}

static void normalise(const plan *x) {
  for (int l = 0; l < x->lanes; l++) {
    int64_t best = 0, all = 0;
    kv_top(x->score[l], x->n[l], x->base[l], x->keep[l]);
    for (int i = 0; i < x->n[l]; i++) {
      int64_t w = kv_fix(x->score[l][i]);
      all += w;
      if (x->keep[l][i]) best += w;
    }
    if (all == 0) continue;
    float share = kv_div(kv_unfix(best), kv_unfix(all));
    for (int i = 0; i < x->n[l]; i++)
      x->score[l][i] = kv_mul(x->score[l][i], share);
  }
}

static void share(const plan *x) {
  int all = 0;
  for (int l = 0; l < x->lanes; l++) all += x->base[l];
  kv_top_shared((const float *const *)x->score, x->n, x->lanes, all, x->keep);
}

static int counted(const plan *x, int l) {
  int c = 0;
  for (int i = 0; i < x->n[l]; i++) c += x->keep[l][i];
  return c;
}

static void interpolate(const plan *x, float alpha) {
  share(x);
  for (int l = 0; l < x->lanes; l++) {
    int least = (int)kv_mul((float)x->base[l], alpha);
    float c = kv_mul((float)counted(x, l), kv_sub(1.0f, alpha));
    int cap = (int)kv_rint(kv_add(c, (float)least));
    kv_top(x->score[l], x->n[l], cap, x->keep[l]);
  }
}

/* Protected entries outrank all others. */
static void minimum(const plan *x, const params *o) {
  int whole = (int)kv_mul((float)o->budget, o->alpha);
  for (int l = 0; l < x->lanes; l++) {
    int safe = whole - (o->budget - x->base[l]);
    kv_top(x->score[l], x->n[l], safe, x->keep[l]);
    for (int i = 0; i < x->n[l]; i++)
      if (x->keep[l][i]) x->score[l][i] = kv_float(0x7f7fffffu);
  }
  share(x);
}

static void spend(const kv_at *at, const params *o, const plan *x) {
  if (o->normalise == YES) normalise(x);
  if (at->layer < o->skip) {
    for (int l = 0; l < x->lanes; l++)
      kv_top(x->score[l], x->n[l], x->base[l], x->keep[l]);
  } else if (o->safeguard == INTERPOLATE)
    interpolate(x, o->alpha);
  else
    minimum(x, o);
}

static void compress_layer(const kv_at *at, kv_lane *const *lane, int lanes) {
  const params *o = at->params;
  int most = 0; /* after an earlier compression lanes differ in length */
  for (int l = 0; l < lanes; l++) most = lane[l]->n > most ? lane[l]->n : most;
  if (kv_score_over(most, o->budget, o->threshold)) {
    plan x = weigh(at, o, lane, lanes);
    if (most > o->budget) spend(at, o, &x);
    for (int l = 0; l < lanes; l++) {
      for (int i = 0; i < x.n[l]; i++)
        x.keep[l][i] &= kv_score_stays(x.score[l][i], o->threshold);
      kv_keep_mask(lane[l], x.keep[l] - x.first);
    }
  }
  for (int l = 0; l < lanes; l++) kv_score_forget(at, lane[l], &o->s);
}

const kv_method kv_method_adakv = {
    KV_METHOD_OF(table, params, open),
    .revision = 2,
    .name = "adakv",
    .title = "SnapKV with a layer's budget shared among its heads",
    .paper = "Feng et al. 2024, Ada-KV: Optimizing KV Cache Eviction by "
             "Adaptive Budget Allocation, arXiv:2407.11550",
    .observe = observe,
    .compress_layer = compress_layer,
};

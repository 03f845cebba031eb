/* SPDX-License-Identifier: Apache-2.0
 *
 * LagKV: keeps tokens that stand out against the tokens after them. It looks at
 * no query.
 *
 *   the first `sinks` entries stay; the others are cut into partitions of `lag`
 *   entries; the last full partition and everything after it stay
 *   each other partition, K and V separately: scale each element by the least
 *     and the largest value of its channel in the next partition; a token's
 *     share is the deviation of its elements, softmaxed over the partition
 *   score(j) = mean of the shares of K and V
 *   cross=no: ranked as the number of entries of its partition that it beats;
 *   cross=yes: ranked by its value
 *   n > budget: of these the best stay, `budget` in all
 *
 * To the bit: ref/methods/lagkv.c. METHODS.md, Scorers, has form, every and
 * reindex.
 *
 * Liang et al. 2025, LagKV: Lag-Relative Information of the KV Cache Tells
 * Which Tokens Are Important. Differences; the default is the first:
 * - cross: the paper keeps the same number of each partition, and so do ranks.
 *   kvpress also takes ranks and divides them by the lag; which of equal ranks
 *   stays at the cut differs. cross=yes is its cross_scoring.
 * - sinks: 4 in kvpress; fewer here if the budget is smaller.
 * - lag: 128 in kvpress and in the paper; Up to 2 lag - 1 tokens always stay,
 *   and kvpress may cut them. If the budget does not hold them and the sinks,
 *   the lag is less here; an explicit lag is refused.
 * - range 0: a channel that is constant in the next partition divides by zero
 *   there; here it counts as 0.
 * - short: below sinks + 2 lag tokens kvpress keeps the sinks and the last
 *   tokens; here such a lane is within the budget.
 *
 * Family: drop. Acts: after the prompt. Needs: keys and values. Bound: min(P,
 * B) + t - P; other forms: METHODS.md, Scorers. Bytes: B R. Gather: `lag`
 * tokens. Reduce: spread of k and of v, scaled by the range of the next `lag`
 * tokens. Sample: top-k of each `lag`. Cost: O(n (d + lag)) a lane and
 * compression.
 */
#include "ref/ground/arith.h"
#include "ref/parts/scorers.h"

/* To the bit, for a partition and the next one, for keys (width d) and for
 * values (d_v) alike:
 *   lo[x], hi[x] = least and largest of column x in the next one, rule 2
 *   u[i][x]  = RN(RN(k_i[x] - lo) / RN(hi - lo)); 0 where hi = lo
 *   mean[i]  = chain of additions over x from +0, divided by the width
 *   dev[i]   = sqrt(chain of fma(t, t, .), t = RN(u - mean), divided by the
 *              width less one (at least one))
 *   p[i]     = probabilities of dev over the partition (arithmetic 4)
 *   score[i] = RN(p of the key + p of the value) * 0.5
 * cross=no: then how many of the partition rank below it (rule 2).
 */

enum { LAG = 128 }; /* as in kvpress */

static kv_rc open(const kv_shape *shape, const char *method, int budget,
                  kv_score_options *o, kv_needs *needs, kv_err *e) {
  if (o->sinks == KV_UNSET) o->sinks = budget < 5 ? budget - 1 : 4;
  if (o->sinks < 0) o->sinks = 0;
  int room = (budget - o->sinks + 1) / 2;
  if (o->lag <= 0) o->lag = room < LAG ? room : LAG;
  o->w.window = 0;
  needs->work += 32 * ((size_t)shape->d + (size_t)shape->d_v);
  if (o->lag >= 1 && o->lag <= room) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s: sinks=%d and up to 2 lag - 1 entries (lag=%d) always "
                 "stay, more than the budget of %d; lower lag or raise the "
                 "budget",
                 method, o->sinks, o->lag, budget);
}

typedef struct side {
  const kv_lane *lane;
  int width;
  void (*read)(const kv_lane *, int, float *);
  float *row, *lo, *hi; /* [width] */
} side;

static void bounds(const side *s, int first, int lag) {
  s->read(s->lane, first, s->lo);
  s->read(s->lane, first, s->hi);
  for (int i = 1; i < lag; i++) {
    s->read(s->lane, first + i, s->row);
    for (int x = 0; x < s->width; x++) {
      s->lo[x] = kv_min(s->lo[x], s->row[x]);
      s->hi[x] = kv_max(s->hi[x], s->row[x]);
    }
  }
}

static float relative(float x, float lo, float hi) {
  float range = kv_sub(hi, lo);
  return range > 0 ? kv_div(kv_sub(x, lo), range) : 0.0f;
}

static float deviation(const side *s, int i) {
  float mean = 0, acc = 0;
  s->read(s->lane, i, s->row);
  for (int x = 0; x < s->width; x++) {
    s->row[x] = relative(s->row[x], s->lo[x], s->hi[x]);
    mean = kv_add(mean, s->row[x]);
  }
  mean = kv_div(mean, (float)s->width);
  for (int x = 0; x < s->width; x++) {
    float t = kv_sub(s->row[x], mean);
    acc = kv_fma(t, t, acc);
  }
  int less = s->width > 1 ? s->width - 1 : 1;
  return kv_sqrt(kv_div(acc, (float)less));
}

/* Probabilities of the partition's deviations. */
static void shares(const kv_at *at, const side *s, int first, int lag,
                   float *p) {
  bounds(s, first + lag, lag);
  for (int i = 0; i < lag; i++) p[i] = kv_score_finite(deviation(s, first + i));
  kv_probabilities(at, lag, p);
}

static float rank(const float *score, int lag, int i) {
  int behind = 0;
  for (int j = 0; j < lag; j++) {
    uint32_t a = kv_key(score[j]), b = kv_key(score[i]);
    behind += a < b || (a == b && j > i);
  }
  return (float)behind;
}

static side side_of(const kv_at *at, const kv_lane *lane, bool keys) {
  int width = keys ? at->shape->d : at->shape->d_v;
  side s = {
      .lane = lane, .width = width, .read = keys ? kv_lane_key : kv_lane_value};
  s.row = KV_TAKE(at->work, float, width);
  s.lo = KV_TAKE(at->work, float, width);
  s.hi = KV_TAKE(at->work, float, width);
  return s;
}

static void score(const kv_at *at, const kv_lane *lane,
                  const kv_score_options *o, int first, int n, float *out) {
  side key = side_of(at, lane, true), value = side_of(at, lane, false);
  float *p = KV_TAKE(at->work, float, o->lag);
  float *sum = KV_TAKE(at->work, float, o->lag);
  for (int a = 0; a < n; a += o->lag) {
    shares(at, &key, first + a, o->lag, sum);
    shares(at, &value, first + a, o->lag, p);
    for (int i = 0; i < o->lag; i++)
      sum[i] = kv_mul(kv_add(sum[i], p[i]), 0.5f);
    for (int i = 0; i < o->lag; i++)
      out[a + i] = o->cross == KV_CROSS_YES ? sum[i] : rank(sum, o->lag, i);
  }
}

const kv_scorer kv_scorer_lagkv = {
    .name = "lagkv", .open = open, .score = score};

static const kv_param table[] = {
    KV_BUDGET_PARAM(kv_scored,
                    "tokens left after a compression; must be given"),
    KV_INT_PARAM("lag", kv_scored, s.lag, NULL, 1, 1 << 22, "tokens",
                 "entries of a partition; default min(128, (budget - sinks + "
                 "1) div 2), 128 as in the paper"),
    KV_CHOICE_PARAM("cross", kv_scored, s.cross, "no", "no|yes",
                    "rank across partitions? no: within each, as in the paper"),
    KV_SINKS_PARAM(kv_scored, s),
    KV_FORM_PARAMS(kv_scored, s),
    {.name = NULL}};

KV_SCORER_METHOD(
    lagkv, table, .revision = 2,
    .title = "tokens that stand out against the tokens after them",
    .paper = "Liang et al. 2025, LagKV: Lag-Relative Information of the KV "
             "Cache Tells Which Tokens Are Important, arXiv:2504.04704");

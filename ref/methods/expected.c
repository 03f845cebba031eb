/* SPDX-License-Identifier: Apache-2.0
 *
 * Expected Attention: keeps tokens that future queries will attend, if these
 * have the distribution of the prompt's queries.
 *
 *   each query head, from its rows before RoPE, without those of the first
 *   `sinks` tokens: mean m and covariance C (divided by the rows)
 *   R = mean of the rotations at the next `future` positions
 *   s(j)     = (R m) . k_j * scale + k_j' (R C R') k_j * scale^2 / 2
 *   p        = softmax of s over the candidates, those that may go
 *   score(j) = (mean over the group's heads of p(j) + epsilon) * |v_j|
 *              (vnorm=no: the mean alone)
 *   n > budget: keep the sinks and the best others
 *
 * To the bit: ref/methods/expected.c. The queries are turned back by the
 * recorded frequencies, so a trace without them, or without query rows of the
 * whole prompt, is refused. METHODS.md, Scorers, has last, form, every and
 * reindex (with form=prefill).
 *
 * Devoto et al. 2025, Expected Attention: KV Cache Compression by Estimating
 * Attention from Future Queries Distribution. The paper's code is a press of
 * kvpress. The defaults follow it: future 512, sinks 4 (fewer here if the
 * budget is smaller), covariance and value norms on, epsilon 0; others set
 * 0.02. Differences:
 * - kvpress averages the rotations at positions counted from 0; here they are
 *   the positions after the newest token.
 * - Its scale is 1 / sqrt(d); here the trace's.
 * - While decoding it uses the last 256 hidden states, less the first 4 of
 *   them; here the rows since the last compression.
 *
 * Family: drop. Acts: after the prompt. Needs: queries before rotation. Bound:
 * min(P, B) + t - P; other forms: METHODS.md, Scorers. Bytes: B R. Gather: the
 * token. Reduce: expected probability under the queries' distribution, times
 * the norm of v. Sample: top-k. Cost: O(n d d) a query head and compression,
 * and as much for the rows.
 */
#include "ref/ground/arith.h"
#include "ref/kernels/kernels.h"
#include "ref/parts/scorers.h"
#include <string.h>

/* To the bit, for each query head, over its rows of tokens t >= sinks:
 *   x        = the row rotated back (arithmetic 6; at position 0 as it is)
 *   y        = RN(x - pivot), pivot the first such row
 *   a[i][j]  = chains of fma(y[i], y[j], .) over rows ascending, i = d: of
 *              fma(1, y[j], .); after every 64 rows they are added to
 *              all[i][j] and begin at +0 again, the last fewer too
 *   m[j]     = all[d][j] / N;  C[i][j] = fma(-m[i], m[j], all[i][j] / N)
 *   mean[j]  = RN(pivot[j] + m[j])
 * The rotation R of a pair has sine and cosine
 *   s = fma(c1, s2, RN(s1 * c2)),  c = fma(-s1, s2, RN(c1 * c2))
 * with s1, c1 of the newest token's position and s2, c2 the means over the
 * distances 1 .. future (kv_turns). It rotates mean, then the rows of C, then
 * its columns, as arithmetic 6 rotates rows.
 *   u[i]     = RN(dot(C[i], k) + 0), dot(mean, k) + 0: the chains of 1
 *   s        = RN(dot(mean, k) * scale)
 *              + RN(RN(chain of fma(k[i], u[i], .) * scale) * RN(scale * 0.5))
 *   P        = probabilities of s over the candidates (arithmetic 4)
 *   score    = RN32(sum over heads of RN(P * 2^40)) * 2^-40 / heads;
 *              vnorm=yes: RN(RN(score + epsilon) * sqrt(dot(v, v)))
 * scale is the trace's. An s that is not finite counts as -FLT_MAX.
 */

enum { FUTURE = 512, FOLD = 64 };

/* The sums of one query head, in the lane's state; the number of rows precedes
 * the first head's. */
typedef struct sums {
  float *pivot;      /* [d] */
  float *part, *all; /* [d + 1][d] */
} sums;

static size_t square(int d) { return ((size_t)d + 1) * (size_t)d; }

static sums sums_of(const kv_at *at, const kv_lane *lane, int head) {
  int d = at->shape->d;
  size_t each = (size_t)d + 2 * square(d);
  float *own = (float *)kv_own(at, lane) + 16 + (size_t)head * each;
  return (sums){own, own + d, own + (size_t)d + square(d)};
}

static int32_t *rows_of(const kv_at *at, const kv_lane *lane) {
  return kv_own(at, lane);
}

static kv_rc open(const kv_shape *shape, const char *method, int budget,
                  kv_score_options *o, kv_needs *needs, kv_err *e) {
  size_t d = (size_t)shape->d, n = square(shape->d);
  int heads = kv_score_heads(shape, (kv_group_rule)o->w.group);
  if (o->w.window == KV_UNSET) o->w.window = 0;
  if (o->sinks == KV_UNSET) o->sinks = budget < 5 ? budget - 1 : 4;
  if (o->future <= 0) o->future = FUTURE;
  if (o->w.group == KV_GROUP_MAX || o->w.group == KV_GROUP_SUM)
    return kv_fail(e, KV_REFUSED,
                   "%s: expected attention averages over query heads; use "
                   "group=mean or group=query_head",
                   method);
  if (o->reindex == KV_REINDEX_YES && o->form != KV_FORM_PREFILL)
    return kv_fail(e, KV_REFUSED,
                   "%s: with reindex=yes, decode queries have no distribution "
                   "to expect; use form=prefill or reindex=no",
                   method);
  o->rows = KV_ALL_ROWS;
  o->state = sizeof(float) * (16 + (size_t)heads * (d + 2 * n));
  needs->want = KV_Q;
  needs->rope = true;
  needs->ahead = o->future;
  needs->work += sizeof(float) * (2 * n + 3 * KV_PACK * (d + 1) + 64 * d);
  return KV_OK;
}

/* --- rows ----------------------------------------------------------------- */

static void fold(const sums *s, int d) {
  for (size_t i = 0; i < square(d); i++) {
    s->all[i] = kv_add(s->all[i], s->part[i]);
    s->part[i] = 0;
  }
}

/* Continues the chains of a over n rows y[.][d]; across: scratch [d + 1][n]. */
static void chains(const kv_at *at, const float *y, int n, float *across,
                   float *a) {
  int d = at->shape->d;
  const void **row = KV_TAKE(at->work, const void *, n);
  for (int r = 0; r < n; r++) {
    row[r] = y + (size_t)r * (size_t)d;
    for (int i = 0; i < d; i++)
      across[(size_t)i * (size_t)n + (size_t)r] =
          y[(size_t)r * (size_t)d + (size_t)i];
    across[(size_t)d * (size_t)n + (size_t)r] = 1.0f;
  }
  at->kernels->weigh(d + 1, n, d, across, (size_t)n, row, KV_F32, a);
}

/* Rows r .. r + n - 1 of a head, as differences from the pivot. */
static void differences(const kv_at *at, const kv_lane *lane,
                        const kv_rows *rows, int h, int r, int n, bool begins,
                        const sums *s, float *y) {
  size_t d = (size_t)at->shape->d;
  for (int i = 0; i < n; i++, y += d) {
    memcpy(y, rows->q + kv_rows_at(rows, r + i, h) * d, d * sizeof *y);
    kv_turn_back(lane->turns, (uint32_t)(rows->first + r + i), y);
    if (begins && i == 0) memcpy(s->pivot, y, d * sizeof *y);
    for (size_t x = 0; x < d; x++) y[x] = kv_sub(y[x], s->pivot[x]);
  }
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows,
                    const kv_score_options *o) {
  int32_t *seen = rows_of(at, lane);
  int d = at->shape->d, r = o->sinks - rows->first, n;
  for (r = r > 0 ? r : 0; r < rows->rows; r += n, *seen += n) {
    n = FOLD - *seen % FOLD;
    if (n > rows->rows - r) n = rows->rows - r;
    size_t used = at->work->used;
    float *y = KV_TAKE(at->work, float, n *d);
    float *across = KV_TAKE(at->work, float, n *(d + 1));
    for (int h = 0; h < rows->heads; h++) {
      sums s = sums_of(at, lane, h);
      differences(at, lane, rows, h, r, n, *seen == 0, &s, y);
      chains(at, y, n, across, s.part);
      if ((*seen + n) % FOLD == 0) fold(&s, d);
    }
    at->work->used = used;
  }
}

/* --- the distribution ----------------------------------------------------- */

static void rotation(const kv_at *at, const kv_lane *lane, float *sc) {
  size_t d = (size_t)at->shape->d;
  const float *now = lane->turns->sc + (size_t)(at->step - 1) * d;
  const float *next = lane->turns->sc + (size_t)at->shape->n_tokens * d;
  for (size_t i = 0; i + 1 < d; i += 2) {
    float s1 = now[i], c1 = now[i + 1], s2 = next[i], c2 = next[i + 1];
    sc[i] = kv_fma(c1, s2, kv_mul(s1, c2));
    sc[i + 1] = kv_fma(-s1, s2, kv_mul(c1, c2));
  }
}

/* Rotates the columns of c as if each were a row. */
static void turn_columns(int d, int interleaved, const float *sc, float *c) {
  int step = interleaved ? 2 : 1, apart = interleaved ? 1 : d / 2;
  for (int i = 0; i < d / 2; i++) {
    float *a = c + (size_t)(i * step) * (size_t)d, *b = a + apart * d;
    float s = sc[2 * i], k = sc[2 * i + 1];
    for (int j = 0; j < d; j++) {
      float x1 = a[j], x2 = b[j];
      a[j] = kv_fma(-x2, s, kv_mul(x1, k));
      b[j] = kv_fma(x2, k, kv_mul(x1, s));
    }
  }
}

/* mean and, if used, c [d][d] of a head's future queries. */
static void distribution(const kv_at *at, const kv_lane *lane, int head,
                         const kv_score_options *o, const float *sc,
                         float *mean, float *c) {
  sums s = sums_of(at, lane, head);
  int d = at->shape->d, turned = at->rope->interleaved;
  float rows = (float)*rows_of(at, lane);
  float *m = KV_TAKE(at->work, float, d);
  fold(&s, d);
  for (int j = 0; j < d; j++) {
    m[j] = kv_div(s.all[(size_t)d * (size_t)d + (size_t)j], rows);
    mean[j] = kv_add(s.pivot[j], m[j]);
  }
  kv_rope_rotate(d, turned, sc, mean, mean);
  if (o->covariance == KV_TERM_NO) return;
  for (int i = 0; i < d; i++) {
    float *row = c + (size_t)i * (size_t)d;
    for (int j = 0; j < d; j++)
      row[j] = kv_fma(-m[i], m[j],
                      kv_div(s.all[(size_t)i * (size_t)d + (size_t)j], rows));
    kv_rope_rotate(d, turned, sc, row, row);
  }
  turn_columns(d, turned, sc, c);
}

/* --- scores --------------------------------------------------------------- */

typedef struct room {
  float *mean, *c, *sc; /* [d], [d][d], [d] */
  float *key, *u;       /* [KV_PACK][d], [d][KV_PACK] */
  float *pack, *dot;    /* of the kernel; [KV_PACK] */
} room;

/* dot products of m rows with n keys, into s[m][KV_PACK]. */
static void dots(const kv_at *at, int m, int n, const float *rows,
                 const room *w, float *s) {
  const void *key[KV_PACK];
  int d = at->shape->d;
  for (int j = 0; j < n; j++) key[j] = w->key + (size_t)j * (size_t)d;
  at->kernels->logits(m, n, d, rows, (size_t)d, key, KV_F32, 1.0f, s, KV_PACK,
                      w->pack);
}

/* s of n <= KV_PACK entries from `first` on. */
static void expect(const kv_at *at, const kv_lane *lane, int first, int n,
                   bool covariance, const room *w, float *s) {
  int d = at->shape->d;
  float scale = at->shape->scale, half = kv_mul(scale, 0.5f);
  for (int j = 0; j < n; j++)
    kv_lane_key(lane, first + j, w->key + (size_t)j * (size_t)d);
  dots(at, 1, n, w->mean, w, w->dot);
  for (int j = 0; j < n; j++) s[j] = kv_mul(w->dot[j], scale);
  if (!covariance) return;
  dots(at, d, n, w->c, w, w->u);
  for (int j = 0; j < n; j++) {
    const float *key = w->key + (size_t)j * (size_t)d;
    float acc = 0;
    for (int i = 0; i < d; i++)
      acc = kv_fma(key[i], w->u[(size_t)i * KV_PACK + (size_t)j], acc);
    s[j] = kv_add(s[j], kv_mul(kv_mul(acc, scale), half));
  }
}

static room room_of(const kv_at *at) {
  size_t d = (size_t)at->shape->d;
  return (room){.mean = KV_TAKE(at->work, float, d),
                .c = KV_TAKE(at->work, float, d *d),
                .sc = KV_TAKE(at->work, float, d),
                .key = KV_TAKE(at->work, float, KV_PACK *d),
                .u = KV_TAKE(at->work, float, KV_PACK *d),
                .pack = KV_TAKE(at->work, float, KV_PACK *d),
                .dot = KV_TAKE(at->work, float, KV_PACK)};
}

/* Adds a head's probabilities of the n candidates to sum. */
static void add_head(const kv_at *at, const kv_lane *lane, int head,
                     const kv_score_options *o, int first, int n, const room *w,
                     float *s, int64_t *sum) {
  size_t used = at->work->used;
  distribution(at, lane, head, o, w->sc, w->mean, w->c);
  for (int i = 0; i < n; i += KV_PACK)
    expect(at, lane, first + i, n - i < KV_PACK ? n - i : KV_PACK,
           o->covariance == KV_TERM_YES, w, s + i);
  for (int i = 0; i < n; i++) s[i] = kv_score_finite(kv_add(s[i], 0.0f));
  kv_probabilities(at, n, s);
  at->kernels->fix_add(s, n, sum);
  at->work->used = used;
}

static void score(const kv_at *at, const kv_lane *lane,
                  const kv_score_options *o, int first, int n, float *out) {
  room w = room_of(at);
  int d_v = at->shape->d_v;
  float *s = KV_TAKE(at->work, float, n), *v = KV_TAKE(at->work, float, d_v);
  int64_t *sum = KV_TAKE(at->work, int64_t, n);
  memset(sum, 0, (size_t)n * sizeof *sum);
  rotation(at, lane, w.sc);
  for (int h = 0; h < lane->queries; h++)
    add_head(at, lane, h, o, first, n, &w, s, sum);
  for (int i = 0; i < n; i++) {
    out[i] = kv_div(kv_unfix(sum[i]), (float)lane->queries);
    if (o->vnorm == KV_TERM_NO) continue;
    kv_lane_value(lane, first + i, v);
    out[i] = kv_mul(kv_add(out[i], o->epsilon), kv_sqrt(kv_dot(v, v, d_v)));
  }
}

const kv_scorer kv_scorer_expected = {
    .name = "expected", .open = open, .observe = observe, .score = score};

static const kv_param table[] = {
    KV_BUDGET_PARAM(kv_scored,
                    "tokens left after a compression; must be given"),
    KV_INT_PARAM("future", kv_scored, s.future, "512", 1, 1 << 16, "tokens",
                 "number of next positions to average; 512 as in kvpress"),
    KV_CHOICE_PARAM("covariance", kv_scored, s.covariance, "yes", "yes|no",
                    "use the covariance of the queries; yes as in kvpress"),
    KV_CHOICE_PARAM("vnorm", kv_scored, s.vnorm, "yes", "yes|no",
                    "weigh by the length of the value; yes as in kvpress"),
    KV_REAL_PARAM("epsilon", kv_scored, s.epsilon, "0", 0, 1,
                  "added to the score before vnorm; 0 as in kvpress"),
    KV_SINKS_PARAM(kv_scored, s),
    KV_LAST_PARAM(kv_scored, s),
    KV_FORM_PARAMS(kv_scored, s),
    {.name = NULL}};

KV_SCORER_METHOD(
    expected, table, .revision = 2,
    .title = "tokens that future queries are expected to attend",
    .paper = "Devoto et al. 2025, Expected Attention: KV Cache Compression by "
             "Estimating Attention from Future Queries Distribution, "
             "arXiv:2510.00636");

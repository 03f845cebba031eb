/* SPDX-License-Identifier: Apache-2.0
 *
 * The measures of one decode row of one lane.
 *
 *   untouched: the view is every token and the logits are the truth's to the
 *     bit. Then p^ = p to the bit (arithmetic 4 depends on the logits alone),
 *     so TV = KL = 0, the masses are the truth's and every recall is 1.
 *   otherwise, per query head: compute p^ over the view and its log, and list
 *     the tokens of the view in ascending order. One walk over those gives the
 *     masses, KL and recalls, and spreads p^ over the tokens; one pass over all
 *     tokens gives TV for KV_TOGETHER heads at a time.
 *
 * Cost: O(t) a head, no allocation.
 */
#include "ref/ground/arith.h"
#include "sim/measure/chain.h"
#include "sim/measure/fidelity_part.h"
#include <assert.h>
#include <math.h>
#include <string.h>

static const float tiny = 0x1p-126f; /* p^ below it counts as 0 */

/* What one call works on. */
typedef struct row {
  kv_fidelity *f;
  int layer, step, n; /* decode step, 0-based; tokens 0..n-1 */
  const kv_seen *seen;
  kv_truth *truth;
  const kv_lane *lane;
  int head0;           /* of the lane's first query head in the truth */
  bool plain;          /* entries are tokens in ascending order */
  int listed;          /* tokens of the whole lane, where they are listed */
  int top[3], most[3]; /* index and k of the recalls; most 0: none */
} row;

static const float *of_head(const row *r, const float *x, int h) {
  return x + (size_t)(r->head0 + h) * r->truth->stride;
}

static void put(const row *r, kv_measure m, int h, double x) {
  if (r->f->width[m])
    kv_fidelity_head(r->f, m, r->layer, r->lane->first_head + h)[r->step] = x;
}

/* --- the output --------------------------------------------------------- */

/* a / b, where 0/0 is 0 and x/0 is null (NaN). */
static double ratio(double a, double b) {
  return b > 0 ? a / b : a > 0 ? (double)NAN : 0;
}

static void compare_output(const row *r, int h) {
  int d_v = r->truth->shape->d_v;
  const float *exact = r->truth->out + (r->head0 + h) * d_v;
  const float *got = r->seen->out + h * d_v;
  double square = 0, most = 0;
  for (int i = 0; i < d_v; i++) {
    double gap = (double)got[i] - (double)exact[i];
    square += gap * gap;
    most = fabs(gap) > most ? fabs(gap) : most;
  }
  put(r, KV_OUTPUT_ERROR, h, ratio(sqrt(square), r->truth->norm[r->head0 + h]));
  put(r, KV_OUTPUT_ABS, h, most);
}

/* --- p^ over the view --------------------------------------------------- */

static void gather(const kv_view *v, const float *s, float *out) {
  int n = 0;
  for (int r = 0; r < v->runs; n += v->run[r++].count)
    memcpy(out + n, s + v->run[r].first, (size_t)v->run[r].count * sizeof *out);
  assert(n == v->entries && n > 0 && "a view has its entries");
}

static void name_entries(const kv_view *v, int32_t *entry) {
  for (int r = 0, n = 0; r < v->runs; n += v->run[r++].count)
    for (int i = 0; i < v->run[r].count; i++)
      entry[n + i] = v->run[r].first + i;
}

/* Fills p^ of n places, and the log of what each member of an entry gets. */
static void fill_share(const row *r, int n, float *share, float *log_share) {
  const kv_kernels *k = r->truth->kernels;
  const int32_t *entry = r->truth->compare.entry;
  kv_evidence_row(k, n, share, share);
  for (int i = 0; i < n; i++) {
    float x = share[i];
    if (!r->plain) x = (float)((double)x / (double)r->lane->weight[entry[i]]);
    log_share[i] = x < tiny ? tiny : x;
  }
  k->log(log_share, n, log_share);
}

/* Lists the tokens of the n entries in ascending order, with the place that
 * each came from; returns how many. */
static int list_tokens(const row *r, int n, const int32_t *entry) {
  const kv_lane *l = r->lane;
  const kv_compare *c = &r->truth->compare;
  if (r->plain) {
    for (int i = 0; i < n; i++) {
      c->token[i] = (int32_t)l->id[entry[i]];
      c->place[i] = i;
    }
    return n;
  }
  memset(c->slot, 0xff, (size_t)r->n * sizeof *c->slot);
  for (int i = 0; i < n; i++) {
    uint32_t t = l->id[entry[i]];
    c->slot[t] = i;
    while (l->last && t != l->last[entry[i]]) c->slot[t = l->next[t]] = i;
  }
  int m = 0;
  for (int t = 0; t < r->n; t++) {
    if (c->slot[t] < 0) continue;
    c->token[m] = t;
    c->place[m++] = c->slot[t];
  }
  return m;
}

/* Lists the tokens of a view. Heads that see the whole lane share one list. */
static int list_view(row *r, const kv_view *v) {
  bool whole = kv_view_whole(v, r->lane);
  if (whole && r->listed) return r->listed;
  name_entries(v, r->truth->compare.entry);
  int m = list_tokens(r, v->entries, r->truth->compare.entry);
  r->listed = whole ? m : 0;
  return m;
}

static void put_recalls(const row *r, int h, const int hit[3]) {
  static const kv_measure measure[3] = {KV_RECALL_1, KV_RECALL_16, KV_RECALL_B};
  for (int j = 0; j < 3; j++)
    if (r->most[j]) put(r, measure[j], h, (double)hit[j] / (double)r->most[j]);
}

/* Sums of one walk over the listed tokens of a head. */
typedef struct sums {
  double mass, merged, kl;
  int hit[3];
} sums;

/* The exact row of one query head. */
typedef struct exact {
  const float *s, *p, *log_p;
  const kv_cut *cut; /* of every top */
} exact;

static exact exact_of(const row *r, int h) {
  size_t at = (size_t)(r->head0 + h) * r->truth->stride;
  const kv_truth *x = r->truth;
  return (exact){x->s + at, x->p + at, x->log_p + at,
                 x->cut + (r->head0 + h) * x->n_top};
}

/* For lanes whose entries are single tokens in ascending order. spread[] is
 * zero before. */
static sums walk_plain(const row *r, exact x, int m, const float *share,
                       const float *log_share, double *spread) {
  const int32_t *token = r->truth->compare.token;
  double mass = 0, kl = 0;
  int hit[3] = {0, 0, 0};
  for (int i = 0; i < m; i++) {
    int t = token[i];
    double y = (double)share[i];
    mass += (double)x.p[t];
    spread[t] = y;
    if (share[i] >= tiny) kl += y * ((double)log_share[i] - (double)x.log_p[t]);
  }
  for (int j = 0; j < 3; j++)
    for (int i = 0; r->most[j] && i < m; i++)
      hit[j] += kv_cut_has(x.cut[r->top[j]], x.s[token[i]], token[i]);
  return (sums){mass, 0, kl, {hit[0], hit[1], hit[2]}};
}

/* For lanes with merged entries or in another order. */
static sums walk_merged(const row *r, exact x, int m, const float *share,
                        const float *log_share, double *spread) {
  const kv_compare *c = &r->truth->compare;
  sums s = {0};
  for (int i = 0; i < m; i++) {
    int t = c->token[i], at = c->place[i];
    uint32_t weight = r->lane->weight[c->entry[at]];
    double y = (double)share[at];
    if (weight == 1) {
      s.mass += (double)x.p[t];
      for (int j = 0; j < 3; j++)
        s.hit[j] += r->most[j] && kv_cut_has(x.cut[r->top[j]], x.s[t], t);
    } else {
      s.merged += (double)x.p[t];
      y /= (double)weight;
    }
    spread[t] = y;
    if (y >= (double)tiny)
      s.kl += y * ((double)log_share[at] - (double)x.log_p[t]);
  }
  return s;
}

static void walk(const row *r, int h, int m, const float *share,
                 const float *log_share, double *spread) {
  exact x = exact_of(r, h);
  sums s = r->plain ? walk_plain(r, x, m, share, log_share, spread)
                    : walk_merged(r, x, m, share, log_share, spread);
  put(r, KV_MASS, h, s.mass);
  put(r, KV_MASS_MERGED, h, s.merged);
  put(r, KV_KL, h, s.kl);
  if (kv_view_whole(&r->seen->view[h], r->lane))
    put(r, KV_MASS_STORED, h, s.mass);
  put_recalls(r, h, s.hit);
}

static void seek(const row *r, int h, const kv_view *v, const float *share) {
  int at = r->f->search_at[r->step];
  if (at >= 0)
    kv_search_row(r->f, r->layer, r->lane->first_head + h, at, r->lane, v,
                  of_head(r, r->truth->p, h), share);
}

/* Up to KV_TOGETHER heads from head `first` on. */
static void compare_heads(row *r, int first, int count) {
  kv_compare *c = &r->truth->compare;
  kv_truth_mark(r->truth);
  const float *p[KV_TOGETHER];
  const double *q[KV_TOGETHER];
  double sum[KV_TOGETHER];
  for (int i = 0; i < count; i++) {
    int h = first + i;
    const kv_view *v = &r->seen->view[h];
    int m = list_view(r, v);
    gather(v, r->seen->s + (size_t)h * r->seen->stride, c->share[i]);
    fill_share(r, v->entries, c->share[i], c->log_share[i]);
    memset(c->spread[i], 0, (size_t)r->n * sizeof(double));
    walk(r, h, m, c->share[i], c->log_share[i], c->spread[i]);
    seek(r, h, v, c->share[i]);
  }
  for (int i = 0; i < KV_TOGETHER; i++) {
    int j = i < count ? i : 0;
    p[i] = of_head(r, r->truth->p, first + j);
    q[i] = c->spread[j];
  }
  kv_chain_gap(r->n, p, q, sum);
  for (int i = 0; i < count; i++) put(r, KV_TV, first + i, sum[i] * 0.5);
}

/* --- what is stored beside the view ------------------------------------- */

/* True if the lane still stores every token unchanged: then the stored set is
 * the full set. */
static bool complete(const row *r) {
  const kv_lane *l = r->lane;
  return r->plain && l->n == r->n && l->rewritten == 0 && !l->needs->reindex;
}

/* mass_stored of heads that see only part of what is stored; for the others it
 * equals the view's mass. */
static void sum_stored(row *r) {
  const kv_lane *l = r->lane;
  const kv_compare *c = &r->truth->compare;
  kv_run all = {0, l->n};
  int m = list_view(r, &(kv_view){1, l->n, &all});
  for (int h = 0; h < r->seen->queries; h++) {
    if (kv_view_whole(&r->seen->view[h], l)) continue;
    const float *p = of_head(r, r->truth->p, h);
    double mass = 0;
    for (int i = 0; i < m; i++)
      if (l->weight[c->place[i]] == 1) mass += (double)p[c->token[i]];
    put(r, KV_MASS_STORED, h, mass);
  }
}

/* LSE over all live entries, by the chunks of arithmetic 3. */
static const float *stored_lse(const row *r) {
  const kv_lane *l = r->lane;
  kv_truth *x = r->truth;
  kv_compare *c = &x->compare;
  int m = r->seen->queries, d = x->shape->d;
  kv_run all = {0, l->n};
  kv_view view = {1, l->n, &all};
  kv_lane_values values = {.lane = l, .view = &view};
  memcpy(c->q, x->q + r->head0 * d, (size_t)(m * d) * sizeof *c->q);
  for (int h = 0; h < m; h++)
    kv_lane_query(l, x->rope, &x->attend, c->q + h * d);
  kv_lane_logits(x->kernels, l, x->rope, m, c->q, (size_t)d, 0, l->n, NULL, 0,
                 c->s, x->stride, &x->attend);
  kv_attend_rows(x->kernels, m, l->n, x->shape->d_v, c->s, x->stride,
                 kv_lane_value_rows, &values, &x->attend, c->out, c->lse);
  return c->lse;
}

static bool all_whole(const row *r) {
  for (int h = 0; h < r->seen->queries; h++)
    if (!kv_view_whole(&r->seen->view[h], r->lane)) return false;
  return true;
}

static void compare_stored(row *r) {
  const double *every = r->truth->mass + r->head0;
  const float *lse = r->truth->lse + r->head0;
  bool same = complete(r), whole = all_whole(r);
  const float *stored = whole ? r->seen->lse : same ? lse : stored_lse(r);
  for (int h = 0; h < r->seen->queries; h++) {
    put(r, KV_LSE_ERROR, h, (double)stored[h] - (double)lse[h]);
    if (same) put(r, KV_MASS_STORED, h, every[h]);
  }
  if (!same && !whole) sum_stored(r);
}

/* --- untouched ---------------------------------------------------------- */

static bool untouched(const row *r, int h) {
  const float *s = r->seen->s + (size_t)h * r->seen->stride;
  const float *exact = of_head(r, r->truth->s, h);
  return r->plain && r->lane->n == r->n &&
         kv_view_whole(&r->seen->view[h], r->lane) &&
         (s == exact || memcmp(s, exact, (size_t)r->n * sizeof *s) == 0);
}

static void put_untouched(const row *r, int h) {
  put(r, KV_MASS, h, r->truth->mass[r->head0 + h]);
  put(r, KV_MASS_STORED, h, r->truth->mass[r->head0 + h]);
  put(r, KV_MASS_MERGED, h, 0);
  put(r, KV_TV, h, 0);
  put(r, KV_KL, h, 0);
  put_recalls(r, h, r->most);
  seek(r, h, &r->seen->view[h], of_head(r, r->truth->p, h));
}

/* --- the row ------------------------------------------------------------ */

static bool is_plain(const kv_lane *l) {
  uint32_t disorder = 0;
  for (int i = 1; i < l->n; i++) disorder |= l->id[i] <= l->id[i - 1];
  if (l->last)
    for (int i = 0; i < l->n; i++) disorder |= l->weight[i] != 1;
  return !disorder;
}

static void plan_recalls(row *r) {
  const int k[3] = {1, 16, r->f->budget[r->layer]};
  for (int j = 0; j < 3; j++) {
    if (k[j] < 1) continue;
    r->top[j] = kv_truth_top(r->truth, k[j]);
    r->most[j] = k[j] < r->n ? k[j] : r->n;
  }
}

void kv_fidelity_row(kv_fidelity *f, int layer, const kv_seen *seen,
                     kv_truth *truth) {
  const kv_lane *l = seen->lane;
  row r = {.f = f,
           .layer = layer,
           .seen = seen,
           .truth = truth,
           .lane = l,
           .n = truth->t + 1,
           .step = truth->t - f->shape->prompt_len,
           .head0 = l->first_head - truth->kv_head * kv_group(f->shape),
           .plain = is_plain(l),
           .top = {-1, -1, -1}};
  assert(l->kv_head == truth->kv_head && f->layer[layer] == truth->layer);
  kv_truth_weigh(truth);
  plan_recalls(&r);
  compare_stored(&r);
  int first = 0, count = 0;
  for (int h = 0; h < seen->queries; h++) {
    bool same = untouched(&r, h);
    compare_output(&r, h);
    if (same) put_untouched(&r, h);
    if (!same && count++ == 0) first = h;
    if (count && (same || count == KV_TOGETHER || h + 1 == seen->queries)) {
      compare_heads(&r, first, count);
      count = 0;
    }
  }
}

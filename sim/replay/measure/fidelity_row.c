/* SPDX-License-Identifier: Apache-2.0
 *
 * The measures of one decode row of one lane.
 *
 *   untouched: the view is every token that exact attention sees and the logits
 *     are the truth's to the bit. Then p^ = p to the bit (arithmetic 4 depends
 *     on the logits alone), so TV = KL = 0, the masses are the truth's and
 *     every recall is 1.
 *
 *   otherwise, per query head: compute p^ over the view and its log, and list
 *     the tokens of the view in ascending order. One walk over the list gives
 *     the masses, KL and recalls, and spreads p^ over the tokens; one pass over
 *     all tokens gives TV for KV_TOGETHER heads at a time.
 *
 * Cost: O(t) a head, no allocation.
 */
#include "ref/ground/arith.h"
#include "sim/replay/measure/chain.h"
#include "sim/replay/measure/row_part.h"
#include <assert.h>
#include <math.h>
#include <string.h>

static const float tiny = 0x1p-126f; /* p^ below it counts as 0 */

/* --- the output --------------------------------------------------------- */

static void put_output(const kv_row *r, int h) {
  double error, most;
  kv_row_output(r, h, &error, &most);
  kv_row_put(r, KV_OUTPUT_ERROR, h, error);
  kv_row_put(r, KV_OUTPUT_ABS, h, most);
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

/* Computes p^ of the view's n entries and of the sink for head h, and the log
 * of the p^ of each member of an entry. */
static void fill_share(const kv_row *r, int h, int n, float *share,
                       float *log_share, float *sink) {
  const kv_kernels *k = r->truth->kernels;
  const float *sinks = r->truth->sinks;
  const int32_t *entry = r->truth->compare.entry;
  kv_observation_sink(k, n, share, sinks ? sinks + r->head0 + h : NULL, share,
                      sink);
  for (int i = 0; i < n; i++) {
    float x = share[i];
    if (!r->plain) x = (float)((double)x / (double)r->lane->weight[entry[i]]);
    log_share[i] = x < tiny ? tiny : x;
  }
  k->log(log_share, n, log_share);
}

/* Lists the tokens of the n entries in ascending order, with their indexes in
 * the view; returns how many. */
static int list_tokens(const kv_row *r, int n, const int32_t *entry) {
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
int kv_row_list(kv_row *r, const kv_view *v) {
  bool whole = kv_view_whole(v, r->lane);
  if (whole && r->listed) return r->listed;
  name_entries(v, r->truth->compare.entry);
  int m = list_tokens(r, v->entries, r->truth->compare.entry);
  r->listed = whole ? m : 0;
  return m;
}

/* What the sink, an outcome besides the tokens, adds to KL and to the sum of
 * |p - p^|. Its p and p^ are like a token's. */
static double sink_kl(const kv_row *r, int h, float share) {
  float exact = r->truth->sink_p[r->head0 + h];
  if (!r->truth->sinks || share < tiny) return 0;
  return (double)share *
         ((double)kv_log(share) - (double)kv_log(exact < tiny ? tiny : exact));
}

static double sink_gap(const kv_row *r, int h, float share) {
  return fabs((double)r->truth->sink_p[r->head0 + h] - (double)share);
}

static void put_recalls(const kv_row *r, int h, const int hit[3]) {
  static const kv_measure measure[3] = {KV_RECALL_1, KV_RECALL_16, KV_RECALL_B};
  for (int j = 0; j < 3; j++)
    if (r->most[j])
      kv_row_put(r, measure[j], h, (double)hit[j] / (double)r->most[j]);
}

/* Sums of one walk over the listed tokens of a head. */
typedef struct sums {
  double mass, merged, kl;
  int hit[3];
} sums;

/* The exact row of one query head. */
typedef struct exact {
  const float *s, *p, *log_p;
  const kv_top_cut *cut; /* a cut for each top */
} exact;

static exact exact_of(const kv_row *r, int h) {
  size_t at = (size_t)(r->head0 + h) * r->truth->stride;
  const kv_truth *x = r->truth;
  return (exact){x->s + at, x->p + at, x->log_p + at,
                 x->cut + (r->head0 + h) * x->n_top};
}

/* How many of the m listed tokens are among the largest. Few are in the top 16
 * or the top 1, so these are checked only if the logit is large enough. */
static void count_hits(const kv_row *r, exact x, int m, int hit[3]) {
  const int32_t *token = r->truth->compare.token;
  const kv_top_cut first = x.cut[r->top[0]], few = x.cut[r->top[1]];
  const kv_top_cut cut = r->most[2] ? x.cut[r->top[2]] : few;
  for (int j = 0; j < 3; j++) hit[j] = m == r->visible ? r->most[j] : 0;
  if (m == r->visible) return; /* every token is listed */
  for (int i = 0; i < m; i++) {
    int t = token[i];
    float s = x.s[t];
    hit[2] += (s > cut.least) | ((s == cut.least) & (t <= cut.last));
    if (s < few.least) continue;
    hit[1] += kv_top_has(few, s, t);
    hit[0] += kv_top_has(first, s, t);
  }
}

/* For lanes of single tokens in ascending order. by_token[] must be zero. */
static sums walk_plain(const kv_row *r, exact x, int m, const float *share,
                       const float *log_share, double *by_token) {
  const int32_t *token = r->truth->compare.token;
  double mass = 0, kl = 0;
  int hit[3];
  for (int i = 0; i < m; i++) {
    int t = token[i];
    double y = (double)share[i];
    mass += (double)x.p[t];
    by_token[t] = y;
    if (share[i] >= tiny) kl += y * ((double)log_share[i] - (double)x.log_p[t]);
  }
  count_hits(r, x, m, hit);
  return (sums){mass, 0, kl, {hit[0], hit[1], hit[2]}};
}

/* For lanes with merged entries or in another order. */
static sums walk_merged(const kv_row *r, exact x, int m, const float *share,
                        const float *log_share, double *by_token) {
  const kv_compare *c = &r->truth->compare;
  sums s = {0};
  for (int i = 0; i < m; i++) {
    int t = c->token[i], at = c->place[i];
    uint32_t weight = r->lane->weight[c->entry[at]];
    double y = (double)share[at];
    if (weight == 1) {
      s.mass += (double)x.p[t];
      for (int j = 0; j < 3; j++)
        s.hit[j] += r->most[j] && kv_top_has(x.cut[r->top[j]], x.s[t], t);
    } else {
      s.merged += (double)x.p[t];
      y /= (double)weight;
    }
    by_token[t] = y;
    if (y >= (double)tiny)
      s.kl += y * ((double)log_share[at] - (double)x.log_p[t]);
  }
  return s;
}

static void put_sums(const kv_row *r, int h, sums s, float sink) {
  kv_row_put(r, KV_MASS, h, s.mass);
  kv_row_put(r, KV_MASS_MERGED, h, s.merged);
  kv_row_put(r, KV_KL, h, s.kl + sink_kl(r, h, sink));
  if (kv_view_whole(&r->seen->view[h], r->lane))
    kv_row_put(r, KV_MASS_STORED, h, s.mass);
  put_recalls(r, h, s.hit);
}

static void walk(const kv_row *r, int h, int m, const float *share,
                 const float *log_share, double *by_token, float sink) {
  exact x = exact_of(r, h);
  put_sums(r, h,
           r->plain ? walk_plain(r, x, m, share, log_share, by_token)
                    : walk_merged(r, x, m, share, log_share, by_token),
           sink);
}

/* Measures the needle, unless the layer's own window hides the token. */
static void seek(const kv_row *r, int h, const kv_view *v, const float *share) {
  int at = r->f->search_at[r->step];
  if (at >= 0 && r->f->search[at].token >= r->truth->first)
    kv_search_row(r->f, r->layer, r->lane->first_head + h, at, r->lane, v,
                  kv_row_of_head(r, r->truth->p, h), share);
}

/* Fills p^ and its log for `count` heads from head `first` on. */
static void share_out(kv_row *r, int first, int count) {
  kv_compare *c = &r->truth->compare;
  for (int i = 0; i < count; i++) {
    const kv_view *v = &r->seen->view[first + i];
    kv_row_list(r, v);
    gather(v, r->seen->s + (size_t)(first + i) * r->seen->stride, c->share[i]);
    fill_share(r, first + i, v->entries, c->share[i], c->log_share[i],
               &c->sink[i]);
  }
}

/* For heads that see a whole lane of single tokens in ascending order: they see
 * the same tokens, so one walk is enough. */
static void compare_alike(kv_row *r, int first, int count) {
  kv_compare *c = &r->truth->compare;
  const float *p[KV_TOGETHER], *log_p[KV_TOGETHER];
  const float *share[KV_TOGETHER], *log_share[KV_TOGETHER];
  kv_walked sum[KV_TOGETHER];
  share_out(r, first, count);
  for (int i = 0; i < KV_TOGETHER; i++) {
    int j = i < count ? i : 0;
    exact x = exact_of(r, first + j);
    p[i] = x.p;
    log_p[i] = x.log_p;
    share[i] = c->share[j];
    log_share[i] = c->log_share[j];
  }
  kv_chain_walk(r->n, r->listed, c->token, share, log_share, p, log_p, sum);
  for (int i = 0; i < count; i++) {
    int h = first + i, hit[3];
    count_hits(r, exact_of(r, h), r->listed, hit);
    put_sums(r, h, (sums){sum[i].mass, 0, sum[i].kl, {hit[0], hit[1], hit[2]}},
             c->sink[i]);
    kv_row_put(r, KV_TV, h, (sum[i].gap + sink_gap(r, h, c->sink[i])) * 0.5);
    seek(r, h, &r->seen->view[h], c->share[i]);
  }
}

/* For heads that see different entries, or merged ones. */
static void compare_each(kv_row *r, int first, int count) {
  kv_compare *c = &r->truth->compare;
  const float *p[KV_TOGETHER];
  const double *q[KV_TOGETHER];
  double sum[KV_TOGETHER];
  for (int i = 0; i < count; i++) {
    int h = first + i;
    const kv_view *v = &r->seen->view[h];
    int m = kv_row_list(r, v);
    gather(v, r->seen->s + (size_t)h * r->seen->stride, c->share[i]);
    fill_share(r, h, v->entries, c->share[i], c->log_share[i], &c->sink[i]);
    memset(c->by_token[i], 0, (size_t)r->n * sizeof(double));
    walk(r, h, m, c->share[i], c->log_share[i], c->by_token[i], c->sink[i]);
    seek(r, h, v, c->share[i]);
  }
  for (int i = 0; i < KV_TOGETHER; i++) {
    int j = i < count ? i : 0;
    p[i] = kv_row_of_head(r, r->truth->p, first + j);
    q[i] = c->by_token[j];
  }
  kv_chain_gap(r->n, p, q, sum);
  for (int i = 0; i < count; i++)
    kv_row_put(r, KV_TV, first + i,
               (sum[i] + sink_gap(r, first + i, c->sink[i])) * 0.5);
}

/* Up to KV_TOGETHER heads from head `first` on. */
static void compare_heads(kv_row *r, int first, int count) {
  bool alike = r->plain;
  for (int i = first; i < first + count; i++)
    alike = alike && kv_view_whole(&r->seen->view[i], r->lane);
  kv_truth_mark(r->truth);
  if (alike)
    compare_alike(r, first, count);
  else
    compare_each(r, first, count);
}

/* --- untouched ---------------------------------------------------------- */

static bool untouched(const kv_row *r, int h) {
  const float *s = r->seen->s + (size_t)h * r->seen->stride;
  const float *own = kv_row_of_head(r, r->truth->s, h) + r->truth->first;
  return r->plain && r->lane->n == r->visible &&
         kv_view_whole(&r->seen->view[h], r->lane) &&
         (s == own || memcmp(s, own, (size_t)r->visible * sizeof *s) == 0);
}

static void put_untouched(const kv_row *r, int h) {
  kv_row_put(r, KV_MASS, h, r->truth->mass[r->head0 + h]);
  kv_row_put(r, KV_MASS_STORED, h, r->truth->mass[r->head0 + h]);
  kv_row_put(r, KV_MASS_MERGED, h, 0);
  kv_row_put(r, KV_TV, h, 0);
  kv_row_put(r, KV_KL, h, 0);
  put_recalls(r, h, r->most);
  seek(r, h, &r->seen->view[h],
       kv_row_of_head(r, r->truth->p, h) + r->truth->first);
}

/* --- the row ------------------------------------------------------------ */

static void plan_recalls(kv_row *r) {
  const int k[3] = {1, 16, r->f->budget[r->layer]};
  for (int j = 0; j < 3; j++) {
    if (k[j] < 1) continue;
    r->top[j] = kv_truth_top(r->truth, k[j]);
    r->most[j] = k[j] < r->visible ? k[j] : r->visible;
  }
}

void kv_fidelity_row(kv_fidelity *f, int layer, const kv_seen *seen,
                     kv_truth *truth) {
  kv_row r = kv_row_of(f, layer, seen, truth, f->shape->prompt_len);
  plan_recalls(&r);
  kv_row_stored(&r);
  int first = 0, count = 0;
  for (int h = 0; h < seen->queries; h++) {
    bool same = untouched(&r, h);
    put_output(&r, h);
    if (same) put_untouched(&r, h);
    if (!same && count++ == 0) first = h;
    if (count && (same || count == KV_TOGETHER || h + 1 == seen->queries)) {
      compare_heads(&r, first, count);
      count = 0;
    }
  }
}

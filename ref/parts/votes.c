/* SPDX-License-Identifier: Apache-2.0
 *
 * Votes of a window of queries. Contract: ref/parts/votes.h. Cost: logits of
 * window * heads * n * d, a few rows of n elements a query and, when
 * temperatures are computed, up to 60 rows of exponentials.
 */
#include "ref/parts/votes.h"
#include "ref/kernels/kernels.h"
#include <assert.h>
#include <string.h>

size_t kv_poll_work(const kv_shape *s, const kv_voters *o) {
  size_t rows = KV_POLL_ROWS * (size_t)kv_group(s) + 40;
  size_t keys = o->adapter == KV_ADAPT_RKV ? kv_similar_work(s) : 0;
  return keys + KV_KEY_LOGITS(s->d) + rows * (size_t)s->n_tokens * 4;
}

/* R-KV's redundancy of the poll's entries among themselves, by entry. */
static const float *repeated_among(const kv_at *at, const kv_lane *lane, int n,
                                   const int32_t *entry, const kv_spare *how) {
  size_t d = (size_t)at->shape->d;
  float *all = KV_TAKE(at->work, float, lane->n);
  float *key = KV_TAKE(at->work, float, (size_t)n *d);
  for (int i = 0; i < n; i++) kv_lane_key(lane, entry[i], key + (size_t)i * d);
  const float *r = kv_repeated(at, n, key, how);
  for (int i = 0; i < n; i++) all[entry[i]] = r[i];
  return all;
}

static kv_poll open_poll(const kv_at *at, const kv_lane *lane,
                         const kv_voters *o, int n, const int32_t *entry) {
  kv_work *w = at->work;
  kv_poll p = {.n = n,
               .entry = entry,
               .votes = KV_TAKE(w, int32_t, n),
               .mass = KV_TAKE(w, int64_t, n),
               .share = o->shares ? KV_TAKE(w, int64_t, n) : NULL,
               .z = KV_TAKE(w, float, n),
               .g = KV_TAKE(w, float, n),
               .less = KV_TAKE(w, float, n),
               .e = KV_TAKE(w, float, n),
               .near = KV_TAKE(w, float, n),
               .few = KV_TAKE(w, float, n),
               .weight = KV_TAKE(w, int64_t, n),
               .place = KV_TAKE(w, int32_t, n),
               .order = KV_TAKE(w, int32_t, n),
               .spare = KV_TAKE(w, int32_t, n)};
  memset(p.votes, 0, (size_t)n * sizeof *p.votes);
  memset(p.mass, 0, (size_t)n * sizeof *p.mass);
  if (p.share) memset(p.share, 0, (size_t)n * sizeof *p.share);
  if (o->adapter == KV_ADAPT_RKV) {
    kv_spare how = kv_voters_spare(o);
    p.repeated = o->redundant == KV_REDUNDANT_READ
                     ? repeated_among(at, lane, n, entry, &how)
                     : kv_repeated(at, lane->n, kv_lane_keys(at, lane), &how);
  }
  return p;
}

/* A poll in progress; prefixes of z and of g end at different entries. */
typedef struct asking {
  const kv_at *at;
  const kv_voters *o;
  kv_poll *p;
  kv_prefixes of_z, of_g;
} asking;

static asking begin(const kv_at *at, const kv_voters *o, kv_poll *p) {
  kv_prefixes f = {at, p->near, p->weight, p->place, 0};
  return (asking){at, o, p, f, f};
}

/* less = x minus its largest, which is returned. */
static float lower(const asking *a, const float *x, int n) {
  float most = a->at->kernels->max(x, n);
  for (int i = 0; i < n; i++) a->p->less[i] = kv_sub(x[i], most);
  return most;
}

/* g of rkv: a query's own share minus redundancy. */
static void weigh_repeated(const kv_at *at, const kv_voters *o,
                           const kv_poll *p, int n) {
  int64_t sum = 0;
  assert(n > 0 && "a poll asks about some entry");
  memcpy(p->g, p->z, (size_t)n * sizeof *p->g);
  kv_probabilities(at, n, p->g);
  float least = 0;
  for (int i = 0; i < n; i++) {
    p->g[i] = kv_rkv_worth(o, p->g[i], p->repeated[p->entry[i]]);
    least = i == 0 ? p->g[i] : kv_min(least, p->g[i]);
  }
  for (int i = 0; i < n; i++) {
    p->g[i] = kv_sub(p->g[i], least);
    sum += kv_fix(p->g[i]);
  }
  float all = kv_unfix(sum);
  for (int i = 0; i < n; i++) {
    float x = all > 0 ? kv_div(p->g[i], all) : 0;
    p->g[i] = kv_log(kv_add(x, 1e-10f));
  }
}

static void copy_scores(const kv_poll *p, int n) {
  for (int i = 0; i < n; i++) p->g[i] = p->score[p->entry[i]];
}

static const float *adapt(const kv_at *at, const kv_voters *o, const kv_poll *p,
                          int n) {
  switch (o->adapter) {
  case KV_ADAPT_SCORE:
    copy_scores(p, n);
    return p->g;
  case KV_ADAPT_SNAPKV:
    kv_pool_max(p->z, n, o->kernel, p->g);
    return p->g;
  case KV_ADAPT_RKV:
    weigh_repeated(at, o, p, n);
    return p->g;
  default:
    return p->z;
  }
}

/* Length of z's shortest prefix of mass p; *want: its share of the mass. */
static int count_by_z(asking *a, int n, float *want) {
  kv_poll *p = a->p;
  int64_t mass, all;
  float most = lower(a, p->z, n);
  all = a->at->kernels->exp_over(p->less, 1.0f, n, p->e);
  int k = kv_prefix_by_mass(&a->of_z, p->z, p->e, n, most, all, a->o->p,
                            a->o->as_shipped, &mass);
  *want = kv_div(kv_unfix(mass), kv_unfix(all));
  return k;
}

/* sum += RN(RN(e / all) * 2^40), as e times 1 / all. Not by the kernels `scale`
 * and `fix_rows`, because laws count their calls as observation. */
static void add_shares(const asking *a, int n, int64_t all, int64_t *sum) {
  float *e = a->p->e, each = kv_div(1.0f, kv_unfix(all));
  for (int i = 0; i < n; i++) e[i] = kv_mul(e[i], each);
  a->at->kernels->fix_add(e, n, sum);
}

static void share_out(const asking *a, int n) {
  const kv_kernels *kernel = a->at->kernels;
  lower(a, a->p->z, n);
  add_shares(a, n, kernel->exp_over(a->p->less, 1.0f, n, a->p->e), a->p->share);
}

static float temperature_of(asking *a, int rule, const float *g, int n) {
  kv_poll *p = a->p;
  float want;
  kv_scores_less row = {n, count_by_z(a, n, &want), p->less, p->less};
  float most = lower(a, g, n);
  if (a->o->as_shipped) {
    want = kv_mul((float)a->o->p, 0x1p-20f);
  } else if (row.k < n) {
    kv_prefix_by_count(&a->of_g, g, n, most, row.k);
    for (int i = 0; i < row.k; i++) p->few[i] = p->less[p->place[i]];
    row.first = p->few;
  }
  kv_search s = kv_calibrate(a->at, row, want, rule);
  p->looks += s.steps;
  return s.t;
}

/* Counts the vote of a query that sees the first n entries; z is filled in. */
static void vote(asking *a, int n, float *kept) {
  const kv_kernels *kernel = a->at->kernels;
  kv_poll *p = a->p;
  const float *g = adapt(a->at, a->o, p, n);
  float t;
  int rule = kv_voters_rule(a->o, &t);
  if (p->share) share_out(a, n);
  if (rule != KV_CALIBRATE_NONE) {
    if (kv_voters_search(a->o, *kept)) *kept = temperature_of(a, rule, g, n);
    t = *kept;
  }
  float most = lower(a, g, n);
  int64_t mass, all = kernel->exp_over(p->less, t, n, p->e);
  int k = kv_prefix_by_mass(&a->of_g, g, p->e, n, most, all, a->o->p,
                            a->o->as_shipped, &mass);
  for (int i = 0; i < k; i++) p->votes[p->place[i]]++;
  add_shares(a, n, all, p->mass);
}

/* --- logits --------------------------------------------------------------- */

/* How many of the poll's entries the query of a token sees. Entries younger
 * than the window's first token are last, in order. */
static int seen_by(const asking *a, const kv_lane *lane, int token) {
  const kv_poll *p = a->p;
  int n = p->n;
  if (a->o->as_shipped) return n;
  while (n > 0 && (int)lane->id[p->entry[n - 1]] > token) n--;
  return n;
}

/* z of the first n entries, never -0, from the logits of all heads,
 * [heads][lds] by entry. */
static void largest_of_heads(const asking *a, const kv_lane *lane, int n,
                             float *s, size_t lds) {
  const kv_poll *p = a->p;
  for (int h = 0; h < lane->queries; h++)
    kv_logits_finite(a->at, lane->n, s + (size_t)h * lds);
  for (int h = 1; h < lane->queries; h++) {
    const float *x = s + (size_t)h * lds;
    for (int i = 0; i < lane->n; i++) s[i] = s[i] > x[i] ? s[i] : x[i];
  }
  if (p->n == lane->n)
    memcpy(p->z, s, (size_t)n * sizeof *p->z);
  else
    for (int i = 0; i < n; i++) p->z[i] = s[p->entry[i]];
}

kv_poll kv_poll_ask(const kv_at *at, const kv_lane *lane, const kv_voters *o,
                    int n, const int32_t *entry, const float *score,
                    const float *ring, float *temperature) {
  kv_poll p = open_poll(at, lane, o, n, entry);
  size_t lds = (size_t)lane->n, heads = (size_t)lane->queries;
  size_t row = heads * (size_t)at->shape->d, used = at->work->used;
  float *s = KV_TAKE(at->work, float, KV_POLL_ROWS *heads *lds);
  asking a = begin(at, o, &p);
  p.score = score;
  for (int r = 0; r < o->window; r++) {
    int left = o->window - r, token = kv_ring_token(o->window, at->step, r);
    if (r % KV_POLL_ROWS == 0) {
      int m = (left < KV_POLL_ROWS ? left : KV_POLL_ROWS) * lane->queries;
      kv_key_logits(at, lane, m, ring + (size_t)r * row, 0, lane->n,
                    at->shape->scale, s, lds);
      at->kernels->softcap(at->shape->softcap, m, lane->n, s, lds);
    }
    int seen = token < 0 ? 0 : seen_by(&a, lane, token);
    if (seen == 0) continue;
    largest_of_heads(&a, lane, seen,
                     s + (size_t)(r % KV_POLL_ROWS) * heads * lds, lds);
    vote(&a, seen, &temperature[r]);
  }
  at->work->used = used;
  return p;
}

/* --- calibration ---------------------------------------------------------- */

/* Temperatures of rows of a lane. Contract: ref/parts/votes.h. Cost: O(n) for
 * each step of a search. */

/* The slope is (sum over the first k of p (u - the mean of u)) / t. */
static kv_prefix look(const kv_at *at, kv_scores_less row, int rule, float t) {
  bool slopes = rule == KV_CALIBRATE_GRADIENT;
  int64_t near, both;
  int64_t first =
      at->kernels->exp_mass(row.first, t, row.k, slopes ? &near : NULL);
  int64_t whole =
      at->kernels->exp_mass(row.less, t, row.n, slopes ? &both : NULL);
  float all = kv_unfix(whole);
  kv_prefix p = {kv_div(kv_unfix(first), all), 0};
  if (!slopes) return p;
  p.slope = kv_prefix_slope(kv_div(kv_unfix(near), all),
                            kv_div(kv_unfix(both), all), p.mass, t);
  return p;
}

static bool all_equal(kv_scores_less row) {
  int j = 0;
  while (j < row.n && !(row.less[j] < 0)) j++;
  return j == row.n;
}

kv_search kv_calibrate(const kv_at *at, kv_scores_less row, float want,
                       int rule) {
  kv_search s = kv_search_begin(rule);
  s.met = rule == KV_CALIBRATE_NONE || row.k >= row.n || all_equal(row);
  if (s.met) s.t = 1.0f;
  while (!s.met && kv_search_next(&s, look(at, row, rule, s.t), want)) {
  }
  return s;
}

/* Prefixes of rows in falling order, without a sort. Contract:
 * ref/parts/votes.h. The row kernel gathers entries above a guess, which is
 * lowered until they contain the prefix; radix finds it among them. Cost: O(n)
 * with a vector a few entries long, and O(of the gathered entries). */

/* Gathers elements of x that are at least the guess; returns how many. */
static int gather(kv_prefixes *f, const float *x, int n, float most) {
  return f->at->kernels->at_least(x, n, kv_sub(most, f->reach), f->value,
                                  f->place);
}

/* Lowers the guess, in the end to -infinity, which includes all. */
static void reach_on(kv_prefixes *f) {
  f->reach = f->reach > 0 ? kv_mul(f->reach, 2.0f) : 1.0f;
}

/* Keeps those of m gathered elements above the key, and the first `equals` at
 * it; returns how many. The next guess is a little below their end. */
static int leave(kv_prefixes *f, int m, uint32_t cut, int equals, float most) {
  int n = 0;
  float last = most;
  for (int i = 0; i < m; i++) {
    uint32_t key = kv_key(f->value[i]);
    bool in = key > cut || (key == cut && equals-- > 0);
    if (key == cut) last = f->value[i];
    f->weight[n] = f->weight[i];
    f->place[n] = f->place[i];
    n += in;
  }
  f->reach = kv_mul(kv_sub(most, last), 1.125f);
  return n;
}

static int64_t weigh(kv_prefixes *f, int m, const float *e) {
  int64_t sum = 0;
  for (int i = 0; i < m; i++) {
    f->weight[i] = kv_fix(e[f->place[i]]);
    sum += f->weight[i];
  }
  return sum;
}

/* How many elements at the key are in; `above`: the weight above the key. */
static int equals_of(const kv_prefixes *f, int m, uint32_t cut, int64_t above,
                     int64_t target) {
  int equals = 0;
  for (int i = 0; i < m && above < target; i++)
    if (kv_key(f->value[i]) == cut) {
      equals++;
      above += f->weight[i];
    }
  return equals;
}

int kv_prefix_by_mass(kv_prefixes *f, const float *x, const float *e, int n,
                      float most, int64_t all, int32_t p20, bool ties,
                      int64_t *mass) {
  int64_t target = kv_share_of(all, p20), above;
  int m = gather(f, x, n, most);
  while (weigh(f, m, e) < target && m < n) {
    reach_on(f);
    m = gather(f, x, n, most);
  }
  uint32_t cut = kv_mass_key(f->value, f->weight, m, target, &above);
  int equals = ties ? m : equals_of(f, m, cut, above, target);
  int kept = leave(f, m, cut, equals, most);
  *mass = 0;
  for (int i = 0; i < kept; i++) *mass += f->weight[i];
  return kept;
}

void kv_prefix_by_count(kv_prefixes *f, const float *x, int n, float most,
                        int k) {
  int equals, m = gather(f, x, n, most);
  while (m < k) {
    reach_on(f);
    m = gather(f, x, n, most);
  }
  uint32_t cut = kv_nth_key(f->value, m, k, &equals);
  leave(f, m, cut, equals, most);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Votes of a window of queries about the entries of a lane, as in
 * ref/parts/votes.h, which defines z, g, S and T. One block a lane; the queries
 * vote in turn, an entry a thread. Order: kv_gpu_poll_open, set n and entry
 * (and score), kv_gpu_poll_ask; then read votes, mass and share. For adapter
 * rkv the cosines must have been computed (gpu/parts/similar.cuh), and the poll
 * must be the first that the hook takes of its workspace.
 *
 * All threads of the block call every function together with the same
 * arguments; each ends with a barrier, except kv_gpu_adapt and kv_gpu_vote_at.
 * o: the method's options; n: entries of the poll that the query sees, its
 * first ones.
 */
#ifndef KV_GPU_VOTES_CUH
#define KV_GPU_VOTES_CUH

#include "gpu/parts/parts.cuh"
#include "gpu/parts/similar.cuh"

extern "C" {
#include "ref/parts/votes.h"
}

/* --- calibration ---------------------------------------------------------- */

/* Temperatures at which the first k entries of a row of scores hold a given
 * share of its probability, as in ref/parts/votes.h, for the polls of
 * gpu/parts/votes.cuh. All threads of the block call every function together
 * with the same arguments and get the same answer; each ends with a barrier. A
 * row less [n] has scores minus the largest one, of which the first k are those
 * whose mass is wanted; e [n] is scratch for exponentials, of which thread t
 * writes and reads e[t], e[t + KV_BLOCK], .. unless stated otherwise. t: a
 * temperature. Masses are sums of RN(e * 2^40). */

/* e[j] = e^(less[j] / t); returns the mass of all. */
KV_DEVICE int64_t kv_gpu_exp_over(int n, const float *less, float t, float *e) {
  int64_t mass = 0;
  for (int j = kv_thread(); j < n; j += KV_BLOCK) {
    e[j] = kv_expm(kv_div(less[j], t));
    mass += kv_fix(e[j]);
  }
  return kv_block_sum(mass);
}

/* The mass of the first k. */
KV_DEVICE int64_t kv_gpu_first_mass(int k, const float *e) {
  int64_t mass = 0;
  for (int j = kv_thread(); j < k; j += KV_BLOCK) mass += kv_fix(e[j]);
  return kv_block_sum(mass);
}

/* The length of the shortest prefix, at least 1, of a row that is sorted by
 * falling score, whose mass reaches the share p20 * 2^-20 of `all`. Here each
 * thread has neighbouring entries, so that one thread finds where the sum
 * reaches the target. */
KV_DEVICE int kv_gpu_sorted_prefix(int n, const float *e, int64_t all,
                                   int32_t p20) {
  int each = (n + KV_BLOCK - 1) / KV_BLOCK, first = kv_thread() * each;
  int end = first + each < n ? first + each : n;
  int64_t target = kv_share_of(all, p20), own = 0, total;
  uint32_t past = 0; /* entries beyond the prefix's last, from the other end */
  __syncthreads();
  for (int j = first; j < end; j++) own += kv_fix(e[j]);
  int64_t sum = kv_block_before(own, &total);
  for (int j = first; j < end && past == 0; j++) {
    sum += kv_fix(e[j]);
    if (sum >= target) past = (uint32_t)(n - j);
  }
  past = kv_block_max(past);
  return past ? n - (int)past + 1 : n;
}

/* The sum of RN(e * u * 2^40) over entries first..end-1, u = -less / t. */
KV_DEVICE int64_t kv_gpu_fallen(const float *less, int first, int end, float t,
                                const float *e) {
  int64_t sum = 0;
  for (int j = first + kv_thread(); j < end; j += KV_BLOCK)
    if (e[j] > 0) sum += kv_fix(kv_mul(e[j], kv_div(-less[j], t)));
  return kv_block_sum(sum);
}

/* The share of the first k at temperature t and, with rule
 * KV_CALIBRATE_GRADIENT, its slope. */
KV_DEVICE kv_prefix kv_gpu_look(int n, const float *less, int k, int rule,
                                float t, float *e) {
  float all = kv_unfix(kv_gpu_exp_over(n, less, t, e));
  kv_prefix p = {kv_div(kv_unfix(kv_gpu_first_mass(k, e)), all), 0};
  if (rule != KV_CALIBRATE_GRADIENT) return p;
  int64_t near = kv_gpu_fallen(less, 0, k, t, e);
  int64_t both = near + kv_gpu_fallen(less, k, n, t, e);
  p.slope = kv_prefix_slope(kv_div(kv_unfix(near), all),
                            kv_div(kv_unfix(both), all), p.mass, t);
  return p;
}

/* The temperature at which the first k hold the share `want`, by a rule
 * KV_CALIBRATE_x; 1 if k is the whole row, all scores are equal or the rule is
 * KV_CALIBRATE_NONE. */
KV_DEVICE float kv_gpu_calibrate(int n, const float *less, int k, float want,
                                 int rule, float *e) {
  kv_search s = kv_search_begin(rule);
  bool falls = false; /* bits are asked: nvcc makes min.f32 of floats' < */
  for (int j = kv_thread(); j < n; j += KV_BLOCK)
    falls |= kv_key(less[j]) < kv_key(-0.0f);
  bool more = kv_block_any(falls) && rule != KV_CALIBRATE_NONE && k < n;
  if (!more) s.t = 1.0f;
  while (more)
    more = kv_search_next(&s, kv_gpu_look(n, less, k, rule, s.t, e), want);
  return s.t;
}

/* A poll, in the hook's workspace. Arrays have a capacity of lane->n, and one
 * number for each entry of the poll unless stated otherwise. */
typedef struct kv_gpu_poll {
  int n;          /* entries of the poll */
  int32_t *entry; /* [n] their indexes in the lane, ascending */
  int32_t *votes; /* [n] */
  int64_t *mass;  /* [n] probabilities by g at T, summed over the queries */
  int64_t *share; /* [n] the same of S; nullptr unless o.shares */
  float *z, *g, *less, *e; /* rows of one query: logits; after the adapter;
                              minus the largest; exponentials */
  int32_t *order;          /* the places of `less`, by falling value */
  float *repeated;         /* [lane->n] redundancy by entry; for adapter rkv */
  const float *score; /* [lane->n] by entry; the caller's, for adapter score */
  kv_gpu_similar of;  /* for adapter rkv */
} kv_gpu_poll;

/* Takes its workspace and zeroes votes, mass and share. */
KV_DEVICE kv_gpu_poll kv_gpu_poll_open(kv_gpu_at &at, const kv_gpu_lane *lane,
                                       const kv_voters &o) {
  int n = lane->n;
  float *repeated = nullptr;
  kv_gpu_similar of = {nullptr, nullptr, nullptr};
  if (o.adapter == KV_ADAPT_RKV) {
    of = kv_gpu_take_similar(at);
    if (o.redundant == KV_REDUNDANT_READ)
      repeated = KV_GPU_TAKE(at, float, n); /* once entries are known */
    else
      repeated = kv_gpu_repeated(at, n, kv_voters_spare(&o), of);
  }
  kv_gpu_poll p = {n,
                   KV_GPU_TAKE(at, int32_t, n),
                   KV_GPU_TAKE(at, int32_t, n),
                   KV_GPU_TAKE(at, int64_t, n),
                   o.shares ? KV_GPU_TAKE(at, int64_t, n) : nullptr,
                   KV_GPU_TAKE(at, float, n),
                   KV_GPU_TAKE(at, float, n),
                   KV_GPU_TAKE(at, float, n),
                   KV_GPU_TAKE(at, float, n),
                   KV_GPU_TAKE(at, int32_t, n),
                   repeated,
                   nullptr,
                   of};
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    p.votes[i] = 0, p.mass[i] = 0;
    if (p.share) p.share[i] = 0;
  }
  __syncthreads();
  return p;
}

/* p.order and p.less: x[0..n) sorted by falling value, minus the largest. */
KV_DEVICE void kv_gpu_poll_sort(kv_gpu_at &at, const kv_gpu_poll &p,
                                const float *x, int n) {
  for (int i = kv_thread(); i < n; i += KV_BLOCK) p.order[i] = i;
  kv_gpu_order(at, x, n, p.order);
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    p.less[i] = kv_sub(x[p.order[i]], x[p.order[0]]);
  __syncthreads();
}

/* p.g of adapter rkv, from p.z. */
KV_DEVICE void kv_gpu_weigh_repeated(const kv_voters &o, const kv_gpu_poll &p,
                                     int n) {
  uint32_t most = 0;
  int64_t sum = 0;
  for (int i = kv_thread(); i < n; i += KV_BLOCK) p.g[i] = p.z[i];
  __syncthreads();
  kv_gpu_probabilities(n, p.g);
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    p.g[i] = kv_rkv_worth(&o, p.g[i], p.repeated[p.entry[i]]);
    uint32_t key = ~kv_key(p.g[i]);
    most = key > most ? key : most;
  }
  float least = kv_of_key(~kv_block_max(most));
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    p.g[i] = kv_sub(p.g[i], least);
    sum += kv_fix(p.g[i]);
  }
  float all = kv_unfix(kv_block_sum(sum));
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    float x = 0;
    if (all > 0) x = kv_div(p.g[i], all);
    p.g[i] = kv_log(kv_add(x, 1e-10f));
  }
  __syncthreads();
}

/* p.less: x[0..n) minus its largest, unsorted. */
KV_DEVICE void kv_gpu_poll_less(const kv_gpu_poll &p, const float *x, int n) {
  float most = kv_gpu_largest(x, n);
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    p.less[i] = kv_sub(x[i], most);
  __syncthreads();
}

/* The length of the shortest prefix of the sorted row p.e, of mass `all`, that
 * has the share o.p; with o.as_shipped also all entries whose score x equals
 * its last one's. */
KV_DEVICE int kv_gpu_poll_prefix(const kv_voters &o, const kv_gpu_poll &p,
                                 const float *x, int n, int64_t all) {
  int k = kv_gpu_sorted_prefix(n, p.e, all, o.p);
  uint32_t past = 0;
  if (!o.as_shipped) return k;
  uint32_t last = kv_key(x[p.order[k - 1]]);
  for (int j = k + kv_thread(); j < n; j += KV_BLOCK)
    if (kv_key(x[p.order[j]]) == last && (uint32_t)j + 1 > past) past = j + 1;
  past = kv_block_max(past);
  return past ? (int)past : k;
}

/* Finds T of a query by a rule, a KV_CALIBRATE_x; g: its scores. */
KV_DEVICE float kv_gpu_temperature(kv_gpu_at &at, const kv_voters &o,
                                   const kv_gpu_poll &p, int n, int rule,
                                   const float *g) {
  kv_gpu_poll_sort(at, p, p.z, n);
  int64_t all = kv_gpu_exp_over(n, p.less, 1.0f, p.e);
  int k = kv_gpu_poll_prefix(o, p, p.z, n, all);
  float want = kv_div(kv_unfix(kv_gpu_first_mass(k, p.e)), kv_unfix(all));
  if (o.as_shipped) {
    want = kv_mul((float)o.p, 0x1p-20f);
    kv_gpu_poll_less(p, g, n);
  } else {
    kv_gpu_poll_sort(at, p, g, n);
  }
  return kv_gpu_calibrate(n, p.less, k, want, rule, p.e);
}

/* T of a query. *kept: the last T at its place in the window, which may be
 * reused; becomes T. */
KV_DEVICE float kv_gpu_vote_at(kv_gpu_at &at, const kv_voters &o,
                               const kv_gpu_poll &p, int n, const float *g,
                               float *kept) {
  float t;
  int rule = kv_voters_rule(&o, &t);
  if (rule == KV_CALIBRATE_NONE) return t;
  t = *kept;
  if (kv_voters_search(&o, t)) t = kv_gpu_temperature(at, o, p, n, rule, g);
  __syncthreads();
  if (kv_thread() == 0) *kept = t;
  return t;
}

/* sum += the probabilities p.e / all of a row, which is sorted by p.order
 * (ordered) or unsorted. */
KV_DEVICE void kv_gpu_poll_add(const kv_gpu_poll &p, int n, int64_t all,
                               bool ordered, int64_t *sum) {
  float each = kv_div(1.0f, kv_unfix(all));
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    sum[ordered ? p.order[i] : i] += kv_fix(kv_mul(p.e[i], each));
  __syncthreads();
}

/* The query's scores after the adapter: p.z or p.g. */
KV_DEVICE const float *kv_gpu_adapt(const kv_voters &o, const kv_gpu_poll &p,
                                    int n) {
  if (o.adapter == KV_ADAPT_VANILLA) return p.z;
  if (o.adapter == KV_ADAPT_SNAPKV) kv_gpu_pool_max(p.z, n, o.kernel, p.g);
  if (o.adapter == KV_ADAPT_RKV) kv_gpu_weigh_repeated(o, p, n);
  if (o.adapter != KV_ADAPT_SCORE) return p.g;
  for (int i = kv_thread(); i < n; i += KV_BLOCK) p.g[i] = p.score[p.entry[i]];
  __syncthreads();
  return p.g;
}

/* Adds the votes of one query, whose p.z is set. */
KV_DEVICE void kv_gpu_vote(kv_gpu_at &at, const kv_voters &o,
                           const kv_gpu_poll &p, int n, float *kept) {
  const float *g = kv_gpu_adapt(o, p, n);
  if (p.share) {
    kv_gpu_poll_less(p, p.z, n);
    int64_t whole = kv_gpu_exp_over(n, p.less, 1.0f, p.e);
    kv_gpu_poll_add(p, n, whole, false, p.share);
  }
  float t = kv_gpu_vote_at(at, o, p, n, g, kept);
  kv_gpu_poll_sort(at, p, g, n);
  int64_t all = kv_gpu_exp_over(n, p.less, t, p.e);
  int k = kv_gpu_poll_prefix(o, p, g, n, all);
  for (int i = kv_thread(); i < k; i += KV_BLOCK) p.votes[p.order[i]]++;
  kv_gpu_poll_add(p, n, all, true, p.mass);
}

/* p.z of the query of `token`, q [query heads][d]; returns how many entries it
 * sees: those that are not younger, or all with o.as_shipped. */
KV_DEVICE int kv_gpu_vote_logits(const kv_gpu_at &at, const kv_gpu_lane *lane,
                                 const kv_voters &o, const kv_gpu_poll &p,
                                 int token, const float *q) {
  const kv_gpu_layer &l = *at.layer;
  int seen = 0;
  for (int i = kv_thread(); i < p.n; i += KV_BLOCK) {
    if (!o.as_shipped && (int)lane->id[p.entry[i]] > token) continue;
    kv_gpu_row key = kv_gpu_key_row(l, lane, p.entry[i]);
    float best = 0;
    for (int h = 0; h < lane->queries; h++) {
      float x =
          kv_gpu_key_logit(key, l.shape.d, q + (size_t)h * (size_t)l.shape.d,
                           l.shape.scale, l.shape.softcap);
      if (!kv_finite(x)) x = 0;
      best = h == 0 ? x : kv_max(best, x);
    }
    p.z[i] = best;
    seen++;
  }
  return kv_block_sum(seen);
}

/* The whole poll: the queries in ring [window][query heads][d] vote, the last
 * window tokens. temperature [window]: T of each place, kept by the method; 0:
 * none found yet. */
KV_DEVICE void kv_gpu_poll_ask(kv_gpu_at &at, const kv_gpu_lane *lane,
                               const kv_voters &o, const float *ring,
                               float *temperature, const kv_gpu_poll &p) {
  size_t row = (size_t)lane->queries * (size_t)at.layer->shape.d;
  if (o.adapter == KV_ADAPT_RKV && o.redundant == KV_REDUNDANT_READ)
    kv_gpu_repeated_among(at, p.n, p.entry, kv_voters_spare(&o), p.of, p.z,
                          p.repeated);
  for (int r = 0; r < o.window; r++) {
    int token = kv_ring_token(o.window, at.step, r);
    if (token < 0) continue;
    int n = kv_gpu_vote_logits(at, lane, o, p, token, ring + (size_t)r * row);
    if (n > 0) kv_gpu_vote(at, o, p, n, &temperature[r]);
  }
}

#endif

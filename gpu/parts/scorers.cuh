/* SPDX-License-Identifier: Apache-2.0
 *
 * Scorers on a device: the twin of ref/parts/scorers.c, which defines what each
 * scores. A method calls the functions of the last section; they call
 * kv_gpu_observe_x and kv_gpu_score_x of scorer x, which every scorer has:
 *
 *   kv_gpu_observe_x(at, lane, rows, o)            adds query rows to its
 *       state, in an observation that may have several blocks a lane
 *   kv_gpu_score_x(at, lane, o, first, n, out)     out[i] is the score of entry
 *       first + i, i < n; n >= 1; may take of the workspace
 *
 * All threads of the block call every function together with the same
 * arguments; those that score or compress end with a barrier.
 */
#ifndef KV_GPU_SCORERS_CUH
#define KV_GPU_SCORERS_CUH

#include "gpu/parts/parts.cuh"
#include "gpu/parts/parts_keys.cuh"

extern "C" {
#include "ref/parts/scorers.h"
}

/* --- knorm and keydiff ---------------------------------------------------- */

/* The scorers knorm and keydiff, by keys alone: the twins of those in
 * ref/methods/knorm.c and keydiff.c, called through gpu/parts/scorers.cuh,
 * which defines how a scorer is called. One thread computes an entry's chain,
 * and in the average key a channel of some entries, whose sums are integers. */

/* The observation of a scorer that needs no rows. */
#define KV_GPU_BLIND(x)                                                        \
  KV_DEVICE void kv_gpu_observe_##x(kv_gpu_at &, kv_gpu_lane *,                \
                                    const kv_gpu_rows &,                       \
                                    const kv_score_options *) {}

KV_GPU_BLIND(knorm)
KV_GPU_BLIND(keydiff)
KV_GPU_BLIND(lagkv)

/* Minus the squared length of the key. */
KV_DEVICE void kv_gpu_score_knorm(kv_gpu_at &at, const kv_gpu_lane *lane,
                                  const kv_score_options *, int first, int n,
                                  float *out) {
  const kv_gpu_layer &l = *at.layer;
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    out[i] = -kv_gpu_square(kv_gpu_key_row(l, lane, first + i), l.shape.d);
  __syncthreads();
}

/* part[p][x] = the sum over entries p, p + parts, .. of element x of their keys
 * divided by their lengths norm [lane->n], in fixed point. */
KV_DEVICE void kv_average_parts(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                                int parts, const float *norm, int64_t *part) {
  int d = l.shape.d;
  for (int c = kv_thread(); c < parts * d; c += KV_BLOCK) {
    int64_t sum = 0;
    for (int i = c / d; i < lane->n; i += parts)
      sum += kv_fix(
          kv_div(kv_gpu_key(l, lane, i, c % d), kv_max(norm[i], 1e-12f)));
    part[c] = sum;
  }
  __syncthreads();
}

/* norm [lane->n]: the keys' lengths; anchor [d]: the mean of the keys divided
 * by them. */
KV_DEVICE void kv_average_key(kv_gpu_at &at, const kv_gpu_lane *lane,
                              float *norm, float *anchor) {
  const kv_gpu_layer &l = *at.layer;
  int d = l.shape.d, parts = d < KV_BLOCK ? KV_BLOCK / d : 1;
  int64_t *part = KV_GPU_TAKE(at, int64_t, parts * d);
  for (int i = kv_thread(); i < lane->n; i += KV_BLOCK)
    norm[i] = kv_sqrt(kv_gpu_square(kv_gpu_key_row(l, lane, i), d));
  __syncthreads();
  kv_average_parts(l, lane, parts, norm, part);
  for (int x = kv_thread(); x < d; x += KV_BLOCK) {
    int64_t sum = 0;
    for (int p = 0; p < parts; p++) sum += part[p * d + x];
    anchor[x] = kv_div(kv_unfix(sum), (float)lane->n);
  }
  __syncthreads();
}

/* Minus the cosine of the key with the mean direction of all keys of the lane.
 */
KV_DEVICE void kv_gpu_score_keydiff(kv_gpu_at &at, const kv_gpu_lane *lane,
                                    const kv_score_options *, int first, int n,
                                    float *out) {
  const kv_gpu_layer &l = *at.layer;
  int d = l.shape.d;
  float *norm = KV_GPU_TAKE(at, float, lane->n);
  float *anchor = KV_GPU_TAKE(at, float, d);
  kv_average_key(at, lane, norm, anchor);
  float length = kv_sqrt(kv_gpu_dot(anchor, anchor, d));
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    float both = kv_max(kv_mul(norm[first + i], length), 1e-8f);
    float dot = kv_gpu_row_dot(kv_gpu_key_row(l, lane, first + i), anchor, d);
    out[i] = kv_sub(0.0f, kv_div(dot, both));
  }
  __syncthreads();
}

/* --- lagkv ---------------------------------------------------------------- */

/* The scorer lagkv, LagKV's: the twin of that in ref/methods/lagkv.c, called
 * through gpu/parts/scorers.cuh. Partitions of `lag` entries are scored in
 * order, each normalised by the bounds of the next one. One thread computes a
 * channel's bounds, then an entry's deviation. All threads of the block call
 * functions with `lane` together, which end with a barrier; one thread calls
 * the others. */

/* kv_gpu_key_row or kv_gpu_value_row: the side. */
typedef kv_gpu_row kv_gpu_row_of(const kv_gpu_layer &, const kv_gpu_lane *,
                                 int);

/* lo, hi [width]: the least and largest of each element of the rows of entries
 * [first, first + lag). */
template <kv_gpu_row_of row>
KV_DEVICE void kv_lag_bounds(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                             int width, int first, int lag, float *lo,
                             float *hi) {
  for (int x = kv_thread(); x < width; x += KV_BLOCK) {
    float low = kv_gpu_element(row(l, lane, first), x), high = low;
    for (int i = 1; i < lag; i++) {
      float y = kv_gpu_element(row(l, lane, first + i), x);
      low = kv_min(low, y);
      high = kv_max(high, y);
    }
    lo[x] = low;
    hi[x] = high;
  }
  __syncthreads();
}

/* The place of x between its element's bounds, 0 to 1; 0 if they are equal. */
KV_DEVICE float kv_lag_relative(float x, float lo, float hi) {
  float range = kv_sub(hi, lo);
  return range > 0 ? kv_div(kv_sub(x, lo), range) : 0.0f;
}

/* The standard deviation of these numbers over the elements of a row. */
KV_DEVICE float kv_lag_deviation(const kv_gpu_row &row, int width,
                                 const float *lo, const float *hi) {
  float mean = 0, acc = 0;
  for (int x = 0; x < width; x++)
    mean = kv_add(mean, kv_lag_relative(kv_gpu_element(row, x), lo[x], hi[x]));
  mean = kv_div(mean, (float)width);
  for (int x = 0; x < width; x++) {
    float u = kv_lag_relative(kv_gpu_element(row, x), lo[x], hi[x]);
    float t = kv_sub(u, mean);
    acc = kv_fma(t, t, acc);
  }
  return kv_sqrt(kv_div(acc, (float)(width > 1 ? width - 1 : 1)));
}

/* p [lag]: the deviations of entries first.., by the bounds of the `lag`
 * entries after them, as probabilities; lo, hi [width]: scratch. */
template <kv_gpu_row_of row>
KV_DEVICE void kv_lag_shares(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                             int width, int first, int lag, float *lo,
                             float *hi, float *p) {
  kv_lag_bounds<row>(l, lane, width, first + lag, lag, lo, hi);
  for (int i = kv_thread(); i < lag; i += KV_BLOCK)
    p[i] = kv_score_finite(
        kv_lag_deviation(row(l, lane, first + i), width, lo, hi));
  kv_gpu_probabilities(lag, p);
}

/* How many of the partition's scores rank behind score[i]. */
KV_DEVICE float kv_lag_rank(const float *score, int lag, int i) {
  int behind = 0;
  for (int j = 0; j < lag; j++) {
    uint32_t a = kv_key(score[j]), b = kv_key(score[i]);
    behind += a < b || (a == b && j > i);
  }
  return (float)behind;
}

/* The mean of both sides' probabilities (cross=yes), or its rank in the
 * partition; n is a multiple of o->lag. */
KV_DEVICE void kv_gpu_score_lagkv(kv_gpu_at &at, const kv_gpu_lane *lane,
                                  const kv_score_options *o, int first, int n,
                                  float *out) {
  const kv_gpu_layer &l = *at.layer;
  int d = l.shape.d, d_v = l.shape.d_v, lag = o->lag, wide = d > d_v ? d : d_v;
  float *lo = KV_GPU_TAKE(at, float, wide), *hi = KV_GPU_TAKE(at, float, wide);
  float *p = KV_GPU_TAKE(at, float, lag), *sum = KV_GPU_TAKE(at, float, lag);
  for (int a = 0; a < n; a += lag) {
    kv_lag_shares<kv_gpu_key_row>(l, lane, d, first + a, lag, lo, hi, sum);
    kv_lag_shares<kv_gpu_value_row>(l, lane, d_v, first + a, lag, lo, hi, p);
    for (int i = kv_thread(); i < lag; i += KV_BLOCK)
      sum[i] = kv_mul(kv_add(sum[i], p[i]), 0.5f);
    __syncthreads();
    for (int i = kv_thread(); i < lag; i += KV_BLOCK)
      out[a + i] = o->cross == KV_CROSS_YES ? sum[i] : kv_lag_rank(sum, lag, i);
    __syncthreads();
  }
}

/* --- expected ------------------------------------------------------------- */

/* The scorer expected, of Expected Attention: the twin of that in
 * ref/methods/expected.c, called through gpu/parts/scorers.cuh. Mean and
 * covariance of the queries seen, rotated back to no position, give the
 * distribution of future queries, and entries are scored by the attention
 * expected from these. One thread computes some chains (i, j) of the sums, and
 * the scores of an entry. Functions that return nothing are called by all
 * threads of the block together and end with a barrier; those that return a
 * float by any one thread. d: elements of a key. */

/* Rows after which the chains of `part` are added to `all` and begin anew. */
enum { KV_EXPECTED_FOLD = 64 };

/* Of one query head, in the lane's state. Rows are differences from the pivot.
 */
typedef struct kv_expected_sums {
  float *pivot;      /* [d] the first row that was seen */
  float *part, *all; /* [d + 1][d] sums of products of elements i and j of a
                        row; in row d the sums of elements j */
} kv_expected_sums;

/* Those of a head of the lane, by any thread. The state begins with the number
 * of rows seen, an int32_t in the space of 16 floats. */
KV_DEVICE kv_expected_sums kv_expected_of(const kv_gpu_at &at,
                                          const kv_gpu_lane *lane, int head) {
  size_t d = (size_t)at.layer->shape.d, n = (d + 1) * d;
  float *own = (float *)kv_gpu_own(at, lane) + 16 + (size_t)head * (d + 2 * n);
  kv_expected_sums s = {own, own + d, own + d + n};
  return s;
}

/* Element x of row [d], whose elements are `stride` floats apart, rotated by sc
 * [d], sine and cosine of each pair. */
KV_DEVICE float kv_expected_forth(const kv_gpu_layer &l, const float *row,
                                  const float *sc, int x, size_t stride) {
  kv_gpu_pair p = kv_gpu_pair_of(kv_gpu_turned_of(l), l.shape.d, x);
  return kv_gpu_forth(p, sc, x, row[(size_t)p.first * stride],
                      row[(size_t)p.second * stride]);
}

/* Element x of a query row [d] of token t, rotated back from its position. */
KV_DEVICE float kv_expected_back(const kv_gpu_layer &l, const float *row,
                                 uint32_t t, int x) {
  const float *sc = kv_gpu_turn_of(l, t);
  if (!sc) return row[x];
  kv_gpu_pair p = kv_gpu_pair_of(kv_gpu_turned_of(l), l.shape.d, x);
  return kv_gpu_back(p, sc, x, row[p.first], row[p.second]);
}

/* --- rows ----------------------------------------------------------------- */

/* Adds `part` to `all` and empties it. */
KV_DEVICE void kv_expected_fold(const kv_expected_sums &s, int d) {
  for (int c = kv_thread(); c < (d + 1) * d; c += KV_BLOCK) {
    s.all[c] = kv_add(s.all[c], s.part[c]);
    s.part[c] = 0;
  }
  __syncthreads();
}

/* y [n][d]: query rows r .. r + n - 1 of head h, rotated back, as differences
 * from the pivot; begins: row r becomes the pivot first. */
KV_DEVICE void kv_expected_rows(const kv_gpu_layer &l, const kv_gpu_rows &rows,
                                int h, int r, int n, bool begins,
                                const kv_expected_sums &s, float *y) {
  int d = l.shape.d;
  const float *q =
      rows.q + ((size_t)r * (size_t)rows.places + (size_t)h) * (size_t)d;
  uint32_t t = (uint32_t)(rows.first + r);
  for (int x = kv_thread(); begins && x < d; x += KV_BLOCK)
    s.pivot[x] = kv_expected_back(l, q, t, x);
  __syncthreads();
  for (int c = kv_thread(); c < n * d; c += KV_BLOCK) {
    const float *row = q + (size_t)(c / d) * (size_t)(rows.places * d);
    float back = kv_expected_back(l, row, t + (uint32_t)(c / d), c % d);
    y[c] = kv_sub(back, s.pivot[c % d]);
  }
  __syncthreads();
}

/* Continues the chains of part over y [n][d]. */
KV_DEVICE void kv_expected_chains(const float *y, int n, int d, float *part) {
  for (int c = kv_thread(); c < (d + 1) * d; c += KV_BLOCK) {
    int i = c / d, j = c % d;
    float acc = part[c];
    for (int r = 0; r < n; r++)
      acc = kv_fma(i < d ? y[r * d + i] : 1.0f, y[r * d + j], acc);
    part[c] = acc;
  }
  __syncthreads();
}

/* Adds the rows after the sinks. Only the first of a lane's blocks works; the
 * others return at once. */
KV_DEVICE void kv_gpu_observe_expected(kv_gpu_at &at, kv_gpu_lane *lane,
                                       const kv_gpu_rows &rows,
                                       const kv_score_options *o) {
  int32_t *seen = (int32_t *)kv_gpu_own(at, lane);
  int d = at.layer->shape.d, r = o->sinks - rows.first, n;
  if (blockIdx.y > 0) return;
  for (r = r > 0 ? r : 0; r < rows.rows; r += n) {
    int before = *seen;
    n = KV_EXPECTED_FOLD - before % KV_EXPECTED_FOLD;
    if (n > rows.rows - r) n = rows.rows - r;
    size_t used = at.used;
    float *y = KV_GPU_TAKE(at, float, n *d);
    for (int h = 0; h < rows.heads; h++) {
      kv_expected_sums s = kv_expected_of(at, lane, h);
      kv_expected_rows(*at.layer, rows, h, r, n, before == 0, s, y);
      kv_expected_chains(y, n, d, s.part);
      if ((before + n) % KV_EXPECTED_FOLD == 0) kv_expected_fold(s, d);
    }
    __syncthreads();
    if (kv_thread() == 0) *seen = before + n;
    __syncthreads();
    at.used = used;
  }
}

/* --- the distribution ----------------------------------------------------- */

/* sc [d]: sine and cosine of each pair at the position of future queries: the
 * last token's, plus needs.ahead. */
KV_DEVICE void kv_expected_rotation(const kv_gpu_at &at, float *sc) {
  const kv_gpu_layer &l = *at.layer;
  size_t d = (size_t)l.shape.d;
  const float *now = l.turns + (size_t)(at.step - 1) * d;
  const float *next = l.turns + (size_t)l.shape.n_tokens * d;
  for (int i = 2 * kv_thread(); i + 1 < (int)d; i += 2 * KV_BLOCK) {
    float s1 = now[i], c1 = now[i + 1], s2 = next[i], c2 = next[i + 1];
    sc[i] = kv_fma(c1, s2, kv_mul(s1, c2));
    sc[i + 1] = kv_fma(-s1, s2, kv_mul(c1, c2));
  }
  __syncthreads();
}

/* c [d][d]: the covariance of a head's future queries. rows: how many were
 * seen; sc: their rotation; m [d]: the mean of the differences; half [d][d]:
 * scratch. */
KV_DEVICE void kv_expected_spread(const kv_gpu_layer &l,
                                  const kv_expected_sums &s, float rows,
                                  const float *sc, const float *m, float *half,
                                  float *c) {
  int d = l.shape.d;
  for (int e = kv_thread(); e < d * d; e += KV_BLOCK)
    c[e] = kv_fma(-m[e / d], m[e % d], kv_div(s.all[e], rows));
  __syncthreads();
  for (int e = kv_thread(); e < d * d; e += KV_BLOCK)
    half[e] = kv_expected_forth(l, c + e / d * d, sc, e % d, 1);
  __syncthreads();
  for (int e = kv_thread(); e < d * d; e += KV_BLOCK)
    c[e] = kv_expected_forth(l, half + e % d, sc, e / d, (size_t)d);
  __syncthreads();
}

/* What a head's scores read, in the hook's workspace. */
typedef struct kv_expected_room {
  float *sc;               /* [d] rotation of future queries */
  float *m, *plain, *mean; /* [d] mean of the differences; of the rows; of
                              future queries */
  float *half, *c;         /* [d][d] scratch; covariance of these */
} kv_expected_room;

/* Fills in all of w except sc for a head of the lane; half and c only with
 * covariance. First adds the head's `part` to its `all`. */
KV_DEVICE void kv_expected_head(kv_gpu_at &at, const kv_gpu_lane *lane,
                                int head, const kv_score_options *o,
                                const kv_expected_room &w) {
  const kv_gpu_layer &l = *at.layer;
  int d = l.shape.d;
  kv_expected_sums s = kv_expected_of(at, lane, head);
  float rows = (float)*(const int32_t *)kv_gpu_own(at, lane);
  kv_expected_fold(s, d);
  for (int j = kv_thread(); j < d; j += KV_BLOCK) {
    w.m[j] = kv_div(s.all[d * d + j], rows);
    w.plain[j] = kv_add(s.pivot[j], w.m[j]);
  }
  __syncthreads();
  for (int j = kv_thread(); j < d; j += KV_BLOCK)
    w.mean[j] = kv_expected_forth(l, w.plain, w.sc, j, 1);
  __syncthreads();
  if (o->covariance == KV_TERM_YES)
    kv_expected_spread(l, s, rows, w.sc, w.m, w.half, w.c);
}

/* --- scores --------------------------------------------------------------- */

/* The logarithm of the attention expected of a key. */
KV_DEVICE float kv_expected_score(const kv_gpu_layer &l, const kv_gpu_row &key,
                                  bool covariance, const kv_expected_room &w) {
  int d = l.shape.d;
  float scale = l.shape.scale, acc = 0;
  float s = kv_mul(kv_add(kv_gpu_row_dot(key, w.mean, d), 0.0f), scale);
  if (!covariance) return s;
  for (int i = 0; i < d; i++) {
    float u = kv_add(kv_gpu_row_dot(key, w.c + (size_t)i * (size_t)d, d), 0.0f);
    acc = kv_fma(kv_gpu_element(key, i), u, acc);
  }
  return kv_add(s, kv_mul(kv_mul(acc, scale), kv_mul(scale, 0.5f)));
}

/* Takes the room of the workspace; by all threads, without a barrier. */
KV_DEVICE kv_expected_room kv_expected_take(kv_gpu_at &at) {
  int d = at.layer->shape.d;
  kv_expected_room w;
  w.sc = KV_GPU_TAKE(at, float, d);
  w.m = KV_GPU_TAKE(at, float, d);
  w.plain = KV_GPU_TAKE(at, float, d);
  w.mean = KV_GPU_TAKE(at, float, d);
  w.half = KV_GPU_TAKE(at, float, d *d);
  w.c = KV_GPU_TAKE(at, float, d *d);
  return w;
}

/* The score of entry i by its expected probability p, and with vnorm by the
 * length of its value. */
KV_DEVICE float kv_expected_weighed(const kv_gpu_layer &l,
                                    const kv_gpu_lane *lane, int i, float p,
                                    const kv_score_options *o) {
  if (o->vnorm == KV_TERM_NO) return p;
  float length =
      kv_sqrt(kv_gpu_square(kv_gpu_value_row(l, lane, i), l.shape.d_v));
  return kv_mul(kv_add(p, o->epsilon), length);
}

/* The mean over the lane's query heads of kv_expected_weighed. */
KV_DEVICE void kv_gpu_score_expected(kv_gpu_at &at, const kv_gpu_lane *lane,
                                     const kv_score_options *o, int first,
                                     int n, float *out) {
  const kv_gpu_layer &l = *at.layer;
  bool covariance = o->covariance == KV_TERM_YES;
  kv_expected_room w = kv_expected_take(at);
  float *s = KV_GPU_TAKE(at, float, n);
  int64_t *sum = KV_GPU_TAKE(at, int64_t, n);
  kv_expected_rotation(at, w.sc);
  for (int h = 0; h < lane->queries; h++) {
    kv_expected_head(at, lane, h, o, w);
    for (int i = kv_thread(); i < n; i += KV_BLOCK) {
      kv_gpu_row key = kv_gpu_key_row(l, lane, first + i);
      float expected = kv_expected_score(l, key, covariance, w);
      s[i] = kv_score_finite(kv_add(expected, 0.0f));
    }
    kv_gpu_probabilities(n, s);
    for (int i = kv_thread(); i < n; i += KV_BLOCK)
      sum[i] = (h ? sum[i] : 0) + kv_fix(s[i]);
  }
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    float p = kv_div(kv_unfix(sum[i]), (float)lane->queries);
    out[i] = kv_expected_weighed(l, lane, first + i, p, o);
  }
  __syncthreads();
}

/* --- by attention: ref/parts/scorers.c ------------------------- */

KV_DEVICE void kv_gpu_observe_snapkv(kv_gpu_at &at, kv_gpu_lane *lane,
                                     const kv_gpu_rows &rows,
                                     const kv_score_options *o) {
  kv_gpu_window_add(at, lane, rows, o->w.group);
}
KV_DEVICE void kv_gpu_score_snapkv(kv_gpu_at &at, const kv_gpu_lane *lane,
                                   const kv_score_options *o, int first, int n,
                                   float *out) {
  kv_gpu_window_score_from(at, lane, o->w.group, o->w.pooling, o->w.kernel,
                           first, n, out);
}
KV_DEVICE void kv_gpu_observe_h2o(kv_gpu_at &at, kv_gpu_lane *lane,
                                  const kv_gpu_rows &rows,
                                  const kv_score_options *o) {
  kv_gpu_window_add(at, lane, rows, o->w.group);
}
KV_DEVICE void kv_gpu_score_h2o(kv_gpu_at &at, const kv_gpu_lane *lane,
                                const kv_score_options *o, int first, int n,
                                float *out) {
  kv_gpu_window_score_from(at, lane, o->w.group, KV_POOL_NONE, 1, first, n,
                           out);
}

/* The last row alone. */
KV_DEVICE void kv_gpu_observe_tova(kv_gpu_at &at, kv_gpu_lane *lane,
                                   const kv_gpu_rows &rows,
                                   const kv_score_options *o) {
  int64_t *own = (int64_t *)kv_gpu_own(at, lane);
  size_t tokens = (size_t)at.layer->shape.n_tokens;
  const float *p =
      rows.p + (size_t)(rows.rows - 1) * (size_t)rows.places * rows.stride;
  bool apart = o->w.group == KV_GROUP_MAX;
  for (int i = kv_gpu_first_entry(); i < rows.entries; i += kv_gpu_next_entry())
    for (int h = 0; h < rows.heads; h++) {
      int64_t *sum = &own[apart ? (size_t)h * tokens + (size_t)i : (size_t)i];
      int64_t more = kv_fix(p[(size_t)h * rows.stride + (size_t)i]);
      *sum = h == 0 || apart ? more : *sum + more;
    }
}
KV_DEVICE void kv_gpu_score_tova(kv_gpu_at &at, const kv_gpu_lane *lane,
                                 const kv_score_options *o, int first, int n,
                                 float *out) {
  kv_gpu_window_score_from(at, lane, o->w.group, KV_POOL_NONE, 1, first, n,
                           out);
}

/* --- of a file: ref/parts/scorers.c ------------------------------------ */

KV_GPU_BLIND(file)
KV_DEVICE void kv_gpu_score_file(kv_gpu_at &at, const kv_gpu_lane *lane,
                                 const kv_score_options *o, int first, int n,
                                 float *out) {
  const kv_tensor *t = &at.asset[o->tensor];
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    out[i] = kv_score_of(t, lane->kv_head, lane->id[first + i]);
  __syncthreads();
}

/* --- all of them ---------------------------------------------------------- */

/* observe, which kv_on_observe_entries may start: the scorer sees the rows that
 * its options say. */
KV_DEVICE void kv_gpu_score_observe(kv_gpu_at &at, kv_gpu_lane *lane,
                                    const kv_gpu_rows &rows,
                                    const kv_score_options *o) {
  bool prompt = rows.first < at.layer->shape.prompt_len;
  if (!prompt && kv_steps_left(&at.layer->shape, at.step, o->every) >= o->rows)
    return;
  switch (o->score) {
#define KV_GPU_OBSERVE(x)                                                      \
case KV_SCORE_##x:                                                             \
  kv_gpu_observe_##x(at, lane, rows, o);                                       \
  break;
    KV_SCORERS(KV_GPU_OBSERVE)
  }
}

/* The scores [n] of entries first .., n >= 1, in the hook's workspace; one that
 * is not finite is -FLT_MAX. A method with one scorer names it as ONLY, so that
 * its file contains no other. */
template <int ONLY = KV_SCORES>
static __device__ float *kv_gpu_score(kv_gpu_at &at, const kv_gpu_lane *lane,
                                      const kv_score_options *o, int first,
                                      int n) {
  float *score = KV_GPU_TAKE(at, float, n);
  size_t used = at.used;
  switch (ONLY < KV_SCORES ? ONLY : o->score) {
#define KV_GPU_SCORE(x)                                                        \
case KV_SCORE_##x:                                                             \
  kv_gpu_score_##x(at, lane, o, first, n, score);                              \
  break;
    KV_SCORERS(KV_GPU_SCORE)
  }
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    score[i] = kv_score_finite(score[i]);
  __syncthreads();
  at.used = used;
  return score;
}

/* At the end of a compression: zeroes the scorer's state, so that observation
 * begins anew. */
KV_DEVICE void kv_gpu_score_forget(kv_gpu_at &at, kv_gpu_lane *lane,
                                   const kv_score_options *o) {
  uint32_t *own = (uint32_t *)kv_gpu_own(at, lane);
  for (size_t i = (size_t)kv_thread(); i < o->state / 4; i += KV_BLOCK)
    own[i] = 0;
  __syncthreads();
}

/* keep[i] is put out where score[i] is below the threshold, i < n. */
KV_DEVICE void kv_gpu_score_floor(const float *score, int n, float threshold,
                                  uint8_t *keep) {
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    keep[i] &= (uint8_t)kv_score_stays(score[i], threshold);
  __syncthreads();
}

/* kv_score_keep. */
template <int ONLY = KV_SCORES>
static __device__ void kv_gpu_score_keep(kv_gpu_at &at, kv_gpu_lane *lane,
                                         int past, float threshold,
                                         const kv_score_options *o) {
  int first, n = kv_score_span(o, lane->n, &first);
  if (n <= 0 || !kv_score_over(n, past, threshold)) return;
  uint8_t *keep = KV_GPU_TAKE(at, uint8_t, lane->n);
  kv_gpu_flag_all(keep, lane->n, true);
  __syncthreads();
  const float *score = kv_gpu_score<ONLY>(at, lane, o, first, n);
  kv_gpu_top(at, score, n, past, keep + first);
  kv_gpu_score_floor(score, n, threshold, keep + first);
  kv_gpu_keep_mask(at, lane, keep);
}

/* kv_score_compress. */
template <int ONLY = KV_SCORES>
static __device__ void kv_gpu_score_compress(kv_gpu_at &at, kv_gpu_lane *lane,
                                             int budget, float threshold,
                                             const kv_score_options *o) {
  if (kv_score_compresses(o, &at.layer->shape, at.step) &&
      kv_score_over(lane->n, budget, threshold))
    kv_gpu_score_keep<ONLY>(at, lane, kv_score_past(o, lane->n, budget),
                            threshold, o);
  kv_gpu_score_forget(at, lane, o);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The scorer expected, of Expected Attention: the twin of
 * that in ref/methods/expected.c, called through gpu/parts/scorers.cuh. Mean
 * and covariance of the queries that were seen, rotated back to no position,
 * give the distribution of the queries to come, and entries are scored by the
 * attention that these are expected to pay. Of the sums a thread has some
 * chains (i, j) to itself; of the scores an entry. What returns nothing is
 * called by all threads of the block together and ends with a barrier; what
 * returns a float is any one thread's. d: elements of a key.
 */
#ifndef KV_GPU_SCORE_EXPECTED_CUH
#define KV_GPU_SCORE_EXPECTED_CUH

#include "gpu/parts/parts_keys.cuh"

extern "C" {
#include "ref/parts/scorers.h"
}

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
 * of rows seen, an int32_t, in 16 floats' room. */
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

/* The chains of part go on over y [n][d]. */
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

/* Adds what rows are behind the sinks. Only the first of a lane's blocks works,
 * the others return at once. */
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

/* sc [d]: sine and cosine of each pair at the position of the queries to come:
 * the last token's, plus needs.ahead. */
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

/* c [d][d]: the covariance of a head's queries to come. rows: how many were
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
  float *sc;               /* [d] rotation of the queries to come */
  float *m, *plain, *mean; /* [d] mean of the differences; of the rows; of the
                              queries to come */
  float *half, *c;         /* [d][d] scratch; covariance of these */
} kv_expected_room;

/* Fills in all of w but sc for a head of the lane; half and c only with
 * covariance. Adds the head's `part` to its `all` before. */
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

/* The mean over the lane's query heads of the expected probabilities, as
 * kv_expected_weighed has it. */
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

#endif

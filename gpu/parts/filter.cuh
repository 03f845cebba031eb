/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that choose tokens for the layers below them, as in
 * ref/parts/filter.h: a choosing layer calls kv_gpu_vote_best in observe and
 * kv_gpu_choose_tokens in publish, a following one kv_gpu_view_chosen in view.
 * All threads of the block call each together with the same arguments; each
 * ends with a barrier.
 */
#ifndef KV_GPU_FILTER_CUH
#define KV_GPU_FILTER_CUH

#include "gpu/parts/parts_keys.cuh"
#include "ref/parts/filter.h"

/* best[i] = the largest value of entry first + i, i < n, over the queries q
 * [lane->queries][d]; vote, a kv_vote, defines the value. */
KV_DEVICE void kv_gpu_vote_best(kv_gpu_at &at, const kv_gpu_lane *lane,
                                const float *q, int vote, int first, int n,
                                float *best) {
  const kv_shape &s = at.layer->shape;
  size_t used = at.used;
  float *x = KV_GPU_TAKE(at, float, n);
  for (int h = 0; h < lane->queries; h++) {
    kv_gpu_key_logits(at, lane, q + (size_t)h * (size_t)s.d, first, n,
                      vote == KV_VOTE_DOT ? 1 : s.scale,
                      vote == KV_VOTE_DOT ? 0 : s.softcap, x);
    if (vote == KV_VOTE_PROB) kv_gpu_probabilities(n, x);
    for (int i = kv_thread(); i < n; i += KV_BLOCK)
      best[i] = h ? kv_max(best[i], x[i]) : x[i];
    __syncthreads();
  }
  at.used = used;
}

/* x[i] = the probability of entry first + i among these n entries, for the
 * query q [d]. */
KV_DEVICE void kv_gpu_shares(kv_gpu_at &at, const kv_gpu_lane *lane,
                             const float *q, int first, int n, float *x) {
  const kv_shape &s = at.layer->shape;
  kv_gpu_key_logits(at, lane, q, first, n, s.scale, s.softcap, x);
  kv_gpu_probabilities(n, x);
}

/* Adds a row's probabilities to the sums [queries][n] of a chunk. */
KV_DEVICE void kv_gpu_chunk_shares(kv_gpu_at &at, const kv_gpu_lane *lane,
                                   const float *q, int first, int n,
                                   int64_t *sum) {
  size_t used = at.used;
  float *x = KV_GPU_TAKE(at, float, n);
  for (int h = 0; h < lane->queries; h++) {
    kv_gpu_shares(at, lane, q + (size_t)h * (size_t)at.layer->shape.d, first, n,
                  x);
    for (int i = kv_thread(); i < n; i += KV_BLOCK)
      sum[(size_t)h * (size_t)n + (size_t)i] += kv_fix(x[i]);
    __syncthreads();
  }
  at.used = used;
}

/* best[n] of a chunk of `rows` rows, from its sums. */
KV_DEVICE void kv_gpu_chunk_best(kv_gpu_at &at, const kv_gpu_lane *lane,
                                 int vote, int first, int n, int rows,
                                 const void *sum, float *best) {
  const int64_t *share = (const int64_t *)sum;
  if (vote != KV_VOTE_PROB) {
    int each = lane->queries * at.layer->shape.d;
    size_t used = at.used;
    float *mean = KV_GPU_TAKE(at, float, each);
    for (int j = kv_thread(); j < each; j += KV_BLOCK)
      mean[j] = kv_div(((const float *)sum)[j], (float)rows);
    __syncthreads();
    kv_gpu_vote_best(at, lane, mean, vote, first, n, best);
    at.used = used;
    return;
  }
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    int64_t most = share[i];
    for (int h = 1; h < lane->queries; h++) {
      int64_t x = share[(size_t)h * (size_t)n + (size_t)i];
      most = x > most ? x : most;
    }
    best[i] = kv_unfix(most);
  }
  __syncthreads();
}

/* As kv_chunk_vote of ref/parts/filter.h. */
KV_DEVICE void kv_gpu_chunk_vote(kv_gpu_at &at, const kv_gpu_lane *lane,
                                 const kv_gpu_rows &rows, int vote, int first,
                                 int n, void *sum, float *best) {
  int begin = kv_chunk_first(&at.layer->shape, at.step), d = at.layer->shape.d;
  int each = lane->queries * d,
      all = vote == KV_VOTE_PROB ? n * lane->queries : each;
  int64_t *share = (int64_t *)sum;
  float *q = (float *)sum;
  for (int j = kv_thread(); rows.first == begin && j < all; j += KV_BLOCK)
    if (vote == KV_VOTE_PROB)
      share[j] = 0;
    else
      q[j] = 0;
  __syncthreads();
  for (int r = 0; r < rows.rows && n > 0; r++) {
    const float *row = rows.q + (size_t)r * (size_t)rows.places * (size_t)d;
    if (vote == KV_VOTE_PROB)
      kv_gpu_chunk_shares(at, lane, row, first, n, share);
    for (int j = kv_thread(); vote != KV_VOTE_PROB && j < each; j += KV_BLOCK)
      q[j] = kv_add(q[j], row[j]);
  }
  __syncthreads();
  if (rows.first + rows.rows == at.step && n > 0)
    kv_gpu_chunk_best(at, lane, vote, first, n, at.step - begin, sum, best);
}

/* Fills in the message: it names the k tokens of largest score [n] among tokens
 * first .. first + n - 1, and all outside of these below at.step. A thread
 * makes 64 tokens of it at a time. */
KV_DEVICE void kv_gpu_choose_tokens(kv_gpu_at &at, const float *score,
                                    int first, int n, int k, kv_chosen *out) {
  uint8_t *keep = KV_GPU_TAKE(at, uint8_t, n);
  if (n) kv_gpu_top(at, score, n, k, keep);
  if (kv_thread() == 0) {
    out->step = at.step;
    out->tokens = at.step - n + (k < n ? k : n);
  }
  for (int w = kv_thread(); w * 64 < at.step; w += KV_BLOCK) {
    uint64_t word = 0;
    for (int t = w * 64; t < w * 64 + 64 && t < at.step; t++)
      if (t < first || t >= first + n || keep[t - first])
        word |= (uint64_t)1 << t % 64;
    out->attended[w] = word;
  }
  __syncthreads();
}

/* mask[i] = 1 for the entries whose tokens the message names; m null: all. */
KV_DEVICE void kv_gpu_view_chosen(const kv_gpu_lane *lane, const kv_chosen *m,
                                  uint8_t *mask) {
  for (int i = kv_thread(); i < lane->n; i += KV_BLOCK)
    mask[i] = !m || kv_is_chosen(m, lane->id[i]);
  __syncthreads();
}

#endif

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

/* best[i] = the largest value, over the queries q [lane->queries][d], that
 * entry first + i has, i < n; vote, a kv_vote, says what a value is. */
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

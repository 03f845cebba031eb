/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores, as in ref/parts/parts.h: from sums of probabilities in fixed point
 * (times 2^40, so that no order changes them), pooling, the observation
 * window's sums; and the ways of keeping that most evicting methods share. All
 * threads of the block call every function together with the same arguments,
 * unless it is said to be any thread's, and it ends with a barrier, so results
 * may be read at once. Each entry is computed by one thread, with the
 * reference's chain of operations. Arrays are in global memory and have a
 * number an entry.
 */
#ifndef KV_GPU_PARTS_SCORE_CUH
#define KV_GPU_PARTS_SCORE_CUH

#include "gpu/lane/verbs.cuh"
#include "gpu/parts/parts.cuh"

extern "C" {
#include "ref/parts/parts.h"
}

/* out[i] = RN32(sum[i]) * 2^-40, i < n. */
KV_DEVICE void kv_gpu_scores(const int64_t *sum, int n, float *out) {
  kv_block_read<KV_LOADS>(sum, n, [&](int i, const int64_t *own, int each) {
    KV_UNROLL
    for (int j = 0; j < each; j++) out[i + j] = kv_unfix(own[j]);
  });
  __syncthreads();
}

/* score[i], i < n, divided by how many query rows saw token id[i] when `step`
 * tokens were seen. */
KV_DEVICE void kv_gpu_scores_seen(int step, const uint32_t *id, int n,
                                  float *score) {
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    score[i] = kv_div(score[i], (float)(step - (int)id[i]));
  __syncthreads();
}

/* --- pooling ------------------------------------------------------------ */

/* The first and the last of n places within half a kernel of place i. By any
 * thread. */
KV_DEVICE int kv_pool_low(int i, int half) { return i < half ? 0 : i - half; }
KV_DEVICE int kv_pool_high(int i, int half, int n) {
  return i + half < n ? i + half : n - 1;
}

/* Poolings max, sum and avg. out[i], i < n: the largest, the sum, the average
 * of `kernel` (odd) neighbours of in[i]. Places past the ends are left out of
 * max, and 0 in the others. out is not in. */
KV_DEVICE void kv_gpu_pool_max(const float *in, int n, int kernel, float *out) {
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    int j = kv_pool_low(i, kernel / 2), last = kv_pool_high(i, kernel / 2, n);
    float m = in[j];
    for (j++; j <= last; j++) m = kv_max(m, in[j]);
    out[i] = m;
  }
  __syncthreads();
}

KV_DEVICE void kv_gpu_pool_sum(const int64_t *in, int n, int kernel,
                               int64_t *out) {
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    int j = kv_pool_low(i, kernel / 2), last = kv_pool_high(i, kernel / 2, n);
    int64_t sum = 0;
    for (; j <= last; j++) sum += in[j];
    out[i] = sum;
  }
  __syncthreads();
}

KV_DEVICE void kv_gpu_pool_avg(const float *in, int n, int kernel, float *out) {
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    int j = kv_pool_low(i, kernel / 2), last = kv_pool_high(i, kernel / 2, n);
    float sum = 0;
    for (; j <= last; j++) sum = kv_add(sum, in[j]);
    out[i] = kv_div(sum, (float)kernel);
  }
  __syncthreads();
}

/* --- the observation window's sums ----------------------------------------
 * In the lane's state: planes of n_tokens sums. group: a kv_group_rule. */

/* How many planes a lane has: one, or one for each query head; and plane number
 * `plane`. By any thread. */
KV_DEVICE int kv_gpu_window_planes(const kv_gpu_lane *lane, int group) {
  return group == KV_GROUP_MAX ? lane->queries : 1;
}

KV_DEVICE int64_t *kv_gpu_window_sums(const kv_gpu_at &at,
                                      const kv_gpu_lane *lane, int plane) {
  size_t n = (size_t)at.layer->shape.n_tokens;
  return (int64_t *)kv_gpu_own(at, lane) + (size_t)plane * n;
}

/* sum[i] += the rows' sums of heads [h, end), for the block's entries of an
 * observation that may have several blocks a lane. No barrier. */
KV_DEVICE void kv_gpu_add_heads(const kv_gpu_rows &rows, int h, int end,
                                int64_t *sum) {
  for (int i = kv_gpu_first_entry(); i < rows.entries;
       i += kv_gpu_next_entry()) {
    int64_t own = sum[i];
    for (int j = h; j < end; j++)
      own += rows.sum[(size_t)j * rows.stride + (size_t)i];
    sum[i] = own;
  }
}

/* observe, started by kv_on_observe_entries: adds the rows' sums to the lane's.
 */
KV_DEVICE void kv_gpu_window_add(kv_gpu_at &at, kv_gpu_lane *lane,
                                 const kv_gpu_rows &rows, int group) {
  int planes = kv_gpu_window_planes(lane, group);
  if (planes == 1)
    kv_gpu_add_heads(rows, 0, rows.heads, kv_gpu_window_sums(at, lane, 0));
  else
    for (int h = 0; h < planes; h++)
      kv_gpu_add_heads(rows, h, h + 1, kv_gpu_window_sums(at, lane, h));
  __syncthreads();
}

/* Zeroes the lane's sums. */
KV_DEVICE void kv_gpu_window_clear(kv_gpu_at &at, kv_gpu_lane *lane,
                                   int group) {
  int planes = kv_gpu_window_planes(lane, group);
  for (int h = 0; h < planes; h++) {
    int64_t *sum = kv_gpu_window_sums(at, lane, h);
    for (int i = kv_thread(); i < at.layer->shape.n_tokens; i += KV_BLOCK)
      sum[i] = 0;
  }
  __syncthreads();
}

/* out[0..n): the scores of sum[0..n), pooled (a kv_pooling). Sums stay sums
 * through an average, whose divisor is not applied. */
KV_DEVICE void kv_gpu_score_sums(kv_gpu_at &at, const int64_t *sum, int pooling,
                                 int kernel, int n, float *out) {
  size_t used = at.used;
  if (pooling == KV_POOL_NONE) {
    kv_gpu_scores(sum, n, out);
  } else if (pooling == KV_POOL_AVG) {
    int64_t *pooled = KV_GPU_TAKE(at, int64_t, n);
    kv_gpu_pool_sum(sum, n, kernel, pooled);
    kv_gpu_scores(pooled, n, out);
  } else {
    float *f = KV_GPU_TAKE(at, float, n);
    kv_gpu_scores(sum, n, f);
    kv_gpu_pool_max(f, n, kernel, out);
  }
  at.used = used;
}

/* The largest over the lane's query heads of the score of entry i. By any
 * thread.
 */
KV_DEVICE float kv_gpu_max_plane(const kv_gpu_at &at, const kv_gpu_lane *lane,
                                 int i) {
  float m = kv_unfix(kv_gpu_window_sums(at, lane, 0)[i]);
  for (int h = 1; h < lane->queries; h++)
    m = kv_max(m, kv_unfix(kv_gpu_window_sums(at, lane, h)[i]));
  return m;
}

/* out[i] = the same of entry first + i, i < n. */
KV_DEVICE void kv_gpu_max_planes(const kv_gpu_at &at, const kv_gpu_lane *lane,
                                 int first, int n, float *out) {
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    out[i] = kv_gpu_max_plane(at, lane, first + i);
  __syncthreads();
}

/* out[0..n): the scores of entries first .. by the window's sums: the heads'
 * joined by the group rule, then pooled. Takes of the workspace and gives back.
 */
KV_DEVICE void kv_gpu_window_score_from(kv_gpu_at &at, const kv_gpu_lane *lane,
                                        int group, int pooling, int kernel,
                                        int first, int n, float *out) {
  size_t used = at.used;
  if (kv_gpu_window_planes(lane, group) == 1) {
    kv_gpu_score_sums(at, kv_gpu_window_sums(at, lane, 0) + first, pooling,
                      kernel, n, out);
  } else if (pooling == KV_POOL_NONE) {
    kv_gpu_max_planes(at, lane, first, n, out);
  } else {
    float *best = KV_GPU_TAKE(at, float, n);
    kv_gpu_max_planes(at, lane, first, n, best);
    if (pooling == KV_POOL_MAX)
      kv_gpu_pool_max(best, n, kernel, out);
    else
      kv_gpu_pool_avg(best, n, kernel, out);
  }
  at.used = used;
}

/* observe, started by kv_on_observe_entries: the method's column c of int64 +=
 * the rows' sums over the lane's query heads. */
KV_DEVICE void kv_gpu_column_add(kv_gpu_at &at, kv_gpu_lane *lane, int c,
                                 const kv_gpu_rows &rows) {
  kv_gpu_add_heads(rows, 0, rows.heads, kv_gpu_column_int64(at, lane, c));
  __syncthreads();
}

/* --- keeping ------------------------------------------------------------ */

/* The first `sink` and the last `recent` entries of the lane remain; nothing is
 * done while it holds no more than both. */
KV_DEVICE void kv_gpu_keep_ends(kv_gpu_at &at, kv_gpu_lane *lane, int sink,
                                int recent) {
  int gone = lane->n - sink - recent;
  if (gone <= 0) return;
  for (int i = kv_thread(); i < sink + recent; i += KV_BLOCK)
    lane->list[i] = i < sink ? i : i + gone;
  __syncthreads();
  kv_gpu_keep(at, lane, sink + recent, lane->list);
}

/* Of the first `past` entries the `heavy` of largest score[0..past) remain, and
 * all behind them; nothing is done while past <= heavy. */
KV_DEVICE void kv_gpu_keep_top_recent(kv_gpu_at &at, kv_gpu_lane *lane,
                                      const float *score, int past, int heavy) {
  if (past <= heavy) return;
  if (past == heavy + 1) { /* as at every step of decoding */
    kv_gpu_show(at, KV_CHOSE_K, &score, &past, 1);
    kv_gpu_drop_one(at, lane, kv_gpu_last(score, past));
    return;
  }
  int n = lane->n;
  uint8_t *keep = KV_GPU_TAKE(at, uint8_t, n);
  kv_gpu_flag_all(keep + past, n - past, true);
  kv_gpu_top(at, score, past, heavy, keep);
  kv_gpu_keep_mask(at, lane, keep);
}

#endif

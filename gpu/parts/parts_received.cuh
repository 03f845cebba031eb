/* SPDX-License-Identifier: Apache-2.0
 *
 * The attention that entries received, as in ref/parts/received.h. The
 * observation may have several blocks a lane, each with entries of its own.
 */
#ifndef KV_GPU_PARTS_RECEIVED_CUH
#define KV_GPU_PARTS_RECEIVED_CUH

#include "gpu/parts/parts_score.cuh"

#ifdef __cplusplus
extern "C" {
#endif
#include "ref/parts/received.h"
#ifdef __cplusplus
}
#endif

KV_DEVICE kv_received *kv_gpu_received(const kv_gpu_at &at,
                                       const kv_gpu_lane *lane) {
  return (kv_received *)kv_gpu_window_sums(at, lane, lane->queries);
}

/* The first query that counts; all later ones do. */
KV_DEVICE int kv_gpu_received_first(const kv_gpu_at &at,
                                    const kv_gpu_lane *lane) {
  return kv_gpu_received(at, lane)->first;
}

/* What entry i got from its own token's query, one of these rows, if it is. */
KV_DEVICE void kv_gpu_leave_out_own(const kv_gpu_at &at,
                                    const kv_gpu_lane *lane,
                                    const kv_gpu_rows &rows, int i) {
  int r = i - (rows.entries - rows.rows);
  if (r < 0) return;
  const float *p = rows.p + (size_t)r * (size_t)rows.places * rows.stride;
  for (int h = 0; h < rows.heads; h++)
    kv_gpu_window_sums(at, lane, h)[i] -=
        kv_fix(p[(size_t)h * rows.stride + (size_t)i]);
}

KV_DEVICE float kv_gpu_received_step(const kv_gpu_rows &rows, int i) {
  int64_t most = rows.sum[i];
  for (int h = 1; h < rows.heads; h++) {
    int64_t sum = rows.sum[(size_t)h * rows.stride + (size_t)i];
    most = sum > most ? sum : most;
  }
  return kv_unfix(most);
}

/* observe; own: does a token's own query count for it? */
KV_DEVICE void kv_gpu_received_add(kv_gpu_at &at, kv_gpu_lane *lane,
                                   const kv_gpu_rows &rows, int column,
                                   bool own) {
  float *score = kv_gpu_column_float(at, lane, column);
  bool prompt = rows.first < at.layer->shape.prompt_len;
  int n = rows.entries - (!prompt && !own);
  for (int i = kv_gpu_first_entry(); i < n; i += kv_gpu_next_entry()) {
    if (!prompt) score[i] = kv_add(score[i], kv_gpu_received_step(rows, i));
    if (prompt && !own) kv_gpu_leave_out_own(at, lane, rows, i);
  }
  if (prompt) kv_gpu_window_add(at, lane, rows, KV_GROUP_MAX);
}

/* At every compression, one of which ends every step: a prompt's sums join the
 * column. */
KV_DEVICE void kv_gpu_received_compress(kv_gpu_at &at, kv_gpu_lane *lane,
                                        int column, int queries) {
  kv_received *c = kv_gpu_received(at, lane);
  const kv_shape *s = &at.layer->shape;
  bool gap = kv_received_gap(c, s, queries), prompt = at.step <= s->prompt_len;
  __syncthreads();
  if (kv_thread() == 0) c->next = at.step;
  if (!prompt) return;
  if (kv_thread() == 0 && gap) c->first = s->prompt_len - queries;
  if (kv_thread() == 0) lane->wrote = 1;
  float *score = kv_gpu_column_float(at, lane, column);
  for (int i = kv_thread(); i < lane->n; i += KV_BLOCK) {
    float most = kv_unfix(kv_gpu_window_sums(at, lane, 0)[i]);
    for (int h = 1; h < lane->queries; h++)
      most = kv_max(most, kv_unfix(kv_gpu_window_sums(at, lane, h)[i]));
    score[i] = gap ? most : kv_add(score[i], most);
  }
  kv_gpu_window_clear(at, lane, KV_GROUP_MAX);
}

#endif

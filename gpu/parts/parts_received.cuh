/* SPDX-License-Identifier: Apache-2.0
 *
 * The attention that entries received, kept in a column of floats, as in
 * ref/parts/received.h, which defines what is added when. kv_gpu_received_add
 * is a method's observe (kv_on_observe_entries), kv_gpu_received_compress is
 * called at every compression, and every step must end with one; both by all
 * threads of the block together. column: the method's column.
 */
#ifndef KV_GPU_PARTS_RECEIVED_CUH
#define KV_GPU_PARTS_RECEIVED_CUH

#include "gpu/parts/parts.cuh"

extern "C" {
#include "ref/parts/received.h"
}

/* The lane's kv_received, stored after its sums; by any thread. */
KV_DEVICE kv_received *kv_gpu_received(const kv_gpu_at &at,
                                       const kv_gpu_lane *lane) {
  return (kv_received *)kv_gpu_window_sums(at, lane, lane->queries);
}

/* The first token whose query counts; all later ones do. By any thread. */
KV_DEVICE int kv_gpu_received_first(const kv_gpu_at &at,
                                    const kv_gpu_lane *lane) {
  return kv_gpu_received(at, lane)->first;
}

/* Subtracts from the sums what entry i got from its own token's query, if that
 * is one of these rows. By the thread of the entry. */
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

/* What entry i got from a decode step: the largest over the query heads. By any
 * thread. */
KV_DEVICE float kv_gpu_received_step(const kv_gpu_rows &rows, int i) {
  int64_t most = rows.sum[i];
  for (int h = 1; h < rows.heads; h++) {
    int64_t sum = rows.sum[(size_t)h * rows.stride + (size_t)i];
    most = sum > most ? sum : most;
  }
  return kv_unfix(most);
}

/* observe. own: a token's own query counts for it; if not, the method must also
 * want KV_P. */
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

/* At a prompt's compression its sums join the column, the largest over the
 * query heads; queries: how many of a prompt's last ones are shown, 0: all.
 * Ends with a barrier then. */
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
    float most = kv_gpu_max_plane(at, lane, i);
    score[i] = gap ? most : kv_add(score[i], most);
  }
  kv_gpu_window_clear(at, lane, KV_GROUP_MAX);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Hooks of the methods that keep the best entries by the votes of a window of
 * queries, once after the prompt or repeatedly (grow): the twin of
 * ref/parts/parts_grow.c. Both functions are called by all threads of the block
 * together with the same arguments and, if they do anything, end with a
 * barrier. w, g: the method's options; past: entries of this lane that are kept
 * by score, besides both its ends (kv_grow_ends).
 */
#ifndef KV_GPU_PARTS_GROW_CUH
#define KV_GPU_PARTS_GROW_CUH

#include "gpu/parts/parts.cuh"

extern "C" {
#include "ref/parts/grow.h"
}

/* observe, started by kv_on_observe_entries. */
KV_DEVICE void kv_gpu_grow_observe(kv_gpu_at &at, kv_gpu_lane *lane,
                                   const kv_gpu_rows &rows,
                                   const kv_window_options *w,
                                   const kv_grow_options *g, int past) {
  const kv_shape *s = &at.layer->shape;
  if (rows.first < s->prompt_len ||
      kv_grow_votes(g, w, s, at.step, lane->n, past))
    kv_gpu_window_add(at, lane, rows, w->group);
}

/* compress_lane: the best `past` entries and both ends of the lane remain, and
 * the votes begin anew; does nothing if it is not due. */
KV_DEVICE void kv_gpu_grow_compress(kv_gpu_at &at, kv_gpu_lane *lane,
                                    const kv_window_options *w,
                                    const kv_grow_options *g, int past) {
  int n = lane->n, asked = n - kv_grow_ends(g, w);
  if (!kv_grow_compresses(g, w, &at.layer->shape, at.step, n, past)) return;
  if (asked > past) {
    float *score = KV_GPU_TAKE(at, float, asked);
    uint8_t *keep = KV_GPU_TAKE(at, uint8_t, n);
    kv_gpu_window_score_from(at, lane, w->group, w->pooling, w->kernel,
                             g->sinks, asked, score);
    kv_gpu_flag_all(keep, n, true);
    __syncthreads();
    kv_gpu_top(at, score, asked, past, keep + g->sinks);
    kv_gpu_keep_mask(at, lane, keep);
  }
  kv_gpu_window_clear(at, lane, w->group);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Scorers on a device: the twin of ref/parts/scorers.c, which says what each
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

#include "gpu/parts/parts_score.cuh"
#include "gpu/parts/score_expected.cuh"
#include "gpu/parts/score_keys.cuh"
#include "gpu/parts/score_lag.cuh"

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
 * is not finite is -FLT_MAX. A method that has one scorer names it as ONLY, and
 * its file holds no other. */
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

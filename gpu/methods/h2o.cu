/* SPDX-License-Identifier: Apache-2.0
 *
 * H2O on a device: the twin of ref/methods/h2o.c.
 */
#include "gpu/parts/parts.cuh"
#include "ref/methods/h2o.h"

/* The stored entry that the step of the newest one does not see; -1: none. */
static __device__ int orphan_of(const params *o, const kv_gpu_lane *lane) {
  bool masks = o->variant == MASKED && lane->dropped && o->recent > 0;
  return masks ? lane->n - 1 - o->recent : -1;
}

static __device__ void view(kv_gpu_at &at, const kv_gpu_lane *lane,
                            const kv_gpu_query &, uint8_t *mask) {
  int hidden = orphan_of((const params *)at.params, lane);
  for (int i = kv_thread(); i < lane->n; i += KV_BLOCK) mask[i] = i != hidden;
}

/* Largest logit of the entries before n without the hidden one. */
static __device__ float largest(const float *s, int n, int hidden) {
  uint32_t best = 0;
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    uint32_t key = kv_key(s[i]);
    best = i != hidden && key > best ? key : best;
  }
  return kv_of_key(kv_block_max(best));
}

/* The step's probabilities over what it saw. */
static __device__ void add_seen(kv_gpu_at &at, kv_gpu_lane *lane,
                                const kv_gpu_rows &rows, int hidden) {
  int64_t *column = kv_gpu_column_int64(at, lane, 0);
  for (int h = 0; h < rows.heads; h++) {
    const float *s = rows.s + (size_t)h * rows.stride;
    const float *sink = at.layer->sinks;
    float top = largest(s, lane->n, hidden);
    if (sink) top = kv_max(top, sink[lane->first_head + h]);
    int64_t mass = 0;
    for (int i = kv_thread(); i < lane->n; i += KV_BLOCK)
      if (i != hidden) mass += kv_fix(kv_expm(kv_sub(s[i], top)));
    mass = kv_block_sum(mass);
    if (sink) mass += kv_fix(kv_expm(kv_sub(sink[lane->first_head + h], top)));
    float share = kv_div(1.0f, kv_unfix(mass));
    for (int i = kv_thread(); i < lane->n; i += KV_BLOCK) {
      float p = kv_mul(kv_expm(kv_sub(s[i], top)), share);
      if (i != hidden) column[i] += kv_fix(p);
    }
  }
  __syncthreads();
}

static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *lane,
                               const kv_gpu_rows &rows) {
  const params *o = (const params *)at.params;
  bool prompt = rows.first < at.layer->shape.prompt_len;
  int hidden = prompt ? -1 : orphan_of(o, lane);
  if (o->variant == PREFILL)
    kv_gpu_window_add(at, lane, rows, o->group);
  else if (hidden < 0)
    kv_gpu_column_add(at, lane, 0, rows);
  else if (blockIdx.y == 0) /* what a row saw is summed by one block */
    add_seen(at, lane, rows, hidden);
}

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  int past = lane->n - o->recent;
  if (lane->n <= o->budget) return;
  float *score = KV_GPU_TAKE(at, float, past);
  if (o->variant == PREFILL)
    kv_gpu_window_score_from(at, lane, o->group, KV_POOL_NONE, 1, 0, past,
                             score);
  else
    kv_gpu_scores(kv_gpu_column_int64(at, lane, 0), past, score);
  if (o->scale == SEEN) kv_gpu_scores_seen(at.step, lane->id, past, score);
  kv_gpu_keep_top_recent(at, lane, score, past, o->budget - o->recent);
  if (o->variant == PREFILL) kv_gpu_window_clear(at, lane, o->group);
}

KV_GPU_METHOD(h2o, .view = kv_on_view_apart<view, kv_gpu_no_room>,
              .observe = kv_on_observe_entries<observe>,
              .compress_lane = kv_on_compress_lane<compress_lane>);

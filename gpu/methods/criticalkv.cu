/* SPDX-License-Identifier: Apache-2.0
 *
 * CriticalKV on a device: the twin of ref/methods/criticalkv.c. One thread
 * computes an entry's chain.
 *
 * Allowed local: kv_run_compress<compress_lane>,
 *   what a hook or a format passes by reference, once an entry settled
 */
#include "gpu/parts/scorers.cuh"
#include "ref/methods/criticalkv.h"

static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *lane,
                               const kv_gpu_rows &rows) {
  const params *o = (const params *)at.params;
  kv_gpu_score_observe(at, lane, rows, &o->s);
}

static __device__ float size_of(const kv_gpu_row &v, int d) {
  float sum = 0;
  for (int x = 0; x < d; x++) {
    float y = kv_gpu_element(v, x);
    sum = kv_add(sum, y < 0 ? -y : y);
  }
  return sum;
}

/* Those that stay by score outrank everything. */
static __device__ void weigh(kv_gpu_at &at, const kv_gpu_lane *lane, int first,
                             int n, const uint8_t *in, float *score) {
  const params *o = (const params *)at.params;
  const kv_gpu_layer &l = *at.layer;
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    float size = size_of(kv_gpu_value_row(l, lane, first + i), l.shape.d_v);
    float by = kv_score_finite(kv_mul(kv_add(score[i], o->epsilon), size));
    score[i] = in[i] ? kv_float(0x7f7fffffu) : by;
  }
  __syncthreads();
}

static __device__ void choose(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  int first, n = kv_score_span(&o->s, lane->n, &first);
  int room = o->budget - (lane->n - n);
  if (n <= 0) return;
  uint8_t *keep = KV_GPU_TAKE(at, uint8_t, lane->n);
  kv_gpu_flag_all(keep, lane->n, true);
  __syncthreads();
  uint8_t *stays = KV_GPU_TAKE(at, uint8_t, n);
  float *score = kv_gpu_score(at, lane, &o->s, first, n);
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    stays[i] = kv_score_stays(score[i], o->threshold);
  kv_gpu_top(at, score, n, first_stage(o, room), keep + first);
  weigh(at, lane, first, n, keep + first, score);
  kv_gpu_top(at, score, n, room, keep + first);
  for (int i = kv_thread(); i < n; i += KV_BLOCK) keep[first + i] &= stays[i];
  __syncthreads();
  kv_gpu_keep_mask(at, lane, keep);
}

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  if (kv_score_compresses(&o->s, &at.layer->shape, at.step) &&
      kv_score_over(lane->n, o->budget, o->threshold))
    choose(at, lane);
  kv_gpu_score_forget(at, lane, &o->s);
}

KV_GPU_METHOD(criticalkv, .observe = kv_on_observe_entries<observe>,
              .compress_lane = kv_on_compress_lane<compress_lane>);

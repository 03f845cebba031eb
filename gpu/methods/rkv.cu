/* SPDX-License-Identifier: Apache-2.0
 *
 * R-KV on a device: the twin of ref/methods/rkv.c. The cosines are split over
 * the grid (gpu/parts/similar.cuh); importance and the choice are one block's
 * for each lane, an entry a thread.
 *
 * Allowed cas: kv_run_compress<compress_lane>,
 *   nvcc's path for shared memory, where its sums never are
 */
#include "gpu/parts/parts.cuh"
#include "gpu/parts/ring.cuh"
#include "gpu/parts/similar.cuh"
#include "ref/ground/softcap.h"
#include "ref/methods/rkv.h"

static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *lane,
                               const kv_gpu_rows &rows) {
  const params *o = (const params *)at.params;
  kv_gpu_ring_add(at, lane, rows, o->window, (float *)kv_gpu_own(at, lane));
}

struct rkv_rule {
  static __device__ bool due(const kv_gpu_at &at, const kv_gpu_lane *lane) {
    return lane->n > ((const params *)at.params)->budget;
  }
  static __device__ bool counts(const kv_gpu_at &, const kv_gpu_lane *, int) {
    return true;
  }
  static __device__ float least(const kv_gpu_at &at) {
    return ((const params *)at.params)->threshold;
  }
};

/* --- importance --------------------------------------------------------- */

/* Of a query and a key; one past the largest number counts as 0. */
static __device__ float logit(const kv_gpu_layer &l, const kv_gpu_row &key,
                              const float *q) {
  float s = kv_gpu_key_logit(key, l.shape.d, q, l.shape.scale, l.shape.softcap);
  return kv_finite(s) ? s : 0.0f;
}

/* s[j] = the logit of query head h, or the largest of heads h..end-1. */
static __device__ void logits(kv_gpu_at &at, const kv_gpu_lane *lane, int n,
                              const float *q, int h, int end, float *s) {
  const kv_gpu_layer &l = *at.layer;
  size_t d = (size_t)l.shape.d;
  for (int j = kv_thread(); j < n; j += KV_BLOCK) {
    kv_gpu_row key = kv_gpu_key_row(l, lane, j);
    float best = logit(l, key, q + (size_t)h * d);
    for (int i = h + 1; i < end; i++)
      best = kv_max(best, logit(l, key, q + (size_t)i * d));
    s[j] = best;
  }
  __syncthreads();
}

/* I of the entries before the window. */
static __device__ float *importance(kv_gpu_at &at, const kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  int n = lane->n - o->window, heads = lane->queries;
  int each = o->group == MAX_LOGIT ? heads : 1,
      votes = o->window * heads / each;
  size_t row = (size_t)heads * (size_t)at.layer->shape.d;
  const float *q = (const float *)kv_gpu_own(at, lane);
  float *out = KV_GPU_TAKE(at, float, n), *s = KV_GPU_TAKE(at, float, n);
  int64_t *acc = KV_GPU_TAKE(at, int64_t, n);
  for (int j = kv_thread(); j < n; j += KV_BLOCK) acc[j] = 0;
  for (int t = 0; t < o->window; t++, q += row)
    for (int h = 0; h < heads; h += each) {
      logits(at, lane, n, q, h, h + each, s);
      kv_gpu_probabilities(n, s);
      for (int j = kv_thread(); j < n; j += KV_BLOCK) acc[j] += kv_fix(s[j]);
      __syncthreads();
    }
  for (int j = kv_thread(); j < n; j += KV_BLOCK)
    s[j] = kv_div(kv_unfix(acc[j]), (float)votes);
  __syncthreads();
  kv_gpu_pool_max(s, n, o->kernel, out);
  return out;
}

/* --- compression --------------------------------------------------------- */

/* Those before the window whose flag is set, best first, then the window. */
static __device__ void keep_by_score(kv_gpu_at &at, kv_gpu_lane *lane,
                                     const float *score, const uint8_t *keep) {
  const params *o = (const params *)at.params;
  int past = lane->n - o->window;
  int32_t *list = KV_GPU_TAKE(at, int32_t, lane->n);
  int m = kv_gpu_indexes(0, past, keep, true, list);
  kv_gpu_order(at, score, m, list);
  for (int i = kv_thread(); i < o->window; i += KV_BLOCK)
    list[m + i] = past + i;
  __syncthreads();
  kv_gpu_keep(at, lane, m + o->window, list);
}

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  int n = lane->n, past = n - o->window;
  if (!rkv_rule::due(at, lane)) return;
  kv_gpu_similar of = kv_gpu_take_similar(at);
  float *score = importance(at, lane);
  kv_spare how = {o->threshold, o->redundancy == PAPER, o->fallback == INDEX0};
  const float *r = kv_gpu_repeated(at, n, how, of);
  uint8_t *keep = KV_GPU_TAKE(at, uint8_t, n);
  float rest = kv_sub(1.0f, o->lambda);
  for (int j = kv_thread(); j < past; j += KV_BLOCK)
    score[j] = kv_fma(-rest, r[j], kv_mul(o->lambda, score[j]));
  kv_gpu_flag_all(keep + past, o->window, true);
  kv_gpu_top(at, score, past, o->budget - o->window, keep);
  if (o->slots == BY_SCORE)
    keep_by_score(at, lane, score, keep);
  else
    kv_gpu_keep_mask(at, lane, keep);
}

static void on_compress(void *s, const kv_gpu_layer *l) {
  kv_gpu_start_similar<rkv_rule>(s, l);
  kv_on_compress_lane<compress_lane>(s, l);
}

KV_GPU_METHOD(rkv, .observe = kv_on_observe<observe>,
              .compress_lane = on_compress);

/* SPDX-License-Identifier: Apache-2.0
 *
 * ChunkKV on a device: the twin of ref/methods/chunkkv.c, one block for all
 * lanes of the layer. One thread computes a chunk's chain.
 */
#include "gpu/parts/scorers.cuh"
#include "ref/methods/chunkkv.h"

static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *lane,
                               const kv_gpu_rows &rows) {
  const params *o = (const params *)at.params;
  kv_gpu_score_observe(at, lane, rows, &o->s);
}

/* The lanes' scores, added up. */
static __device__ float *totals(kv_gpu_at &at, const params *o,
                                kv_gpu_lane *lane, int lanes, int first,
                                int n) {
  float *total = KV_GPU_TAKE(at, float, n);
  for (int l = 0; l < lanes; l++) {
    size_t used = at.used;
    const float *score = kv_gpu_score(at, &lane[l], &o->s, first, n);
    for (int i = kv_thread(); i < n; i += KV_BLOCK)
      total[i] = l ? kv_add(total[i], score[i]) : score[i];
    __syncthreads();
    at.used = used;
  }
  return total;
}

static __device__ float mean_of(const float *total, int first, int end) {
  float sum = 0;
  for (int i = first; i < end; i++) sum = kv_add(sum, total[i]);
  return kv_div(sum, (float)(end - first));
}

static __device__ int end_of(const chunks *c, int k, int n) {
  return (k + 1) * c->length < n ? (k + 1) * c->length : n;
}

/* least: of a chunk's value; NaN: any. */
static __device__ void choose(kv_gpu_at &at, const chunks *c,
                              const float *total, int n, float least,
                              uint8_t *keep) {
  float *mean = KV_GPU_TAKE(at, float, c->number);
  uint8_t *in = KV_GPU_TAKE(at, uint8_t, c->number);
  for (int k = kv_thread(); k < c->number; k += KV_BLOCK)
    mean[k] = mean_of(total, k * c->length, end_of(c, k, n));
  __syncthreads();
  kv_gpu_top(at, mean, c->number, c->kept, in);
  kv_gpu_score_floor(mean, c->number, least, in);
  for (int i = kv_thread(); i < n; i += KV_BLOCK) keep[i] = in[i / c->length];
  __syncthreads();
}

/* In one piece with its kernel, so that kv_gpu_at stays in registers. */
static __device__ __forceinline__ void
compress_layer(kv_gpu_at &at, kv_gpu_lane *lane, int lanes) {
  const params *o = (const params *)at.params;
  int first, entries = lane[0].n, n = kv_score_span(&o->s, entries, &first);
  if (kv_score_compresses(&o->s, &at.layer->shape, at.step) && n > 0 &&
      kv_score_over(entries, o->budget, o->threshold)) {
    chunks c = chunks_of(o, n, o->budget - (entries - n));
    float least = kv_mul(o->threshold, (float)lanes);
    uint8_t *keep = KV_GPU_TAKE(at, uint8_t, entries);
    kv_gpu_flag_all(keep, entries, true);
    __syncthreads();
    choose(at, &c, totals(at, o, lane, lanes, first, n), n, least,
           keep + first);
    for (int l = 0; l < lanes; l++) kv_gpu_keep_mask(at, &lane[l], keep);
  }
  for (int l = 0; l < lanes; l++) kv_gpu_score_forget(at, &lane[l], &o->s);
}

KV_GPU_METHOD(chunkkv, .observe = kv_on_observe_entries<observe>,
              .compress_layer = kv_on_compress_layer<compress_layer>);

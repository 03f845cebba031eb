/* SPDX-License-Identifier: Apache-2.0
 *
 * AdaKV on a device: the twin of ref/methods/adakv.c, one block for all lanes
 * of the layer.
 */
#include "gpu/parts/scorers.cuh"
#include "ref/methods/adakv.h"

/* A layer's lanes while they are weighed against each other. */
typedef struct plan {
  int lanes;
  int first;      /* of every lane: the first candidate */
  int *n, *base;  /* [lanes] candidates; the budget's share of them */
  float **score;  /* [lanes][n] */
  uint8_t **keep; /* [lanes][n], of the candidates */
} plan;

static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *lane,
                               const kv_gpu_rows &rows) {
  const params *o = (const params *)at.params;
  kv_gpu_score_observe(at, lane, rows, &o->s);
}

static __device__ plan weigh(kv_gpu_at &at, const params *o, kv_gpu_lane *lane,
                             int lanes) {
  plan x = {lanes, 0, nullptr, nullptr, nullptr, nullptr};
  x.n = KV_GPU_TAKE(at, int, lanes);
  x.base = KV_GPU_TAKE(at, int, lanes);
  x.score = KV_GPU_TAKE(at, float *, lanes);
  x.keep = KV_GPU_TAKE(at, uint8_t *, lanes);
  for (int l = 0; l < lanes; l++) {
    int entries = lane[l].n, n = kv_score_span(&o->s, entries, &x.first);
    float *score =
        n > 0 ? kv_gpu_score(at, &lane[l], &o->s, x.first, n) : nullptr;
    uint8_t *keep = KV_GPU_TAKE(at, uint8_t, entries);
    kv_gpu_flag_all(keep, entries, true);
    if (kv_thread() > 0) continue;
    x.n[l] = n;
    x.base[l] = o->budget - (entries - n);
    x.score[l] = score;
    x.keep[l] = keep + x.first;
  }
  __syncthreads();
  return x;
}

static __device__ void normalise(kv_gpu_at &at, const plan &x) {
  for (int l = 0; l < x.lanes; l++) {
    int64_t best = 0, all = 0;
    float *score = x.score[l];
    kv_gpu_top(at, score, x.n[l], x.base[l], x.keep[l]);
    for (int i = kv_thread(); i < x.n[l]; i += KV_BLOCK) {
      int64_t w = kv_fix(score[i]);
      all += w;
      if (x.keep[l][i]) best += w;
    }
    best = kv_block_sum(best);
    all = kv_block_sum(all);
    if (all == 0) continue;
    float share = kv_div(kv_unfix(best), kv_unfix(all));
    for (int i = kv_thread(); i < x.n[l]; i += KV_BLOCK)
      score[i] = kv_mul(score[i], share);
  }
  __syncthreads();
}

static __device__ void share(kv_gpu_at &at, const plan &x) {
  int all = 0;
  for (int l = 0; l < x.lanes; l++) all += x.base[l];
  kv_gpu_top_shared(at, x.score, x.n, x.lanes, all, x.keep);
}

static __device__ int counted(const plan &x, int l) {
  int c = 0;
  for (int i = kv_thread(); i < x.n[l]; i += KV_BLOCK) c += x.keep[l][i];
  return kv_block_sum(c);
}

static __device__ __forceinline__ void interpolate(kv_gpu_at &at, const plan &x,
                                                   float alpha) {
  share(at, x);
  for (int l = 0; l < x.lanes; l++) {
    int least = (int)kv_mul((float)x.base[l], alpha);
    float c = kv_mul((float)counted(x, l), kv_sub(1.0f, alpha));
    int cap = (int)kv_rint(kv_add(c, (float)least));
    kv_gpu_top(at, x.score[l], x.n[l], cap, x.keep[l]);
  }
}

/* The protected ones outrank everything. */
static __device__ void minimum(kv_gpu_at &at, const plan &x, const params *o) {
  int whole = (int)kv_mul((float)o->budget, o->alpha);
  for (int l = 0; l < x.lanes; l++) {
    int safe = whole - (o->budget - x.base[l]);
    kv_gpu_top(at, x.score[l], x.n[l], safe, x.keep[l]);
    for (int i = kv_thread(); i < x.n[l]; i += KV_BLOCK)
      if (x.keep[l][i]) x.score[l][i] = kv_float(0x7f7fffffu);
  }
  share(at, x);
}

static __device__ __forceinline__ void spend(kv_gpu_at &at, const params *o,
                                             const plan &x) {
  if (o->normalise == YES) normalise(at, x);
  if (at.layer->layer < o->skip) {
    for (int l = 0; l < x.lanes; l++)
      kv_gpu_top(at, x.score[l], x.n[l], x.base[l], x.keep[l]);
  } else if (o->safeguard == INTERPOLATE)
    interpolate(at, x, o->alpha);
  else
    minimum(at, x, o);
}

/* In one piece with its kernel, so that kv_gpu_at stays in registers. */
static __device__ __forceinline__ void
compress_layer(kv_gpu_at &at, kv_gpu_lane *lane, int lanes) {
  const params *o = (const params *)at.params;
  int most = 0; /* after an earlier compression lanes differ in length */
  for (int l = 0; l < lanes; l++) most = lane[l].n > most ? lane[l].n : most;
  __syncthreads(); /* before a lane changes */
  if (kv_score_over(most, o->budget, o->threshold)) {
    plan x = weigh(at, o, lane, lanes);
    if (most > o->budget) spend(at, o, x);
    for (int l = 0; l < lanes; l++) {
      kv_gpu_score_floor(x.score[l], x.n[l], o->threshold, x.keep[l]);
      kv_gpu_keep_mask(at, &lane[l], x.keep[l] - x.first);
    }
  }
  for (int l = 0; l < lanes; l++) kv_gpu_score_forget(at, &lane[l], &o->s);
}

KV_GPU_METHOD(adakv, .observe = kv_on_observe_entries<observe>,
              .compress_layer = kv_on_compress_layer<compress_layer>);

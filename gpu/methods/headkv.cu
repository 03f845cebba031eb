/* SPDX-License-Identifier: Apache-2.0
 *
 * HeadKV on a device: the twin of ref/methods/headkv.c.
 *
 * Allowed local: kv_run_compress<compress_lane>,
 *   a hook's kv_gpu_at
 */
#include "gpu/parts/parts_grow.cuh"
#include "gpu/parts/scorers.cuh"
#include "ref/methods/headkv.h"

static __device__ int past(const kv_gpu_at &at, const kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  const kv_gpu_layer &l = *at.layer;
  const float *scores =
      o->named ? (const float *)at.asset[IMPORTANCE].data : nullptr;
  int seen = kv_grow_within(at.step, l.window);
  return kv_headkv_past(o, &l.shape, scores, l.layer, lane->lane, seen);
}

static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *lane,
                               const kv_gpu_rows &rows) {
  const params *o = (const params *)at.params;
  if (o->s.score == KV_SCORE_snapkv)
    kv_gpu_grow_observe(at, lane, rows, &o->s.w, &o->g, past(at, lane));
  else
    kv_gpu_score_observe(at, lane, rows, &o->s);
}

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  if (o->s.score == KV_SCORE_snapkv) {
    kv_gpu_grow_compress(at, lane, &o->s.w, &o->g, past(at, lane));
    return;
  }
  kv_gpu_score_keep(at, lane, past(at, lane), o->threshold, &o->s);
  kv_gpu_score_forget(at, lane, &o->s);
}

KV_GPU_METHOD(headkv, .observe = kv_on_observe_entries<observe>,
              .compress_lane = kv_on_compress_lane<compress_lane>);

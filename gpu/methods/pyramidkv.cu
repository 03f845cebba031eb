/* SPDX-License-Identifier: Apache-2.0
 *
 * PyramidKV on a device: the twin of ref/methods/pyramidkv.c.
 */
#include "gpu/parts/parts_score.cuh"
#include "ref/methods/pyramidkv.h"

static __device__ int past_of_layer(const params *o, const kv_gpu_layer *l,
                                    int n, bool *all) {
  int layers = l->shape.n_layers, w = o->w.window;
  if (o->exact_total == NO)
    return kv_pyramid(o->budget, w, layers, l->layer, n, o->beta, all);
  int max = kv_pyramid(o->budget, w, layers, 0, n, o->beta, all);
  return kv_pyramid_exact(max, o->budget - w, layers, l->layer);
}

static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *lane,
                               const kv_gpu_rows &rows) {
  const params *o = (const params *)at.params;
  kv_gpu_window_observe(at, lane, rows, &o->w);
}

static __device__ void settle_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  bool all;
  int past = past_of_layer(o, at.layer, lane->n, &all);
  if (!all) kv_gpu_window_keep(at, lane, &o->w, past);
  kv_gpu_window_clear(at, lane, o->w.group);
}

KV_GPU_METHOD(pyramidkv, .observe = kv_on_observe_entries<observe>,
              .settle_lane = kv_on_settle_lane<settle_lane>);

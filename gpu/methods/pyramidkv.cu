/* SPDX-License-Identifier: Apache-2.0
 *
 * PyramidKV on a device: the twin of ref/methods/pyramidkv.c.
 */
#include "gpu/parts/parts_grow.cuh"
#include "ref/methods/pyramidkv.h"

static __device__ int past(const kv_gpu_at &at, const kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  const kv_shape *s = &at.layer->shape;
  int n = schedule_length(o, s, lane->n, at.layer->window);
  return past_of_layer(o, s->n_layers, at.layer->layer, n);
}

static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *lane,
                               const kv_gpu_rows &rows) {
  const params *o = (const params *)at.params;
  kv_gpu_grow_observe(at, lane, rows, &o->w, &o->g, past(at, lane));
}

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  kv_gpu_grow_compress(at, lane, &o->w, &o->g, past(at, lane));
}

KV_GPU_METHOD(pyramidkv, .observe = kv_on_observe_entries<observe>,
              .compress_lane = kv_on_compress_lane<compress_lane>);

/* SPDX-License-Identifier: Apache-2.0
 *
 * SnapKV on a device: the twin of ref/methods/snapkv.c.
 */
#include "gpu/parts/parts_grow.cuh"
#include "ref/methods/snapkv.h"

static __device__ int past(const params *o) {
  return o->budget - kv_grow_ends(&o->g, &o->w);
}

static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *lane,
                               const kv_gpu_rows &rows) {
  const params *o = (const params *)at.params;
  kv_gpu_grow_observe(at, lane, rows, &o->w, &o->g, past(o));
}

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  kv_gpu_grow_compress(at, lane, &o->w, &o->g, past(o));
}

KV_GPU_METHOD(snapkv, .observe = kv_on_observe_entries<observe>,
              .compress_lane = kv_on_compress_lane<compress_lane>);

/* SPDX-License-Identifier: Apache-2.0
 *
 * SnapKV on a device: the twin of ref/methods/snapkv.c.
 */
#include "gpu/parts/parts_score.cuh"
#include "ref/methods/snapkv.h"

static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *lane,
                               const kv_gpu_rows &rows) {
  const params *o = (const params *)at.params;
  bool prompt = rows.first < at.layer->shape.prompt_len;
  if (prompt ||
      kv_steps_left(&at.layer->shape, at.step, o->every) < o->w.window)
    kv_gpu_window_observe(at, lane, rows, &o->w);
}

static __device__ void settle_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  kv_gpu_window_keep(at, lane, &o->w, o->budget - o->w.window);
  kv_gpu_window_clear(at, lane, o->w.group);
}

KV_GPU_METHOD(snapkv, .observe = kv_on_observe_entries<observe>,
              .settle_lane = kv_on_settle_lane<settle_lane>);

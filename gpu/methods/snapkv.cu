/* SPDX-License-Identifier: Apache-2.0
 *
 * SnapKV on a device: the twin of ref/methods/snapkv.c.
 */
#include "gpu/parts/parts_score.cuh"
#include "ref/methods/snapkv.h"

/* Decode steps until the next settling. */
static __device__ int steps_left(const kv_gpu_at &at, int every) {
  int past = (at.step - at.layer->shape.prompt_len) % every;
  return past == 0 ? 0 : every - past;
}

static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *lane,
                               const kv_gpu_rows &rows) {
  const params *o = (const params *)at.params;
  bool prompt = rows.first < at.layer->shape.prompt_len;
  if (prompt || steps_left(at, o->every) < o->w.window)
    kv_gpu_window_observe(at, lane, rows, &o->w);
}

static __device__ void settle_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  kv_gpu_window_keep(at, lane, &o->w, o->budget - o->w.window);
  kv_gpu_window_clear(at, lane, o->w.group);
}

KV_GPU_METHOD(snapkv, .observe = kv_on_observe_entries<observe>,
              .settle_lane = kv_on_settle_lane<settle_lane>);

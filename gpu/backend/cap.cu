/* SPDX-License-Identifier: Apache-2.0
 *
 * The cap that some models put on their logits (ref/ground/softcap.h), and the
 * bias of merged entries, which is added after it. Started after the kernels of
 * logits.cu, logits_rows.cu and paged_logits.cu, only for such models, so that
 * others pay neither registers nor instructions for it. A block caps the logits
 * of 256 entries under one query. Cost: a read and a write of the logits.
 */
#include "gpu/lane/logits.cuh"
#include "gpu/shared/device.h"

static __global__ void cap(const __grid_constant__ kv_gpu_layer l, int rows,
                           bool masked) {
  int h = (int)blockIdx.y, r = (int)blockIdx.x % rows;
  int base = (int)blockIdx.x / rows * KV_LOGITS_TILE;
  const kv_gpu_lane *lane = &l.lane[h / (l.shape.n_heads / l.lanes)];
  kv_logits_task a = {lane, base, rows * lane->queries, masked};
  size_t row = (size_t)r * (size_t)l.shape.n_heads + (size_t)h;
  float *s = l.s + row * (size_t)l.stride;
  if (base >= kv_gpu_visible(l, lane, rows - 1)) return;
  for (int e = 0; e < KV_LOGITS_EACH; e++) {
    int i = base + e * KV_BLOCK + kv_thread();
    if (!kv_logits_wanted(l, a, i)) continue;
    float y = kv_softcap(l.shape.softcap, s[i]), bias = kv_gpu_bias(l, lane, i);
    if (bias != 0) y = kv_add(kv_add(y, bias), 0.0f);
    s[i] = y;
  }
}

extern "C" void kv_gpu_start_cap(void *stream, const kv_gpu_layer *l, int rows,
                                 int masked) {
  unsigned tiles = kv_logits_grid(l).x;
  dim3 grid(tiles * (unsigned)rows, (unsigned)l->shape.n_heads);
  if (l->shape.softcap > 0)
    KV_LAUNCH(stream, cap, grid, KV_BLOCK, *l, rows, masked != 0);
}

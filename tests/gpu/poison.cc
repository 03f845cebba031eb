/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel of tests/gpu/check_gpu_rows.c: K and V of the tokens that entered,
 * in the uploaded trace, become NaN in any type.
 */
#include "gpu/block/block.cuh"
#include "gpu/shared/device.h"

static __device__ void spoil(const kv_gpu_layer &l, const char *side,
                             int width) {
  size_t row = (size_t)width * (l.shape.dtype == KV_F32 ? 4 : 2);
  size_t first = (size_t)l.clock->first, count = (size_t)l.clock->count;
  for (size_t g = 0; g < (size_t)l.shape.n_kv_heads; g++) {
    size_t at = (g * (size_t)l.shape.n_tokens + first) * row;
    for (size_t x = (size_t)kv_thread(); x < count * row; x += KV_BLOCK)
      ((char *)(uintptr_t)side)[at + x] = (char)0xff;
  }
}

static __global__ void poison(kv_gpu_layer l) {
  spoil(l, l.k, l.shape.d);
  spoil(l, l.v, l.shape.d_v);
}

extern "C" void poison_start(void *stream, const kv_gpu_layer *l) {
  KV_LAUNCH(stream, poison, 1, KV_BLOCK, *l);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * A ring of queries on a device: the twin of ref/parts/ring.h. All threads of
 * the block call it with the same arguments; it ends with a barrier.
 */
#ifndef KV_GPU_RING_CUH
#define KV_GPU_RING_CUH

#include "gpu/lane/method.cuh"

extern "C" {
#include "ref/parts/ring.h"
}

KV_DEVICE void kv_gpu_ring_add(const kv_gpu_at &at, const kv_gpu_lane *lane,
                               const kv_gpu_rows &rows, int window,
                               float *ring) {
  size_t d = (size_t)at.layer->shape.d, size = (size_t)lane->queries * d;
  for (int r = 0; r < rows.rows; r++) {
    float *to = ring + (size_t)((rows.first + r) % window) * size;
    const float *q = rows.q + (size_t)r * (size_t)rows.places * d;
    for (int i = kv_thread(); i < (int)size; i += KV_BLOCK) to[i] = q[i];
    __syncthreads();
  }
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A ring of queries in a lane's state, those of the last `window` tokens, for
 * methods that use them when they compress: the twin of ref/parts/ring.h.
 */
#ifndef KV_GPU_RING_CUH
#define KV_GPU_RING_CUH

#include "gpu/lane/method.cuh"

extern "C" {
#include "ref/parts/ring.h"
}

/* observe (kv_on_observe), of a method that wants KV_Q: the rows' queries take
 * their places in ring [window][lane->queries][d], token t at t % window. By
 * all threads of the block together; ends with a barrier. */
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

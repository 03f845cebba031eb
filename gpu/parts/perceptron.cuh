/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear layers of perceptrons on a device. A product is one chain of fma, then
 * + 0, in one thread, which computes one output for up to ROWS inputs at a
 * time, so that a row of weights is read once for these.
 */
#ifndef KV_GPU_PERCEPTRON_CUH
#define KV_GPU_PERCEPTRON_CUH

#include "gpu/block/block.cuh"
#include "ref/ground/activation.h"

/* Calls then(i, j, w_j . x_i) for all i < m and j < n, each by one thread: x_i
 * are d floats at x + i * ldx, w_j the rows of w [n][d]. By all threads of the
 * block together with the same arguments; ends with a barrier. */
template <int ROWS, class Then>
static __device__ void kv_gpu_products(int m, int n, int d, const float *x,
                                       int ldx, const float *w, Then then) {
  for (int first = 0; first < m; first += ROWS) {
    int rows = m - first < ROWS ? m - first : ROWS;
    for (int j = kv_thread(); j < n; j += KV_BLOCK) {
      const float *own = w + (size_t)j * (size_t)d, *row[ROWS];
      float acc[ROWS];
      KV_UNROLL
      for (int i = 0; i < ROWS; i++) {
        row[i] = x + (size_t)(first + (i < rows ? i : 0)) * (size_t)ldx;
        acc[i] = 0;
      }
      for (int y = 0; y < d; y++) {
        float one = own[y];
        KV_UNROLL
        for (int i = 0; i < ROWS; i++) acc[i] = kv_fma(row[i][y], one, acc[i]);
      }
      KV_UNROLL
      for (int i = 0; i < ROWS; i++)
        if (i < rows) then(first + i, j, kv_add(acc[i], 0.0f));
    }
  }
  __syncthreads();
}

#endif

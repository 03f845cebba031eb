/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear layers of perceptrons on a device: products as arithmetic 1 has them
 * with scale 1, an output a thread. Called by all threads of a block; ends with
 * a barrier.
 */
#ifndef KV_GPU_PERCEPTRON_CUH
#define KV_GPU_PERCEPTRON_CUH

#include "gpu/block/block.cuh"
#include "ref/ground/activation.h"

/* w . x: one chain, + 0. */
KV_DEVICE float kv_gpu_product(const float *w, const float *x, int d) {
  float acc = 0;
  for (int i = 0; i < d; i++) acc = kv_fma(x[i], w[i], acc);
  return kv_add(acc, 0.0f);
}

/* then(i, j, w_j . x_i), i < m, j < n; rows of x and of w have d elements. */
template <class Then>
static __device__ void kv_gpu_products(int m, int n, int d, const float *x,
                                       const float *w, Then then) {
  for (int at = kv_thread(); at < m * n; at += KV_BLOCK) {
    int i = at / n, j = at % n;
    then(i, j,
         kv_gpu_product(w + (size_t)j * (size_t)d, x + (size_t)i * (size_t)d,
                        d));
  }
  __syncthreads();
}

#endif

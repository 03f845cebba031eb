/* SPDX-License-Identifier: Apache-2.0
 *
 * A tile of what latent vectors decode to, for the kernels that make rows
 * (gpu/backend/rebuilt.cu, rebuilt_stages.cu).
 */
#ifndef KV_GPU_BACKEND_REBUILT_CUH
#define KV_GPU_BACKEND_REBUILT_CUH

#include "gpu/block/tile.cuh"
#include "gpu/lane/rebuilt.cuh"
#include "gpu/shared/device.h"

/* Element i of the hidden layer of the token that is attended at place j. */
KV_DEVICE float kv_rebuilt_deep(const kv_gpu_rebuilt &r, int j, int i) {
  return r.deep[(size_t)j * (size_t)r.by.deep + (size_t)i];
}

/* then(j, column, what it is before its rotation) for columns `first` on of a
 * side, KV_SIDE at most, of n tokens: those whose place(j) is below 0. input(j,
 * i): element i of what the last layer takes of token j; mean(j, column): of
 * the references that it names. a, b: stages in shared memory. Called by all
 * threads of a block; the caller puts a barrier behind it. */
template <class Place, class Input, class Mean, class Then>
static __device__ void
kv_rebuilt_tile(const kv_gpu_layer &l, const kv_gpu_rebuilt &r,
                kv_rebuilt_side side, int first, int n, float *a, float *b,
                const Place &place, const Input &input, const Mean &mean,
                const Then &then) {
  float acc[KV_DOWN_ROWS][KV_ACROSS];
  int width = kv_rebuilt_width(l.shape, side.key) - first, deep = r.by.deep;
  int base = kv_rebuilt_first(l, side) + first;
  auto weight = [&](int column, int i) {
    return r.by.last[(size_t)(base + column) * (size_t)deep + (size_t)i];
  };
  auto own = [&](int j, int i) { return place(j) < 0 ? input(j, i) : 0.0f; };
  kv_tile_products(deep, n, own, width, weight, a, b, acc);
  KV_UNROLL
  for (int u = 0; u < KV_DOWN_ROWS; u++) {
    int j = kv_tile_row() + u;
    KV_UNROLL
    for (int v = 0; v < KV_ACROSS; v++) {
      int column = kv_tile_column() + v;
      if (j >= n || column >= width || place(j) >= 0) continue;
      float m = r.how.nearest ? mean(j, first + column) : 0;
      then(j, first + column, kv_rebuilt_of(r, acc[u][v], base + column, m));
    }
  }
}

#endif

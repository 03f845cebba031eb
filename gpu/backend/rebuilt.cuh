/* SPDX-License-Identifier: Apache-2.0
 *
 * kv_rebuilt_tile decodes a tile of latent vectors, for the kernels that make
 * rows of them (gpu/backend/rebuilt.cu, rebuilt_stages.cu); the other functions
 * fill its stages (gpu/block/tile.cuh). All threads of a block call each
 * together with the same arguments.
 */
#ifndef KV_GPU_BACKEND_REBUILT_CUH
#define KV_GPU_BACKEND_REBUILT_CUH

#include "gpu/block/async.h"
#include "gpu/block/tile.cuh"
#include "gpu/lane/rebuilt.cuh"
#include "gpu/shared/device.h"

/* --- stages of a tile -----------------------------------------------------
 * Each fills the stage `to` with elements from .. from + KV_DEEP - 1 of n rows,
 * zeros past n, without a barrier: 16 bytes at once if a row's length is a
 * multiple of KV_DEEP and, for latent vectors, elements have two bytes; else
 * element by element. */

/* From rows of `deep` floats; row(j): where row j begins, NULL: zeros. */
template <class Row>
static __device__ void kv_rebuilt_floats(int deep, int n, int from,
                                         const Row &row, float *to) {
  constexpr int EACH = 4, ROWS = (int)KV_BLOCK * EACH / KV_DEEP;
  int x = kv_thread() % (KV_DEEP / EACH) * EACH;
  if (deep % KV_DEEP) {
    auto one = [&](int j, int i) { return row(j) ? row(j)[i] : 0.0f; };
    kv_tile_load(deep, n, from, one, to);
    return;
  }
  KV_UNROLL
  for (int u = 0; u < KV_SIDE / ROWS; u++) {
    int j = kv_thread() / (KV_DEEP / EACH) + u * ROWS;
    const float *own = j < n ? row(j) : nullptr;
    kv_quad q = {};
    if (own) q = *(const kv_quad *)(own + from + x);
    KV_UNROLL
    for (int e = 0; e < EACH; e++)
      to[(x + e) * (KV_SIDE + KV_PAD) + j] = q.x[e];
  }
}

/* From latent vectors; place(j): ~ the number of row j's; 0 or more: zeros. */
template <class Place>
static __device__ void kv_rebuilt_latents(const kv_gpu_rebuilt &r, int n,
                                          int from, const Place &place,
                                          float *to) {
  constexpr int EACH = 8;
  static_assert(KV_SIDE * KV_DEEP == EACH * (int)KV_BLOCK, "a piece a thread");
  bool half = r.how.type == KV_LATENT_FP16 || r.how.type == KV_LATENT_BF16;
  int j = kv_thread() / (KV_DEEP / EACH);
  int x = kv_thread() % (KV_DEEP / EACH) * EACH;
  if (!half || r.how.latent % KV_DEEP) {
    auto one = [&](int i, int e) {
      return place(i) < 0 ? kv_rebuilt_latent(r, ~place(i), e) : 0.0f;
    };
    kv_tile_load(r.how.latent, n, from, one, to);
    return;
  }
  kv_piece piece = {};
  if (j < n && place(j) < 0)
    piece = *(const kv_piece *)(r.latent + (size_t)~place(j) * (size_t)r.bytes +
                                2 * (size_t)(from + x));
  KV_UNROLL
  for (int e = 0; e < EACH; e += 2) {
    float two[2];
    kv_gpu_widen_two(r.how.type == KV_LATENT_FP16 ? KV_F16 : KV_BF16,
                     piece.word[e / 2], two);
    to[(x + e) * (KV_SIDE + KV_PAD) + j] = two[0];
    to[(x + e + 1) * (KV_SIDE + KV_PAD) + j] = two[1];
  }
}

/* Writes columns first .. first + KV_SIDE - 1 of a side, as far as it has them,
 * of n <= KV_SIDE tokens whose place(j) is below 0, as they are before a key's
 * rotation: column `column` of token j to at(j, column), which no other thread
 * writes. rows [n][r.by.deep]: the last layer's input for each; NULL: the
 * latent vector. mean(j, column, four): of the references that token j names,
 * KV_ACROSS columns from `column` on. a, b: stages in shared memory,
 * [KV_TILE_ROOM]. Has barriers, but none at its end. Products leave their
 * registers before means are added, in a loop that is not unrolled, as the code
 * of a mean is long: unrolled, nvcc would compile it 8 times. */
template <class Place, class Mean, class At>
static __device__ void
kv_rebuilt_tile(const kv_gpu_layer &l, const kv_gpu_rebuilt &r,
                kv_rebuilt_side side, int first, int n, float *a, float *b,
                const Place &place, const float *rows, const Mean &mean,
                const At &at) {
  static_assert(KV_ACROSS == 4, "as many columns as kv_rebuilt_mean writes");
  float acc[KV_DOWN_ROWS][KV_ACROSS];
  int width = kv_rebuilt_width(l.shape, side.key) - first, deep = r.by.deep;
  int base = kv_rebuilt_first(l, side) + first;
  auto input = [&](int j) {
    return place(j) < 0 ? rows + (size_t)j * (size_t)deep : nullptr;
  };
  auto weight = [&](int column) {
    return r.by.last + (size_t)(base + column) * (size_t)deep;
  };
  kv_tile_chains(
      deep,
      [&](int from) {
        if (rows)
          kv_rebuilt_floats(deep, n, from, input, a);
        else
          kv_rebuilt_latents(r, n, from, place, a);
      },
      [&](int from) { kv_rebuilt_floats(deep, width, from, weight, b); }, a, b,
      acc);
  auto mine = [&](int j, int column) {
    return j < n && column < width && place(j) < 0;
  };
  KV_UNROLL
  for (int u = 0; u < KV_DOWN_ROWS; u++) {
    int j = kv_tile_row() + u, column = kv_tile_column();
    if (!mine(j, column)) continue;
    KV_UNROLL
    for (int v = 0; v < KV_ACROSS; v++)
      if (column + v < width) at(j, first + column + v) = acc[u][v];
  }
  KV_ROLLED
  for (int u = 0; u < KV_DOWN_ROWS; u++) {
    int j = kv_tile_row() + u, column = kv_tile_column();
    float four[KV_ACROSS] = {};
    if (!mine(j, column)) continue;
    if (r.how.nearest) mean(j, first + column, four);
    KV_UNROLL
    for (int v = 0; v < KV_ACROSS; v++) {
      if (column + v >= width) continue;
      float &y = at(j, first + column + v);
      y = kv_rebuilt_of(r, y, base + column + v, four[v]);
    }
  }
}

#endif
